"""Ablation of statute retrieval on queries with gold articles: what each part adds, in one run.

    python benchmarks/ablate_retrieval.py --corpus norms.jsonl.gz --corpus norms_regulations.jsonl.gz \\
        --queries statute_queries.jsonl.gz [--encoder fuse:64]

Rows: BM25 over words; the dense encoder; both by reciprocal rank with equal weights; words and bigrams mixed; then the
learned ranking by five-fold cross-validation (every query is scored by a model that saw none of its fold) without the
charges, without the everyday words, and whole; citations resolved first in the last rows. nDCG@10 by type. Without
`--encoder` the dense rows are left out (encoding the articles takes minutes). Also in benchmarks/results/ablation.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
K, DEPTH = 10, 100
CHARGE = ("charge_named", "charge_cued", "has_charge")
LEXICON = ("lexicon", "lexicon_bigram")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("LEGAL_RL_DATA", ROOT.parent / "shared" / "data"))
    norms = [str(data / "norms.jsonl.gz"), str(data / "norms_regulations.jsonl.gz")]
    parser.add_argument("--corpus", action="append", default=None)
    parser.add_argument("--queries", type=Path, default=data / "statute_queries.jsonl.gz")
    parser.add_argument("--encoder", default="none")
    parser.add_argument("--index", type=Path, help="keep the index here and use it again")
    options = parser.parse_args()
    if not options.queries.is_file():
        raise SystemExit(f"skipped: {options.queries} is absent; name a file with --queries")
    from legal_rl.evaluation.retrieval import read_gold_queries
    from retrieval_server.index import ensure_index

    folder = options.index or Path(tempfile.mkdtemp()) / "index"
    index = ensure_index(folder, options.corpus or norms, (), options.encoder)
    ids = {article.id for article in index.articles}
    queries = [query for query in read_gold_queries(options.queries) if query.gold and query.gold <= ids]
    runs = {**sparse_and_dense(index, queries), **learned(index, queries)}
    cited = citations(index, queries)
    for name in ("words and bigrams", "learned, no charges", "learned, no everyday words", "learned"):
        runs[f"citations + {name}"] = [front(c, run) for c, run in zip(cited, runs[name], strict=True)]
    table = {name: quality(index, queries, run) for name, run in runs.items()}
    report(table, queries)
    out = ROOT / "benchmarks" / "results" / "ablation.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(table, indent=1, ensure_ascii=False), encoding="utf-8")


def sparse_and_dense(index: Any, queries: Sequence[Any]) -> dict[str, list[list[int]]]:
    """Rows of articles by BM25, by the encoder and by both, only those in force."""
    from retrieval_server.fusion import reciprocal_rank_fusion

    hybrid, mask_N = index.statutes, index.in_force_mask()
    words = [
        found.rows_N.tolist()
        for found in hybrid.sparse.search([hybrid.segmenter.terms(q.text) for q in queries], DEPTH, mask_N)
    ]
    runs = {"BM25 words": words}
    if hybrid.dense is not None and hybrid.encoder is not None:
        dense = [
            h.rows_N.tolist() for h in hybrid.dense.search(hybrid.encode([q.text for q in queries]), DEPTH, mask_N)
        ]
        runs["dense"] = dense
        runs["BM25 + dense (RRF)"] = [
            [row for row, *_ in reciprocal_rank_fusion({"words": w, "dense": d})]
            for w, d in zip(words, dense, strict=True)
        ]
    return runs


def learned(index: Any, queries: Sequence[Any]) -> dict[str, list[list[int]]]:
    """The fitted ranking, held out, whole and with groups of features switched off before the fit."""
    from fit_ranker import FOLDS, MIXED_WEIGHT, SUSPECT, collect, fit, read_suspects, source_of

    from retrieval_server.ranking.features import FEATURES

    rows = collect(index, queries)
    sources = np.array([source_of(q.id) for q in queries])
    weights_Q = np.array([(1000 / (sources == name).sum()) ** 0.5 for name in sources])
    suspect = read_suspects(SUSPECT)
    trusted = np.array([q.id not in suspect for q in queries])
    folds_Q = np.random.default_rng(0).integers(0, FOLDS, len(queries))
    fold_of_row = np.repeat(folds_Q, np.diff(rows.starts_Q))
    runs = {"words and bigrams": ordered(rows, rows.mixed)}
    for name, off in (
        ("learned, no charges", CHARGE), ("learned, no everyday words", LEXICON), ("learned", ()),
    ):  # fmt: skip
        features = rows.features.copy()
        features[:, [FEATURES.index(feature) for feature in off]] = 0
        part, scores = replace(rows, features=features), np.zeros(len(rows.is_gold))
        for fold in range(FOLDS):
            model = fit(part, np.flatnonzero((folds_Q != fold) & trusted), weights_Q)
            scores[fold_of_row == fold] = model.decision_function(features[fold_of_row == fold])
        runs[name] = ordered(rows, scores + MIXED_WEIGHT * rows.mixed)
    return runs


def ordered(rows: Any, scores: np.ndarray) -> list[list[int]]:
    parts = [slice(rows.starts_Q[q], rows.starts_Q[q + 1]) for q in range(len(rows.starts_Q) - 1)]
    return [rows.rows[part][np.argsort(-scores[part], kind="stable")][:DEPTH].tolist() for part in parts]


def citations(index: Any, queries: Sequence[Any]) -> list[list[int]]:
    """Rows of the articles that each query cites."""
    from retrieval_server.types import SearchQuery, Source

    asked = [SearchQuery(source=Source.STATUTE, query=q.text[:4_000], top_k=K) for q in queries]
    found = index.statute_candidates(asked, K)
    return [[candidate.row for candidate in candidates if candidate.cited] for candidates in found]


def front(cited: list[int], run: list[int]) -> list[int]:
    return [*cited, *(row for row in run if row not in cited)]


def quality(index: Any, queries: Sequence[Any], run: list[list[int]]) -> dict[str, Any]:
    from legal_rl.evaluation.ranking import ranking_quality

    named = {q.id: [index.articles[row].id for row in rows[:K]] for q, rows in zip(queries, run, strict=True)}
    gold, kinds = {q.id: q.gold for q in queries}, {q.id: q.kind for q in queries}
    found = ranking_quality(named, gold, kinds, K, resamples=1_000)
    return {name: row["ndcg"] for name, row in found["by_type"].items()} | {
        "all": found["overall"]["ndcg"],
        "all 95 %": found["ci95"]["overall"]["ndcg"],
    }


def report(table: dict[str, dict[str, Any]], queries: Sequence[Any]) -> None:
    kinds = [*sorted({q.kind for q in queries}), "all"]
    counts = {kind: sum(q.kind == kind for q in queries) or len(queries) for kind in kinds}
    print("| ranking | " + " | ".join(f"{kind} ({counts[kind]})" for kind in kinds) + " | 95 % of all |")
    print("|" + " --- |" * (len(kinds) + 2))
    for name, row in table.items():
        low, high = row["all 95 %"]
        print(f"| {name} | " + " | ".join(f"{row[kind]:.3f}" for kind in kinds) + f" | {low:.3f}–{high:.3f} |")


if __name__ == "__main__":
    main()
