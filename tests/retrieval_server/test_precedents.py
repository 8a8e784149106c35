"""Selection of precedents: worked by hand, against the paper's formula written out, and its laws."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_server.precedents import (
    PrecedentCandidate,
    charge_matches,
    mmr,
    rerank_precedents,
    select_precedents,
)
from retrieval_server.types import Case, CourtLevel, SearchQuery


def candidate(name: str, relevance: float, level: str = "primary", psi: float | None = None) -> PrecedentCandidate:
    return PrecedentCandidate(name, relevance, CourtLevel(level), psi)


def names(chosen: list[Any]) -> list[str]:
    return [c.case_id for c in chosen]


FOUR = [
    candidate("a", 0.9, psi=360),
    candidate("b", 0.8, psi=360),
    candidate("c", 0.78, "high", psi=3600),
    candidate("d", 0.5, psi=360),
]


def test_worked_by_hand() -> None:
    # Rel 1, .75, .7, 0; Auth 1/1.1, 1/1.1, 1, 1/1.1. Base .97273, .79773, .79, .27273.
    # Second pick: b pays the whole β (same PSI), c pays β·ε/(3240 + ε) ~ 0.
    picks = mmr(np.array([0.9, 0.8, 0.78, 0.5]), np.array([1, 1, 1.1, 1]), np.array([360.0, 360, 3600, 360]), 3)
    assert [p.index for p in picks] == [0, 2, 1]
    assert [p.base for p in picks] == pytest.approx([0.7 + 0.3 / 1.1, 0.79, 0.525 + 0.3 / 1.1])
    assert [p.penalty for p in picks] == pytest.approx([0, 0, 0.3], abs=1e-8)
    assert names(select_precedents(FOUR, 2)) == ["a", "c"]


def test_without_penalty_the_order_is_that_of_base() -> None:
    assert names(select_precedents(FOUR, 4, beta=0)) == ["a", "b", "c", "d"]
    assert names(select_precedents(FOUR, 1, alpha=0)) == ["c"]


def test_equal_relevance_counts_as_one_and_ties_go_by_order() -> None:
    same = [candidate(name, 0.4, psi=100) for name in "xyz"]
    assert names(select_precedents(same, 3)) == ["x", "y", "z"]
    (first, *_) = mmr(np.full(3, 0.4), np.ones(3), np.full(3, 100.0), 3)
    assert first.base == pytest.approx(0.7 + 0.3 / 1.1)


def test_unknown_severity_is_similar_to_nothing_and_marked() -> None:
    picks = mmr(np.array([1.0, 0.9, 0.9]), np.ones(3), np.array([500.0, math.nan, 500.0]), 3)
    assert [(p.index, p.psi_known) for p in picks] == [(0, True), (1, False), (2, True)]
    assert picks[1].penalty == 0
    assert names(select_precedents([candidate("u", 1.0), candidate("v", 0.5)], 2)) == ["u", "v"]


def test_more_asked_than_there_are() -> None:
    assert len(select_precedents(FOUR, 10)) == 4
    assert select_precedents(FOUR, 0) == []
    assert select_precedents([], 3) == []


@pytest.mark.parametrize(("k", "alpha", "beta"), [(-1, 0.7, 0.3), (1, 1.1, 0.3), (1, -0.1, 0.3), (1, 0.7, -0.1)])
def test_wrong_settings_are_refused(k: int, alpha: float, beta: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        select_precedents(FOUR, k, alpha, beta)


@pytest.mark.parametrize("relevance", [None, math.nan, "high"])
def test_candidate_without_relevance_is_named(relevance: object) -> None:
    with pytest.raises(ValueError, match="candidate 1"):
        select_precedents([{"relevance": 1.0}, {"relevance": relevance}], 1)


@pytest.mark.parametrize("high", [CourtLevel.HIGH, "high", "高级", "云岭省高级人民法院", 1, "supreme"])
def test_shapes_of_candidates(high: object) -> None:
    @dataclass
    class Found:
        score: float
        level: object
        psi: float

    rows = [{"rel": 1, "court_level": "primary", "psi": 5}, {"rel": 1, "court_level": high, "psi": 5}]
    objects = [Found(1, "中级", 5), Found(1, high, 5)]
    assert select_precedents(rows, 1) == [rows[1]]
    assert select_precedents(objects, 1) == [objects[1]]
    scored = [
        SimpleNamespace(relevance=1, authority=1.05, psi=None),
        SimpleNamespace(relevance=1, authority=1.1, psi=1),
    ]
    assert select_precedents(iter(scored), 1) == [scored[1]]


def by_the_formula(rows: list[tuple[float, float, float | None]], k: int, alpha: float, beta: float) -> list[int]:
    """Section 3.2.2 written out with loops."""
    relevances = [r for r, _, _ in rows]
    low, high = min(relevances), max(relevances)
    known = [p for _, _, p in rows if p is not None]
    d_max = max((abs(p - q) for p in known for q in known), default=0.0)
    base = [alpha * ((r - low) / (high - low) if high > low else 1.0) + (1 - alpha) * (a / 1.1) for r, a, _ in rows]
    chosen: list[int] = []
    while len(chosen) < min(k, len(rows)):
        best, best_score = -1, -math.inf
        for i, (_, _, p) in enumerate(rows):
            if i in chosen:
                continue
            sims = [0.0]
            for j in chosen:
                q = rows[j][2]
                sims.append(1 - abs(p - q) / (d_max + 1e-6) if p is not None and q is not None else 0.0)
            score = base[i] - beta * max(sims)
            if score > best_score:
                best, best_score = i, score
        chosen.append(best)
    return chosen


ROW = st.tuples(
    st.integers(0, 1000).map(lambda n: n / 1000),
    st.sampled_from([1.0, 1.05, 1.1]),
    st.one_of(st.none(), st.integers(0, 100_000).map(float)),
)


@given(
    st.lists(ROW, min_size=1, max_size=25),
    st.integers(0, 8),
    st.sampled_from([0.0, 0.5, 0.7, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_agrees_with_the_formula(
    rows: list[tuple[float, float, float | None]], k: int, alpha: float, beta: float
) -> None:
    candidates = [{"i": i, "relevance": r, "authority": a, "psi": p} for i, (r, a, p) in enumerate(rows)]
    chosen = [c["i"] for c in select_precedents(candidates, k, alpha, beta)]
    assert chosen == by_the_formula(rows, k, alpha, beta)
    assert len(set(chosen)) == len(chosen) == min(k, len(rows))


def test_a_hundred_candidates_take_a_fraction_of_a_millisecond() -> None:
    rng = np.random.default_rng(0)
    rows = [candidate(str(i), float(r), psi=float(p)) for i, (r, p) in enumerate(rng.random((100, 2)))]
    select_precedents(rows, 5)
    best = math.inf
    for _ in range(50):
        start = time.perf_counter()
        select_precedents(rows, 5)
        best = min(best, time.perf_counter() - start)
    assert best < 0.001


def case(name: str, level: str, charge: str, psi: float | None, facts: str = "被告人王某窃得现金。") -> Case:
    return Case(id=name, court="云州市人民法院", court_level=CourtLevel(level), charges=(charge,), facts=facts, psi=psi)


def test_charge_and_circumstances_raise_a_precedent() -> None:
    pool = [
        (case("x", "primary", "诈骗罪", 10), 1.0),
        (case("y", "primary", "盗窃罪", 20), 0.9),
        (case("z", "primary", "抢劫罪", 9), 0.0),
    ]
    plain = rerank_precedents(SearchQuery(source="precedent", query="盗窃"), pool, 2, beta=0)
    asked = rerank_precedents(SearchQuery(source="precedent", query="盗窃", charge="盗窃"), pool, 2, beta=0)
    assert [e.id for e in plain] == ["x", "y"]
    assert [e.id for e in asked] == ["y", "x"]
    surrender = [
        (case("x", "primary", "盗窃罪", 10), 1.0),
        (case("y", "primary", "盗窃罪", 20, "王某自首并退赃。"), 0.9),
        (pool[2]),
    ]
    query = SearchQuery(source="precedent", query="盗窃", circumstances="自首、退赃")
    assert [e.id for e in rerank_precedents(query, surrender, 2, beta=0)] == ["y", "x"]


def test_evidence_of_a_precedent() -> None:
    query = SearchQuery(source="precedent", query="盗窃")
    known, unknown = rerank_precedents(
        query, [(case("x", "high", "盗窃罪", 10), 1.0), (case("y", "primary", "盗窃罪", None), 0.5)], 5
    )
    assert (known.rank, known.label, known.court_level, known.psi, known.notes) == (
        1,
        "高级法院",
        CourtLevel.HIGH,
        10,
        (),
    )
    assert known.score == pytest.approx(1.0)
    assert known.title == "云州市人民法院 盗窃罪"
    assert unknown.notes and "量刑指数未知" in unknown.notes[0]
    assert rerank_precedents(query, [], 5) == []


@pytest.mark.parametrize(
    ("asked", "charges", "expected"),
    [
        ("盗窃", ("盗窃罪",), True),
        ("盗窃罪、诈骗罪", ("诈骗罪",), True),
        ("贩卖毒品罪", ("走私、贩卖毒品罪",), True),
        ("抢劫", ("抢夺罪",), False),
        ("罪", ("盗窃罪",), False),
    ],
)
def test_charge_matches(asked: str, charges: tuple[str, ...], expected: bool) -> None:
    assert charge_matches(asked, charges) is expected
