"""Reciprocal rank fusion against numbers worked by hand."""

from __future__ import annotations

import pytest

from retrieval_server.fusion import reciprocal_rank_fusion


def test_two_rankings() -> None:
    fused = reciprocal_rank_fusion({"bm25": [7, 3], "dense": [3, 9]}, {"bm25": 1.0, "dense": 0.5})
    assert [(row, names) for row, _, names in fused] == [(3, ("bm25", "dense")), (7, ("bm25",)), (9, ("dense",))]
    assert [score for _, score, _ in fused] == pytest.approx([1 / 62 + 0.5 / 61, 1 / 61, 0.5 / 62])


def test_ties_keep_the_order_of_first_appearance() -> None:
    assert [row for row, _, _ in reciprocal_rank_fusion({"a": [5], "b": [4]})] == [5, 4]


def test_nothing_found() -> None:
    assert reciprocal_rank_fusion({"a": [], "b": []}) == []
