"""What the reward judge said about one rollout; made by `rewards.judge`, read by `rewards.compute_reward`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """`acc` and `gain` in [0, 1]; None where the judge was not asked. An `…_error` makes that term invalid."""

    acc: float | None = None
    gain: float | None = None
    acc_error: str = ""
    gain_error: str = ""
    reason: str = ""
