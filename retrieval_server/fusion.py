"""Reciprocal rank fusion: rankings whose scores cannot be compared are joined by rank alone (Cormack et al., 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

RRF_K = 60


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[int]], weights: Mapping[str, float] | None = None, k: int = RRF_K
) -> list[tuple[int, float, tuple[str, ...]]]:
    """Joins rankings of row numbers, best first.

    Args:
        rankings: retriever name -> row numbers, best first, without repeats.
        weights: retriever name -> weight; 1.0 where missing.
        k: the constant of the method; larger flattens the ranks.

    Returns:
        (row, score, names of the retrievers that found it), best first; score = Σ weight / (k + rank), rank from 1.
        Equal scores keep the order of first appearance.
    """
    scores: dict[int, float] = {}
    found_by: dict[int, list[str]] = {}
    for name, rows in rankings.items():
        weight = 1.0 if weights is None else weights.get(name, 1.0)
        for rank, row in enumerate(rows, start=1):
            scores[row] = scores.get(row, 0.0) + weight / (k + rank)
            found_by.setdefault(row, []).append(name)
    ordered = sorted(scores, key=lambda row: -scores[row])
    return [(row, scores[row], tuple(found_by[row])) for row in ordered]
