"""What the authority- and severity-aware MMR does to precedents, beside plain similarity, at what relevance.

    python benchmarks/precedent_diversity.py --cases judgments.jsonl.gz --cases generated

Every `--step`-th case asks for its like with the first 300 characters of its facts and its charge, and is left out of
its own answer. Of the five best cases, means over the queries with 95 % intervals:

    charge precision     share with one of the asking case's charges: the relevance
    court tier           mean tier score of the courts, 1.0 (basic) to 1.1 (high, supreme)
    higher courts        share of intermediate, high and supreme courts
    severity spread      mean |ΔPSI| of all pairs over the largest distance in the candidate set
    outcomes             different main outcomes (kind of penalty, suspended or not, whole years of the term)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
K, DEPTH, FACTS = 5, 51, 300
MEASURES = ("charge precision", "court tier", "higher courts", "severity spread", "outcomes")
SYSTEMS = {"similarity": (1.0, 0.0, False), "+ charge": (1.0, 0.0, True), "+ charge + MMR (paper)": (0.7, 0.3, True)}
"""Name -> alpha, beta, with the boost of the charge."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("LEGAL_RL_DATA", ROOT.parent / "shared" / "data")) / "judgments.jsonl.gz"
    parser.add_argument("--cases", action="append", help="default: the data folder's judgments, and generated ones")
    parser.add_argument("--step", type=int, default=5)
    options = parser.parse_args()
    specs = options.cases or ([str(data)] if data.is_file() else []) + ["generated"]
    from legal_rl.evaluation.statistics import bootstrap_means
    from retrieval_server.index import build_index

    with tempfile.TemporaryDirectory() as folder:
        index = build_index(Path(folder) / "index", (), specs, "none")
        asking = [case for case in index.cases if case.charges and case.psi is not None][:: options.step]
        result: dict[str, Any] = {"cases": len(index.cases), "queries": len(asking)}
        print(f"{len(index.cases)} cases, {len(asking)} queries, top {K}")
        for name, (alpha, beta, boosted) in SYSTEMS.items():
            rows = [measured(index, case, alpha, beta, boosted) for case in asking]
            intervals = bootstrap_means(rows, resamples=2_000)
            result[name] = {m: [i.mean, i.low, i.high] for m, i in zip(MEASURES, intervals, strict=True)}
            cells = (f"{m} {i.mean:.3f} ({i.low:.3f}–{i.high:.3f})" for m, i in zip(MEASURES, intervals, strict=True))
            print(f"{name:24s}", "   ".join(cells))
    out = ROOT / "benchmarks" / "results" / "precedents.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")


def measured(index: Any, asking: Any, alpha: float, beta: float, boosted: bool) -> list[float]:
    """The measures of one query's answer, in the order of `MEASURES`."""
    from retrieval_server.precedents import rerank_precedents
    from retrieval_server.types import SearchQuery, Source

    query = SearchQuery(
        source=Source.PRECEDENT, query=asking.facts[:FACTS], charge=asking.charges[0] if boosted else "", top_k=K
    )
    candidates = [c for c in index.case_candidates([query], DEPTH)[0] if c.case.id != asking.id][: DEPTH - 1]
    units = rerank_precedents(query, [(c.case, c.relevance) for c in candidates], K, alpha, beta)
    by_id = {c.case.id: c.case for c in candidates}
    spread = np.ptp([c.case.psi for c in candidates if c.case.psi is not None] or [0.0])
    return of_answer([by_id[unit.id] for unit in units], set(asking.charges), float(spread))


def of_answer(cases: Sequence[Any], charges: set[str], d_max: float) -> list[float]:
    from retrieval_server.courts import authority_score

    if not cases:
        return [0.0, 1.0, 0.0, 0.0, 0.0]
    known = [case.psi for case in cases if case.psi is not None]
    pairs = [abs(a - b) for a, b in combinations(known, 2)]
    tiers = [authority_score(case.court_level) for case in cases]
    return [
        float(np.mean([bool(charges & set(case.charges)) for case in cases])),
        float(np.mean(tiers)),
        float(np.mean([tier > 1.0 for tier in tiers])),
        float(np.mean(pairs)) / d_max if pairs and d_max else 0.0,
        float(len({outcome(case) for case in cases})),
    ]


def outcome(case: Any) -> tuple[str, bool, int]:
    """Kind of the main penalty, suspended or not, whole years; of the most heavily sentenced defendant."""
    from retrieval_server.severity import parse_sentence

    sentences = [s for s in parse_sentence(case.result) if s.psi is not None] if case.result.strip() else []
    if not sentences:
        return ("unknown", False, 0)
    heaviest = max(sentences, key=lambda s: s.psi or 0.0)
    return (str(heaviest.penalty), heaviest.suspended, heaviest.months // 12)


if __name__ == "__main__":
    main()
