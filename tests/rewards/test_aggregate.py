"""One GRPO group: which carries a signal, hand-worked advantages, refusal of a group of one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.aggregate import group_advantages, group_stats
from rewards.types import TERM_NAMES, RewardBreakdown, RewardTerm


def breakdown(acc: float, gain: float = 0.0, total: float | None = None, valid: bool = True) -> RewardBreakdown:
    values = dict.fromkeys(TERM_NAMES, 0.0) | {"acc": acc, "gain": gain}
    terms = {name: RewardTerm(name, value, valid=valid) for name, value in values.items()}
    score = acc + 0.32 * gain if total is None else total
    return RewardBreakdown(terms, score if valid else math.nan, valid)


INVALID = breakdown(1.0, valid=False)


def test_stats_by_hand() -> None:
    stats = group_stats([breakdown(1.0, 0.3, 1.4), breakdown(0.0, 0.3, 0.4), INVALID])
    assert (stats.size, stats.valid, stats.keep, stats.reason) == (3, 2, True, "")
    assert (stats.mean, stats.std, stats.signal_std) == pytest.approx((0.9, 0.5, 0.5))


def test_form_alone_is_no_signal() -> None:
    stats = group_stats([breakdown(1.0, total=1.1), breakdown(1.0, total=1.0)])
    assert stats.std > 0 and not stats.keep and stats.reason == "no variance of acc + gain"


def test_gain_alone_is_a_signal() -> None:
    assert group_stats([breakdown(0.0, 1.0), breakdown(0.0, 0.0)]).keep


@pytest.mark.parametrize("group", [[], [breakdown(1.0)], [breakdown(1.0), INVALID, INVALID]])
def test_fewer_than_two_valid_rollouts_are_refused(group: list[RewardBreakdown]) -> None:
    stats = group_stats(group)
    assert not stats.keep and "rollouts valid" in stats.reason and math.isfinite(stats.mean)
    with pytest.raises(ValueError, match="needs 2 valid"):
        group_advantages(group)


def test_one_invalid_rollout_does_not_poison_the_group() -> None:
    first, none, last = group_advantages([breakdown(1.0), INVALID, breakdown(0.0)])
    assert none is None
    # mean 0.5, sample deviation 1/√2: ±0.5·√2
    assert (first, last) == pytest.approx((math.sqrt(0.5), -math.sqrt(0.5)), abs=1e-5)


@given(st.lists(st.floats(0, 2, allow_subnormal=False), min_size=2, max_size=8))
def test_advantages_sum_to_zero_and_keep_the_order(totals: list[float]) -> None:
    advantages = group_advantages([breakdown(0.0, total=total) for total in totals])
    values = [value for value in advantages if value is not None]
    assert sum(values) == pytest.approx(0.0, abs=1e-3)
    for a, left in zip(totals, values, strict=True):
        for b, right in zip(totals, values, strict=True):
            assert a <= b or left >= right
