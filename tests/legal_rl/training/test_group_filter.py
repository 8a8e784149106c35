"""The rule of the group filter, by hand."""

from __future__ import annotations

import pytest

from legal_rl.training.group_filter import GroupFilter


def infos(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    return [{"acc": acc, "gain": gain, "reward/total": 9.0 * i} for i, (acc, gain) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("group", "verdict"),
    [
        (infos((1, 0), (0, 0)), "keep"),
        (infos((0, 1), (0, 0.5)), "keep"),
        (infos((1, 1), (1, 1), (1, 1)), "constant"),  # the shaped total differs, which is not looked at
        (infos((1, 0), (0, 1)), "constant"),
        (infos((1, 0)), "invalid"),
        ([], "invalid"),
    ],
)
def test_verdict(group, verdict):
    assert GroupFilter().verdict(group) == verdict


def test_switched_off_it_still_refuses_groups_without_a_baseline():
    rule = GroupFilter(enabled=False)
    assert rule.verdict(infos((1, 1), (1, 1))) == "keep"
    assert rule.verdict(infos((1, 1))) == "invalid"
