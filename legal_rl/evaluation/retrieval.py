"""Quality and latency of statute retrieval on queries with gold articles (`legal-rl eval retrieval`).

Query files are JSON Lines, plain or gzipped; of each record `id`, `query`, `type` and `gold_latest` (else `gold`) are
read::

    {"id": "stard-1", "query": "夫妻一方经营个体工商户所欠债务，谁偿还？", "type": "lay_question",
     "gold_latest": ["law/民法典@2020-05-28#56"]}
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from legal_rl.evaluation.ranking import ranking_quality
from legal_rl.evaluation.reference_queries import search_in_batches
from retrieval_server.errors import CorpusError
from retrieval_server.types import MAX_QUERY_CHARS, SearchQuery, SearchResult, Source

if TYPE_CHECKING:
    from retrieval_server.assistant import LegalAssistant

Ranking = Literal["fused", "learned"]

DEEP = 100
"""How deep candidates are looked for: what a reranker behind the search could still find."""

ALONE = 200
"""Queries asked one at a time, for the latency; the others go in batches."""


@dataclass(frozen=True, slots=True)
class GoldQuery:
    """One query and the articles that answer it."""

    id: str
    text: str
    kind: str
    gold: frozenset[str]


def evaluate_retrieval(
    corpora: Sequence[str],
    queries: Path,
    k: int = 10,
    encoder: str = "none",
    index_dir: Path | None = None,
    limit: int | None = None,
    *,
    ranking: Ranking = "learned",
    deep_recall: bool = True,
    seed: int = 0,
    resamples: int = 2000,
) -> dict[str, Any]:
    """Index the corpora, ask every query and compare the `k` best articles with the gold ones.

    Queries with a gold article that is not indexed cannot be answered in full: they are left out and counted.

    Args:
        corpora: corpus specs of `retrieval_server.corpus.load_articles`.
        queries: file of queries with gold ids, see the module's text.
        k: cut-off of all measures.
        encoder: `none` (BM25 and citations), `fuse`, or a sentence-transformers name.
        index_dir: keep the index there and use it again; None = a temporary folder.
        limit: only the first so many queries that can be asked.
        deep_recall: also ask for `DEEP` articles and give `deep`: hit@1 and recall@`DEEP`, overall and by type.
        ranking: `AssistantConfig.ranking`: `learned`, or `fused` as the quickstart has it.

    Returns:
        As `ranking.ranking_quality`, with `latency_ms` (`p50`, `p95`, `mean` of single queries, `batch_per_query`),
        `skipped` (reason -> count), `articles`, `encoder` and `ranking`.

    Raises:
        CorpusError: a corpus or the query file cannot be used.
    """
    from retrieval_server.assistant import LegalAssistant
    from retrieval_server.config import AssistantConfig
    from retrieval_server.index import ensure_index

    records = list(read_gold_queries(queries))
    with ExitStack() as stack:
        folder = index_dir or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "index"
        index = ensure_index(folder, list(corpora), (), encoder)
        usable, skipped = _usable(records, {article.id for article in index.articles})
        if not usable:
            raise CorpusError(f"{queries}: no query has all its gold articles in the corpus ({', '.join(corpora)})")
        usable = usable[:limit]
        assistant = LegalAssistant(index, AssistantConfig(ranking=ranking))
        answers, latency = _ask(assistant, usable, k)
        deep = _rankings(assistant, usable, DEEP) if deep_recall else {}
    runs = {query.id: [unit.id for unit in answer.evidence] for query, answer in zip(usable, answers, strict=True)}
    gold = {query.id: query.gold for query in usable}
    kinds = {query.id: query.kind for query in usable}
    result = ranking_quality(runs, gold, kinds, k, seed=seed, resamples=resamples)
    if deep_recall:
        result["deep"] = _deep(runs, deep, gold, kinds)
    return result | {
        "latency_ms": latency, "skipped": skipped, "articles": len(index.articles),
        "encoder": encoder, "ranking": ranking,
    }  # fmt: skip


def _rankings(assistant: LegalAssistant, queries: Sequence[GoldQuery], k: int) -> dict[str, list[str]]:
    asked = [SearchQuery(source=Source.STATUTE, query=query.text[:MAX_QUERY_CHARS], top_k=k) for query in queries]
    answers = search_in_batches(assistant, asked)
    return {query.id: [unit.id for unit in answer.evidence] for query, answer in zip(queries, answers, strict=True)}


def _deep(
    runs: dict[str, list[str]], deep: dict[str, list[str]], gold: dict[str, frozenset[str]], kinds: dict[str, str]
) -> dict[str, Any]:
    """`hit1` of the answers and `recall` of the deep ones, overall and by type."""
    first = ranking_quality(runs, gold, kinds, 1, resamples=1)
    long = ranking_quality(deep, gold, kinds, DEEP, resamples=1)
    pairs = {name: (first["by_type"][name], long["by_type"][name]) for name in first["by_type"]}
    pairs["overall"] = (first["overall"], long["overall"])
    rows = {name: {"hit1": top["hit"], "recall": far["recall"]} for name, (top, far) in pairs.items()}
    return {"k": DEEP, "overall": rows.pop("overall"), "by_type": rows}


def read_gold_queries(path: Path) -> Iterator[GoldQuery]:
    """The queries of a file; raises `CorpusError` naming file, line and field."""
    seen: set[str] = set()
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    query = _gold_query(line, f"{path}: line {number}")
                    if query.id in seen:
                        raise CorpusError(f"{path}: line {number}: field 'id': {query.id!r} stands twice")
                    seen.add(query.id)
                    yield query
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise CorpusError(f"{path}: cannot be read ({error})") from None


def _gold_query(line: str, where: str) -> GoldQuery:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{where}: not valid JSON ({error.msg})") from None
    if not isinstance(record, dict):
        raise CorpusError(f"{where}: must be a JSON object")
    for field in ("id", "query"):
        if not isinstance(record.get(field), str) or not record[field].strip():
            raise CorpusError(f"{where}: field {field!r}: must be a non-empty string")
    gold = record.get("gold_latest", record.get("gold"))
    if not isinstance(gold, list) or not all(isinstance(item, str) for item in gold):
        raise CorpusError(f"{where}: field 'gold_latest': must be a list of article ids")
    return GoldQuery(record["id"], record["query"], str(record.get("type") or "all"), frozenset(gold))


def _usable(records: Sequence[GoldQuery], indexed: set[str]) -> tuple[list[GoldQuery], dict[str, int]]:
    with_gold = [query for query in records if query.gold]
    usable = [query for query in with_gold if query.gold <= indexed]
    return usable, {"no_current_gold": len(records) - len(with_gold), "gold_not_indexed": len(with_gold) - len(usable)}


def _ask(
    assistant: LegalAssistant, queries: Sequence[GoldQuery], k: int
) -> tuple[list[SearchResult], dict[str, float | int]]:
    """Answers in order, and the latency in milliseconds."""
    from rich.console import Console
    from rich.progress import track

    assistant.warm_up()
    asked = [SearchQuery(source=Source.STATUTE, query=query.text[:MAX_QUERY_CHARS], top_k=k) for query in queries]
    console = Console(stderr=True)
    hidden = not sys.stderr.isatty()
    answers: list[SearchResult] = []
    alone_ms: list[float] = []
    for query in track(asked[:ALONE], "queries, one at a time", console=console, disable=hidden, transient=True):
        started = time.perf_counter()
        answers.extend(search_in_batches(assistant, [query]))
        alone_ms.append(1000 * (time.perf_counter() - started))
    latency = _percentiles(alone_ms)
    rest = asked[ALONE:]
    if rest:
        started = time.perf_counter()
        answers.extend(search_in_batches(assistant, rest))
        latency["batch_per_query"] = round(1000 * (time.perf_counter() - started) / len(rest), 3)
    return answers, latency


def _percentiles(milliseconds: Sequence[float]) -> dict[str, float | int]:
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {
        "p50": round(float(p50), 3),
        "p95": round(float(p95), 3),
        "mean": round(float(np.mean(milliseconds)), 3),
        "n": len(milliseconds),
    }
