"""Fits the learned statute ranking on queries with gold articles and measures it by cross-validation.

    python benchmarks/fit_ranker.py --corpus norms.jsonl.gz --corpus norms_regulations.jsonl.gz \\
        --queries statute_queries.jsonl.gz

Every query that cites no article is searched once; the features of its candidates are the rows, "is a gold article" the
target. Five folds over queries: each fold is scored by a model that saw none of it. The model that is written saw all.
Queries whose gold number is known to belong to another version of the law (`--suspect`, ids one a line) are left out of
the fit, not out of the measurement (default: `suspect_labels.txt` here). Needs scikit-learn; serving does not.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_server.ranking.features import FEATURES

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "retrieval_server" / "ranking" / "model.json"
SUSPECT = Path(__file__).with_name("suspect_labels.txt")
FOLDS = 5
HARD, RANDOM = 40, 25
"""Candidates per query that enter the fit: the best of the plain mix, and some of the others."""
MIXED_WEIGHT = 1.0
SETTINGS = {
    "max_iter": 150,
    "max_leaf_nodes": 15,
    "learning_rate": 0.08,
    "min_samples_leaf": 40,
    "l2_regularization": 5,
}
MONOTONE = (
    *("word", "word_coverage", "word_rank", "bigram", "bigram_coverage", "bigram_rank", "mixed", "cut", "tight"),
    *("lexicon", "lexicon_bigram", "charge_named", "charge_cued", "question", "body", "body_coverage", "body_question"),
)
"""More of these never lowers a score: the model may not learn the accidents of a few queries."""


@dataclass(frozen=True, slots=True)
class Rows:
    """All candidates of all queries; `starts_Q[q]` to `starts_Q[q + 1]` are those of query q."""

    features: np.ndarray
    is_gold: np.ndarray
    mixed: np.ndarray
    rows: np.ndarray
    starts_Q: np.ndarray


def collect(index: Any, queries: Sequence[Any]) -> Rows:
    """Candidates of every query."""
    from rich.progress import track

    mask_N, parts = index.in_force_mask(), []
    for query in track(queries, "candidates", transient=True):
        found = index.ranker.space.candidates(query.text, mask_N)
        gold = np.array([index.articles[row].id in query.gold for row in found.rows_C], dtype=bool)
        parts.append((found.features_CF, gold, found.mixed_C, found.rows_C))
    starts = np.cumsum([0, *(len(part[1]) for part in parts)])
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)), starts)


def fit(rows: Rows, chosen_Q: np.ndarray, weights_Q: np.ndarray, seed: int = 0) -> Any:
    """A classifier of gold candidates from the chosen queries."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(seed)
    keep, weight = np.zeros(len(rows.is_gold), dtype=bool), np.zeros(len(rows.is_gold))
    cued = FEATURES.index("charge_cued")
    for q in chosen_Q:
        first, last = rows.starts_Q[q], rows.starts_Q[q + 1]
        if not rows.is_gold[first:last].any():
            continue
        keep[first + np.argsort(-rows.mixed[first:last])[:HARD]] = True
        keep[rng.choice(np.arange(first, last), min(RANDOM, last - first), replace=False)] = True
        keep[first:last] |= rows.is_gold[first:last] | (rows.features[first:last, cued] > 0)
        weight[first:last] = weights_Q[q]
    model = HistGradientBoostingClassifier(
        random_state=seed, monotonic_cst=[int(name in MONOTONE) for name in FEATURES], **SETTINGS
    )
    return model.fit(rows.features[keep], rows.is_gold[keep], sample_weight=weight[keep])


def measure(rows: Rows, scores: np.ndarray, queries: Sequence[Any], ids: Sequence[str]) -> dict[str, float]:
    """nDCG@10, by type and by source, of the candidates ordered by `scores`."""
    from legal_rl.evaluation.ranking import ranking_quality

    runs = {}
    for q, query in enumerate(queries):
        part = slice(rows.starts_Q[q], rows.starts_Q[q + 1])
        order = np.lexsort((rows.rows[part], -rows.mixed[part], -scores[part]))[:10]
        runs[query.id] = [ids[row] for row in rows.rows[part][order]]
    gold, types = {q.id: q.gold for q in queries}, {q.id: q.kind for q in queries}
    result = ranking_quality(runs, gold, types, 10, resamples=10)
    by_source = ranking_quality(runs, gold, {q.id: source_of(q.id) for q in queries}, 10, resamples=10)["by_type"]
    rows_of = {**result["by_type"], **by_source, "all": result["overall"]}
    return {name: round(row["ndcg"], 4) for name, row in rows_of.items()}


def as_record(model: Any, mixed_weight: float) -> dict[str, Any]:
    """The fields of `model.json`: nodes of all trees one after the other."""
    columns: dict[str, list[Any]] = defaultdict(list)
    for (tree,) in model._predictors:
        base = len(columns["feature"])
        columns["roots"].append(base)
        for node in tree.nodes:
            leaf = bool(node["is_leaf"])
            columns["feature"].append(-1 if leaf else int(node["feature_idx"]))
            columns["threshold"].append(0 if leaf else float(np.float32(node["num_threshold"])))
            columns["left"].append(0 if leaf else base + int(node["left"]))
            columns["right"].append(0 if leaf else base + int(node["right"]))
            columns["value"].append(float(f"{node['value']:.5g}") if leaf else 0)
    base = float(np.ravel(model._baseline_prediction)[0])
    return {"features": list(FEATURES), "base": round(base, 5), "mixed_weight": mixed_weight, **columns}


def source_of(query_id: str) -> str:
    return query_id.rsplit("-", 1)[0]


def read_suspects(path: Path) -> set[str]:
    """Query ids, one a line; lines that begin with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--index", type=Path, help="keep the index here and use it again")
    parser.add_argument("--rows", type=Path, help="also keep the candidates' features here, to try other settings")
    parser.add_argument("--suspect", type=Path, default=SUSPECT, help="ids of queries to leave out of the fit")
    parser.add_argument("--out", type=Path, default=MODEL)
    parser.add_argument("--leave-source-out", action="store_true", help="score each source by the others")
    options = parser.parse_args()
    from legal_rl.evaluation.retrieval import read_gold_queries
    from retrieval_server.citations import resolve_citations
    from retrieval_server.index import ensure_index

    folder = options.index or Path(tempfile.mkdtemp()) / "index"
    index = ensure_index(folder, options.corpus, (), "none")
    ids = [article.id for article in index.articles]
    queries = [
        q for q in read_gold_queries(options.queries)
        if q.gold and q.gold <= set(ids) and (len(q.text) > 60 or not resolve_citations(q.text, index.titles))
    ]  # fmt: skip
    suspect = read_suspects(options.suspect)
    rows = collect(index, queries)
    if options.rows:
        options.rows.write_bytes(pickle.dumps((rows, queries, ids)))
    sources = np.array([source_of(q.id) for q in queries])
    counts = {name: int((sources == name).sum()) for name in set(sources)}
    weights_Q = np.array([(1000 / counts[name]) ** 0.5 for name in sources])
    trusted = np.array([q.id not in suspect for q in queries])
    query_of_row = np.repeat(np.arange(len(queries)), np.diff(rows.starts_Q))
    report: dict[str, Any] = {"queries": len(queries), "mix": measure(rows, rows.mixed, queries, ids)}
    groups = {"folds": np.random.default_rng(0).integers(0, FOLDS, len(queries))}
    if options.leave_source_out:
        groups["sources"] = np.unique(sources, return_inverse=True)[1]
    for name, group_Q in groups.items():
        scores = np.zeros(len(rows.is_gold))
        for group in np.unique(group_Q):
            model = fit(rows, np.flatnonzero((group_Q != group) & trusted), weights_Q)
            held_out = group_Q[query_of_row] == group
            scores[held_out] = model.decision_function(rows.features[held_out])
        report[f"held-out {name}"] = measure(rows, scores + MIXED_WEIGHT * rows.mixed, queries, ids)
    record = as_record(fit(rows, np.flatnonzero(trusted), weights_Q), MIXED_WEIGHT)
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")
    os.replace(temporary, options.out)
    print(json.dumps(report, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
