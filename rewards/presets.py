"""Reward presets: `paper` (the text), `released` (what the published code does), `default` (ours)."""

from __future__ import annotations

from dataclasses import dataclass, field

from rewards.errors import RewardConfigError
from rewards.types import RewardWeights


@dataclass(frozen=True, slots=True)
class RewardPreset:
    """How the terms are computed. Change one thing with `dataclasses.replace(PRESETS["default"], token_budget=200)`."""

    name: str = "default"
    weights: RewardWeights = field(default_factory=RewardWeights)
    fmt_value: float = 0.1
    bonus_value: float = 0.05
    token_budget: int = 4096
    """Policy tokens of a rollout that are free; ρ counts what goes beyond."""
    score_floor: float = 0.0
    """Retrieval score that an evidence unit must reach to count as new evidence for R_query."""
    judge_required: bool = False
    """True: R_gain and open answers come from the reward judge, and are invalid without its verdict."""
    released: bool = False
    """True: the quirks of the published code."""


PRESETS: dict[str, RewardPreset] = {
    "default": RewardPreset(),
    "paper": RewardPreset(name="paper", judge_required=True),
    "released": RewardPreset(name="released", bonus_value=0.0, released=True),
}


def resolve_preset(preset: str | RewardPreset) -> RewardPreset:
    """A preset by name, or the given one.

    Raises:
        RewardConfigError: no preset of this name.
    """
    if isinstance(preset, RewardPreset):
        return preset
    if preset not in PRESETS:
        raise RewardConfigError(f"unknown reward preset {preset!r}; known: {', '.join(PRESETS)}")
    return PRESETS[preset]
