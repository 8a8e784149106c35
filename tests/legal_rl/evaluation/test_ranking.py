"""Ranking measures: by hand, against ranx, and the grouping around them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.evaluation.ranking import MEASURES, interleave, ranking_quality, ranking_scores

RUNS = {"a": ["x", "y", "z"], "b": ["x", "y", "z"], "c": [], "d": ["p", "q", "r", "s"]}
GOLD = {"a": {"x"}, "b": {"z", "w"}, "c": {"x"}, "d": {"s"}}


def test_measures_by_hand() -> None:
    scores = ranking_scores(RUNS, GOLD, k=3)
    assert scores["a"] == pytest.approx((1.0, 1.0, 1.0, 1.0))
    # gold at rank 3 of two gold ones: DCG 1/log2(4), ideal 1 + 1/log2(3)
    assert scores["b"] == pytest.approx((0.5 / (1 + 1 / math.log2(3)), 0.5, 1 / 3, 1.0))
    assert scores["c"] == (0.0, 0.0, 0.0, 0.0)  # nothing found counts, it is not left out
    assert scores["d"] == (0.0, 0.0, 0.0, 0.0)  # rank 4 lies beyond the cut


def test_means_by_type_and_their_intervals() -> None:
    types = {"a": "lay", "b": "lay", "c": "fact", "d": "fact"}
    result = ranking_quality(RUNS, GOLD, types, k=3, resamples=200)
    assert result["n"] == 4 and result["k"] == 3
    assert result["overall"]["recall"] == pytest.approx(1.5 / 4)
    assert result["by_type"]["lay"] == pytest.approx(
        {"ndcg": (1 + 0.5 / (1 + 1 / math.log2(3))) / 2, "recall": 0.75, "mrr": 2 / 3, "hit": 1.0, "n": 2}
    )
    assert list(result["by_type"]) == ["fact", "lay"]
    low, high = result["ci95"]["overall"]["recall"]
    assert 0.0 <= low <= 1.5 / 4 <= high <= 1.0
    assert result["ci95"]["by_type"]["fact"]["hit"] == [0.0, 0.0]


def test_no_queries_give_no_numbers() -> None:
    result = ranking_quality({}, {}, {}, k=10)
    assert result["n"] == 0
    assert result["overall"] == {"ndcg": None, "recall": None, "mrr": None, "hit": None, "n": 0}


def test_repeats_in_a_ranking_count_once() -> None:
    assert ranking_scores({"a": ["x", "x", "y"]}, {"a": {"y"}}, k=2)["a"][1] == 1.0


def test_interleaving() -> None:
    assert interleave([["a", "b"], ["c", "a"]]) == ["a", "c", "b"]
    assert interleave([["a"], ["b", "c", "d"]]) == ["a", "b", "c", "d"]
    assert interleave([]) == []


@given(
    st.lists(
        st.tuples(st.permutations("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), min_size=1)), min_size=1, max_size=4
    )
)
def test_agrees_with_an_independent_implementation(cases: list[tuple[list[str], set[str]]]) -> None:
    runs = {str(i): list(ranking) for i, (ranking, _) in enumerate(cases)}
    gold = {str(i): docs for i, (_, docs) in enumerate(cases)}
    scores = ranking_scores(runs, gold, k=5)
    for name, ranking in runs.items():
        hits = [doc in gold[name] for doc in ranking[:5]]
        gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
        ideal = sum(1 / math.log2(rank + 2) for rank in range(min(5, len(gold[name]))))
        first = next((1 / (rank + 1) for rank, hit in enumerate(hits) if hit), 0.0)
        expected = (gain / ideal, sum(hits) / len(gold[name]), first, float(any(hits)))
        assert dict(zip(MEASURES, scores[name], strict=True)) == pytest.approx(
            dict(zip(MEASURES, expected, strict=True))
        )
