"""Statistics of one GRPO group: which groups carry a signal, and the advantages of those that do. Pure Python.

The filter looks at R_acc plus R_gain, never at the shaped total: a group that differs only in form teaches form only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rewards.types import RewardBreakdown

MIN_VALID = 2
"""GRPO gives a group of one mean 0 and deviation 1: its raw reward would become its advantage."""
_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class GroupStats:
    """One group of G rollouts of one question.

    Example: acc + gain of (1.3, 0.3), totals (1.4, 0.4) -> mean 0.9, signal_std 0.5, keep True.
    """

    size: int
    valid: int
    mean: float
    """Mean total of the valid rollouts; 0 without any."""
    std: float
    signal_std: float
    """Population deviation of acc + gain over the valid rollouts."""
    keep: bool
    reason: str = ""


def group_stats(rewards_G: Sequence[RewardBreakdown], min_std: float = _EPSILON) -> GroupStats:
    """Statistics of a group and whether to train on it."""
    valid = [reward for reward in rewards_G if reward.valid]
    totals = [reward.total for reward in valid]
    signal = [reward.terms["acc"].value + reward.terms["gain"].value for reward in valid]
    mean = statistics.fmean(totals) if totals else 0.0
    std, signal_std = (statistics.pstdev(values) if len(values) > 1 else 0.0 for values in (totals, signal))
    reason = ""
    if len(valid) < MIN_VALID:
        reason = f"{len(valid)} of {len(rewards_G)} rollouts valid"
    elif signal_std <= min_std:
        reason = "no variance of acc + gain"
    return GroupStats(len(rewards_G), len(valid), mean, std, signal_std, not reason, reason)


def group_advantages(rewards_G: Sequence[RewardBreakdown]) -> list[float | None]:
    """(total − mean) / (sample deviation + ε) per rollout, None for invalid ones.

    Raises:
        ValueError: fewer than two valid rollouts, for which no advantage exists.
    """
    totals = [reward.total for reward in rewards_G if reward.valid]
    if len(totals) < MIN_VALID:
        raise ValueError(f"a group needs {MIN_VALID} valid rollouts for an advantage, got {len(totals)}")
    mean, std = statistics.fmean(totals), statistics.stdev(totals)
    return [(reward.total - mean) / (std + _EPSILON) if reward.valid else None for reward in rewards_G]
