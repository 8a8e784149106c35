"""Authority-aware, outcome-diverse selection of precedents: the paper's MMR (section 3.2.2, appendix F).

Base = α·Rel + (1 − α)·Auth and M(d | S) = Base(d) − β·max over S of Sim_PSI, Sim_PSI = 1 − |ΔPSI| / (d_max + ε). Where
the paper is silent: S starts empty, so that the first pick pays no penalty; Rel is min–max normalised within the
candidate set (all equal: 1.0); Auth is the tier score / 1.1; d_max is the largest PSI distance in the candidate set; a
candidate with unknown PSI is similar to nothing and is marked; ties go by candidate order. In miniature::

    select_precedents([{"id": "a", "relevance": 0.9, "court_level": "primary", "psi": 360},
                       {"id": "b", "relevance": 0.8, "court_level": "primary", "psi": 360},
                       {"id": "c", "relevance": 0.78, "court_level": "high", "psi": 3600},
                       {"id": "d", "relevance": 0.5, "court_level": "primary", "psi": 360}], k=2) -> [a, c]
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_server.case_briefs import StoredBrief, extract, show
from retrieval_server.courts import LEVEL_NAMES, MAX_AUTHORITY, authority_score, court_level
from retrieval_server.types import Case, CourtLevel, Evidence, SearchQuery, Source

DEFAULT_ALPHA = 0.7
DEFAULT_BETA = 0.3
EPSILON = 1e-6
CHARGE_BOOST = 0.25
"""Added to a candidate's relevance (0 to 1) when it is about the charge asked for."""
CIRCUMSTANCE_BOOST = 0.15
"""Added in full when every circumstance asked for stands in the case."""

_RELEVANCE_NAMES = ("relevance", "rel", "score", "similarity")
_LEVEL_FIELDS = ("court_level", "level", "court")
_AUTHORITY_NAMES = ("authority", "auth")
_PSI_NAMES = ("psi", "PSI")
_LEVELS_IN_CHINESE = {name: level for level, name in LEVEL_NAMES.items()}


@dataclass(frozen=True)
class PrecedentCandidate:
    """What the selection needs to know of a candidate; `authority` (1.0 to 1.1) overrides the court level."""

    case_id: str
    relevance: float
    court_level: CourtLevel = CourtLevel.UNKNOWN
    psi: float | None = None
    authority: float | None = None


@dataclass(frozen=True)
class Pick:
    """One selection step: position of the candidate, its Base, the penalty β·max Sim, and M = base − penalty."""

    index: int
    base: float
    penalty: float
    psi_known: bool

    @property
    def score(self) -> float:
        """M(d | S) at the moment of selection."""
        return self.base - self.penalty


def select_precedents(
    candidates: Iterable[Any], k: int, alpha: float = DEFAULT_ALPHA, beta: float = DEFAULT_BETA
) -> list[Any]:
    """The `k` candidates (all, if there are fewer) that the MMR selects, as they were given, in order of selection.

    Args:
        candidates: `PrecedentCandidate` records, or any objects or dicts with `relevance` (or rel, score), `psi` (None
            or nan: unknown) and one of `authority` (tier score 1.0 to 1.1), `court_level` or `level` (a `CourtLevel`,
            its value, 高级/中级/基层, or the tier 1, 2, 3 of appendix F.1) or `court` (the court's name).

    Raises:
        ValueError: k negative, alpha outside [0, 1], beta negative, or a candidate without a finite relevance.
    """
    items = list(candidates)
    rows = np.array([_numbers(item, i) for i, item in enumerate(items)], dtype=np.float64).reshape(-1, 3)
    return [items[pick.index] for pick in mmr(rows[:, 0], rows[:, 1], rows[:, 2], k, alpha, beta)]


def mmr(
    relevance: NDArray[np.float64],
    authority: NDArray[np.float64],
    psi: NDArray[np.float64],
    k: int,
    alpha: float = DEFAULT_ALPHA,
    beta: float = DEFAULT_BETA,
) -> list[Pick]:
    """The selection itself over `n` candidates.

    Args:
        relevance: [n] raw retrieval scores.
        authority: [n] tier scores 1.0 to 1.1.
        psi: [n] Punishment Severity Index, nan where unknown.
    """
    if k < 0 or not 0 <= alpha <= 1 or beta < 0:
        raise ValueError(f"k must be >= 0, alpha in [0, 1], beta >= 0; found k={k}, alpha={alpha}, beta={beta}")
    base = alpha * _min_max(relevance) + (1 - alpha) * authority / MAX_AUTHORITY
    known = ~np.isnan(psi)
    d_max = float(np.ptp(psi[known])) if known.any() else 0.0
    severity = np.where(known, psi, 0.0)
    # Running maximum over S; -inf keeps the chosen out, and nothing is similar to an unknown PSI.
    similarity = np.zeros(len(base))
    free = base.copy()
    picks: list[Pick] = []
    for _ in range(min(k, len(base))):
        best = int((free - beta * similarity).argmax())
        picks.append(Pick(best, float(base[best]), beta * float(similarity[best]), bool(known[best])))
        free[best] = -np.inf
        if known[best]:
            to_best = 1.0 - np.abs(severity - severity[best]) / (d_max + EPSILON)
            np.maximum(similarity, to_best * known, out=similarity)
    return picks


def rerank_precedents(
    query: SearchQuery,
    candidates: Sequence[tuple[Case, float]],
    k: int,
    alpha: float = DEFAULT_ALPHA,
    beta: float = DEFAULT_BETA,
    charge_boost: float = CHARGE_BOOST,
    circumstance_boost: float = CIRCUMSTANCE_BOOST,
    brief_chars: int = 150,
    compact: bool = False,
    briefs: Mapping[str, StoredBrief] | None = None,
) -> list[Evidence]:
    """Evidence units for the precedents selected from (case, retrieval score) pairs, ranked from 1.

    Charge and circumstances named in the query raise the relevance before the MMR; `score` is M(d | S), and a unit
    whose PSI is unknown says so in `notes`. `compact` briefs hold court, charges and sentence only.
    `briefs` are those of the index (`case_briefs`); a case without one gets it now.
    """
    if not candidates:
        return []
    cases = [case for case, _ in candidates]
    relevance = _min_max(np.array([score for _, score in candidates], dtype=np.float64))
    relevance = relevance + np.array([_boost(query, case, charge_boost, circumstance_boost) for case in cases])
    authority = np.array([authority_score(case.court_level) for case in cases])
    psi = np.array([math.nan if case.psi is None else case.psi for case in cases])
    picks = mmr(relevance, authority, psi, k, alpha, beta)

    def brief(case: Case) -> str:
        stored = (briefs or {}).get(case.id) or extract(case)
        return show(stored, case, brief_chars, query.query, compact)

    return [_evidence(cases[p.index], p, rank, brief(cases[p.index])) for rank, p in enumerate(picks, start=1)]


def _evidence(case: Case, pick: Pick, rank: int, brief: str) -> Evidence:
    notes = () if pick.psi_known else (f"量刑指数未知：{case.psi_note or '来源没有判决结果'}",)
    return Evidence(
        id=case.id,
        source=Source.PRECEDENT,
        title=" ".join(filter(None, (case.court, "、".join(case.charges)))),
        label=f"{LEVEL_NAMES[case.court_level]}法院",
        text=brief,
        score=round(pick.score, 6),
        rank=rank,
        court_level=case.court_level,
        charges=case.charges,
        psi=case.psi,
        generated=case.generated,
        provenance=("mmr",),
        notes=notes,
    )


def _boost(query: SearchQuery, case: Case, charge_boost: float, circumstance_boost: float) -> float:
    """Bonus of a candidate for the charge and the circumstances that the query names."""
    bonus = charge_boost if query.charge and charge_matches(query.charge, case.charges) else 0.0
    wanted = [term for term in re.split(r"[、，,；;。\s]+", query.circumstances) if len(term) >= 2]
    if wanted:
        text = case.facts + case.reason
        bonus += circumstance_boost * sum(term in text for term in wanted) / len(wanted)
    return bonus


def charge_matches(asked: str, charges: Iterable[str]) -> bool:
    """Whether one of `charges` is (or holds, or is held in) a charge asked for: 盗窃 and 盗窃罪 are the same."""
    wanted = {part.removesuffix("罪") for part in re.split(r"[、，,；;\s]+", asked) if part.removesuffix("罪")}
    names = {charge.removesuffix("罪") for charge in charges}
    return any(w == n or (len(w) >= 2 and (w in n or n in w)) for w in wanted for n in names if n)


def _min_max(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values to [0, 1]; all equal: 1.0."""
    if not len(values):
        return values
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones(len(values))


def _numbers(item: Any, position: int) -> tuple[float, float, float]:
    """(relevance, tier score, PSI) of a candidate of any shape."""
    if type(item) is PrecedentCandidate:
        relevance, psi, authority, level = item.relevance, item.psi, item.authority, item.court_level
    else:
        relevance, psi = _field(item, _RELEVANCE_NAMES), _field(item, _PSI_NAMES)
        authority, level = _field(item, _AUTHORITY_NAMES), _field(item, _LEVEL_FIELDS)
    if isinstance(relevance, str | None) or not math.isfinite(relevance):
        raise ValueError(f"candidate {position} has no finite `relevance` (found {relevance!r})")
    score = authority_score(_level(level)) if authority is None else float(authority)
    return float(relevance), score, math.nan if psi is None else float(psi)


def _field(item: Any, names: Sequence[str]) -> Any:
    """First of the named fields that is there and not None; `item` is a mapping or an object."""
    get = item.get if isinstance(item, Mapping) else partial(getattr, item)
    for name in names:
        value = get(name, None)
        if value is not None:
            return value
    return None


@lru_cache(maxsize=1_024)
def _level(value: Any) -> CourtLevel:
    """Court level from whatever names it; unknown levels rank with primary courts."""
    if isinstance(value, CourtLevel):
        return value
    if isinstance(value, int):
        return {1: CourtLevel.HIGH, 2: CourtLevel.INTERMEDIATE, 3: CourtLevel.PRIMARY}.get(value, CourtLevel.UNKNOWN)
    text = str(value or "").strip()
    if text.lower() in set(CourtLevel):
        return CourtLevel(text.lower())
    named = next((level for name, level in _LEVELS_IN_CHINESE.items() if text.startswith(name)), None)
    return named or court_level(text)
