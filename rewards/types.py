"""Records of the reward: a fixed set of named terms and their weighted total (paper, section 3.3 and appendix B.2)."""

from __future__ import annotations

from dataclasses import dataclass

TERM_NAMES = ("acc", "align", "gain", "query", "fmt", "bonus", "rho")
"""Always reported, always in this order; KL is verl's. `fmt`, `bonus` are added and `rho` is subtracted as they are."""


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """One term: `value` in [0, 1] (rho in [0, 0.5]); an invalid term means an outage, never a zero."""

    name: str
    value: float
    valid: bool = True
    reason: str = ""
    applies: bool = True
    """False when the question offers nothing to measure with (no reference): the term's weight is then 0."""


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """w1..w4 of the paper; `eta` is handed to verl as the KL loss coefficient."""

    acc: float = 1.00
    align: float = 0.08
    gain: float = 0.32
    query: float = 0.20
    eta: float = 0.08


@dataclass(frozen=True, slots=True)
class RewardBreakdown:
    """R = w1·acc + w2·align + w3·gain + w4·query + fmt + bonus − rho; NaN total when `valid` is False."""

    terms: dict[str, RewardTerm]
    total: float
    valid: bool

    def metrics(self) -> dict[str, float]:
        """The terms' values under fixed keys, for verl's `reward_extra_info` and the logs."""
        return {f"reward/{name}": self.terms[name].value for name in TERM_NAMES}
