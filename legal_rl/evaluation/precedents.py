"""Quality of precedent retrieval on LeCaRDv2: recall deep down the ranking and nDCG (`legal-rl eval precedents`).

Files are those that the data set publishes: candidates (`pid`, `fact`, …), queries (`id`, `fact` or `query`) as JSON or
JSON Lines, and qrels in TREC form (`qid 0 pid label`, labels 0 to 3)::

    evaluate_precedents(qrels, queries=Path("query.json"), candidates=[Path("candidate")])
    -> {"n": 159, "overall": {"R@100": 0.53, …, "nDCG@10": 0.61}, "ci95": {…}, "skipped": {…}}

A ranking of any other system is evaluated from its TREC run file, without candidates and queries.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from legal_rl.evaluation.benchmarks.predictions import read_records
from legal_rl.evaluation.statistics import bootstrap_means
from retrieval_server.errors import CorpusError
from retrieval_server.types import MAX_QUERY_CHARS, SearchQuery, Source

DEPTHS = (100, 200, 500, 1000)
"""Cut-offs of the recall, as the data set's authors report them."""
NDCG_DEPTHS = (10, 20, 30)
_BATCH = 16

Ranking = dict[str, list[tuple[str, float]]]
"""Query id -> (candidate id, score), best first."""


def evaluate_precedents(
    qrels: Path,
    *,
    run: Path | None = None,
    queries: Path | None = None,
    candidates: Sequence[str] = (),
    encoder: str = "none",
    index_dir: Path | None = None,
    relevant_from: int = 1,
    depths: Sequence[int] = DEPTHS,
) -> dict[str, Any]:
    """Rank the candidates for every query, or read a ranking, and compare it with the relevance labels.

    Args:
        qrels: TREC relevance file.
        run: TREC run file (`qid Q0 pid rank score name`) to evaluate instead of our own ranking.
        candidates: case specs of `retrieval_server.cases.load_cases`.
        relevant_from: lowest label that counts as relevant for the recall; nDCG uses the labels as gains.

    Returns:
        `overall` and `ci95` by measure over `n` judged queries; one that was not ranked counts 0 in all of them.
        `skipped` (`no_relevant_label` left out, `not_ranked` counted 0) and `cut_queries`, longer than
        `max_query_chars`.

    Raises:
        CorpusError: a file cannot be used, or no query of the qrels is ranked.
    """
    labels = read_qrels(qrels)
    if run:
        ranking, cut = read_run(run), 0
    else:
        ranking, cut = _ranked(queries, candidates, labels, encoder, index_dir, max(depths))
    judged = {query: docs for query, docs in labels.items() if any(v >= relevant_from for v in docs.values())}
    absent = [query for query in judged if query not in ranking]
    if len(absent) == len(judged):
        raise CorpusError(f"{qrels}: none of its {len(judged)} judged queries is ranked")
    asked = [query for query in judged if query in ranking]
    rows = _measured({q: judged[q] for q in asked}, {q: ranking[q] for q in asked}, depths, relevant_from)
    names = [*(f"R@{depth}" for depth in depths), *(f"nDCG@{depth}" for depth in NDCG_DEPTHS), "AP"]
    intervals = bootstrap_means([[rows[q][name] for name in names] for q in judged], resamples=2000)
    return {
        "n": len(judged),
        "relevant_from": relevant_from,
        "overall": {name: interval.mean for name, interval in zip(names, intervals, strict=True)},
        "ci95": {name: [interval.low, interval.high] for name, interval in zip(names, intervals, strict=True)},
        "skipped": {"no_relevant_label": len(labels) - len(judged), "not_ranked": len(absent)},
        "cut_queries": cut,
        "max_query_chars": MAX_QUERY_CHARS,
    }


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Query id -> candidate id -> label; raises `CorpusError` naming file and line."""
    labels: dict[str, dict[str, int]] = defaultdict(dict)
    for number, parts in _columns(path, 4):
        try:
            labels[parts[0]][parts[2]] = int(parts[3])
        except ValueError:
            raise CorpusError(f"{path}: line {number}: label {parts[3]!r} is no whole number") from None
    if not labels:
        raise CorpusError(f"{path}: holds no relevance labels")
    return dict(labels)


def read_run(path: Path) -> Ranking:
    """A TREC run file; raises `CorpusError` naming file and line."""
    ranking: Ranking = defaultdict(list)
    for number, parts in _columns(path, 6):
        try:
            ranking[parts[0]].append((parts[2], float(parts[4])))
        except ValueError:
            raise CorpusError(f"{path}: line {number}: score {parts[4]!r} is no number") from None
    return dict(ranking)


def _columns(path: Path, count: int) -> list[tuple[int, list[str]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read ({error})") from None
    rows = [(number, line.split()) for number, line in enumerate(lines, start=1) if line.strip()]
    for number, parts in rows:
        if len(parts) != count:
            raise CorpusError(f"{path}: line {number}: expected {count} columns, found {len(parts)}")
    return rows


def _measured(
    labels: Mapping[str, Mapping[str, int]], ranking: Ranking, depths: Sequence[int], relevant_from: int
) -> dict[str, dict[str, float]]:
    import ir_measures
    from ir_measures import AP, R, nDCG

    measures: dict[Any, str] = {R(rel=relevant_from) @ depth: f"R@{depth}" for depth in depths}
    measures |= {nDCG @ depth: f"nDCG@{depth}" for depth in NDCG_DEPTHS}
    measures |= {AP(rel=relevant_from): "AP"}
    qrels = [ir_measures.Qrel(q, doc, label) for q, docs in labels.items() for doc, label in docs.items()]
    run = [ir_measures.ScoredDoc(q, doc, score) for q, docs in ranking.items() for doc, score in docs]
    rows: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))  # a query without a ranking has zeros
    for metric in ir_measures.iter_calc(list(measures), qrels, run):
        rows[metric.query_id][measures[metric.measure]] = float(metric.value)
    return rows


def _ranked(
    queries: Path | None,
    candidates: Sequence[str],
    labels: Mapping[str, Any],
    encoder: str,
    index_dir: Path | None,
    depth: int,
) -> tuple[Ranking, int]:
    """The ranking, and how many queries were longer than a search may be."""
    if queries is None or not candidates:
        raise CorpusError("give the queries and the candidates, or a run file")
    from rich.progress import track

    from retrieval_server.index import ensure_index

    texts = [(name, text) for name, text in _query_texts(queries) if name in labels]
    ranking: Ranking = {}
    with ExitStack() as stack:
        folder = index_dir or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "index"
        index = ensure_index(folder, (), list(candidates), encoder)
        starts = range(0, len(texts), _BATCH)
        for start in track(starts, "queries", transient=True, disable=not sys.stderr.isatty()):
            part = texts[start : start + _BATCH]
            asked = [SearchQuery(source=Source.PRECEDENT, query=text[:MAX_QUERY_CHARS]) for _, text in part]
            for (name, _), found in zip(part, index.case_candidates(asked, depth), strict=True):
                ranking[name] = [(hit.case.id, -float(rank)) for rank, hit in enumerate(found)]
    return ranking, sum(len(text) > MAX_QUERY_CHARS for _, text in texts)


def _query_texts(path: Path) -> list[tuple[str, str]]:
    """Id and facts of every query; the whole case where the facts are missing."""
    texts = []
    for number, record in enumerate(read_records(path), start=1):
        text = record.get("fact") or record.get("query")
        if not isinstance(text, str) or not text.strip() or record.get("id") is None:
            raise CorpusError(f"{path}: record {number}: fields 'id' and 'fact' (or 'query') are needed")
        texts.append((str(record["id"]), text))
    return texts
