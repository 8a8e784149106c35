"""Quality of rankings against gold ids: nDCG, recall, reciprocal rank and hit rate, with bootstrap intervals.

    ranking_quality({"q1": ["a", "b"]}, {"q1": {"b"}}, {"q1": "lay"}, k=10)
    -> {"overall": {"ndcg": 0.63, "recall": 1.0, "mrr": 0.5, "hit": 1.0, "n": 1}, "by_type": {"lay": {…}}, "ci95": {…}}

The measures are ir-measures' (trec_eval underneath); this module only groups them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

from legal_rl.evaluation.statistics import Interval, bootstrap_means

MEASURES = ("ndcg", "recall", "mrr", "hit")

Scores = dict[str, tuple[float, ...]]
"""Query id -> its measures in the order of `MEASURES`."""


def ranking_scores(runs: Mapping[str, Sequence[str]], gold: Mapping[str, Set[str]], k: int) -> Scores:
    """Each query's measures at cut-off `k`.

    Args:
        runs: query id -> document ids, best first; a query without an answer scores 0, it did not find its gold.
        gold: query id -> ids that answer it (binary relevance), at least one.
    """
    import ir_measures
    from ir_measures import RR, R, Success, nDCG

    measures = {"ndcg": nDCG @ k, "recall": R @ k, "mrr": RR @ k, "hit": Success @ k}
    qrels = [ir_measures.Qrel(q, doc, 1) for q, docs in gold.items() for doc in docs]
    # trec_eval orders by score and breaks ties by id: ranks become strictly falling scores.
    run = [ir_measures.ScoredDoc(q, doc, -float(rank)) for q in gold for rank, doc in enumerate(_unique(runs[q]))]
    found: dict[tuple[str, str], float] = defaultdict(float)
    names = {measure: name for name, measure in measures.items()}
    for metric in ir_measures.iter_calc(list(names), qrels, run):
        found[metric.query_id, names[metric.measure]] = float(metric.value)
    return {q: tuple(found[q, name] for name in MEASURES) for q in gold}


def ranking_quality(
    runs: Mapping[str, Sequence[str]],
    gold: Mapping[str, Set[str]],
    types: Mapping[str, str],
    k: int = 10,
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> dict[str, Any]:
    """Means overall and by type, with 95 % bootstrap intervals over queries.

    Args:
        runs: see `ranking_scores`.
        gold: see `ranking_scores`.
        types: query id -> group.

    Returns:
        `overall`, `by_type` (each: the measures and `n`), `ci95` (the same keys: measure -> [low, high]), `k`, `n`.
    """
    scores = ranking_scores(runs, gold, k)
    groups: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for query, row in scores.items():
        groups[types[query]].append(row)
    overall = _intervals(list(scores.values()), seed, resamples)
    by_type = {name: _intervals(groups[name], seed, resamples) for name in sorted(groups)}
    return {
        "k": k,
        "n": len(scores),
        "overall": _means(overall),
        "by_type": {name: _means(row) for name, row in by_type.items()},
        "ci95": {"overall": _bounds(overall), "by_type": {name: _bounds(row) for name, row in by_type.items()}},
    }


def interleave(rankings: Sequence[Sequence[str]]) -> list[str]:
    """Several rankings as one: all first places in order, then all second places, repeats left out.

    Example: [["a", "b"], ["c", "a"]] -> ["a", "c", "b"].
    """
    longest = max((len(ranking) for ranking in rankings), default=0)
    return _unique([ranking[place] for place in range(longest) for ranking in rankings if place < len(ranking)])


def _unique(ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ids))


def _intervals(rows: Sequence[tuple[float, ...]], seed: int, resamples: int) -> list[Interval]:
    if not rows:
        return [Interval(float("nan"), float("nan"), float("nan"), 0)] * len(MEASURES)
    return bootstrap_means(rows, seed=seed, resamples=resamples)


def _means(intervals: Sequence[Interval]) -> dict[str, float | int | None]:
    values = {name: interval.as_dict()["mean"] for name, interval in zip(MEASURES, intervals, strict=True)}
    return {**values, "n": intervals[0].n}


def _bounds(intervals: Sequence[Interval]) -> dict[str, list[float | int | None]]:
    plain = [interval.as_dict() for interval in intervals]
    return {name: [row["low"], row["high"]] for name, row in zip(MEASURES, plain, strict=True)}
