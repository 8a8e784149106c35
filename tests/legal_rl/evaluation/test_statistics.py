"""Bootstrap intervals against hand-worked numbers, an independent loop and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from legal_rl.evaluation import statistics
from legal_rl.evaluation.statistics import bootstrap_mean, bootstrap_means, paired_difference


def test_a_constant_has_an_interval_of_one_point() -> None:
    interval = bootstrap_mean([0.25] * 7, resamples=50)
    assert (interval.mean, interval.low, interval.high, interval.n) == (0.25, 0.25, 0.25, 7)


def test_two_values_reach_all_their_resampled_means() -> None:
    # resamples of (0, 1) have the means 0, 0.5 and 1 with the weights 1/4, 1/2, 1/4: the 95 % interval is the range
    interval = bootstrap_mean([0.0, 1.0], resamples=4000)
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)
    # and the middle half lies at 0.5
    middle = bootstrap_mean([0.0, 1.0], resamples=4000, level=0.4)
    assert (middle.low, middle.high) == (0.5, 0.5)


def test_the_same_draws_as_a_plain_loop() -> None:
    values = np.random.default_rng(1).normal(size=(31, 3))
    rng = np.random.default_rng(5)
    draws = rng.integers(0, 31, size=(400, 31))
    means = np.array([values[rows].mean(axis=0) for rows in draws])
    for column, interval in enumerate(bootstrap_means(values, seed=5, resamples=400)):
        assert interval.low == pytest.approx(np.quantile(means[:, column], 0.025))
        assert interval.high == pytest.approx(np.quantile(means[:, column], 0.975))
        assert interval.mean == pytest.approx(values[:, column].mean())


def test_agrees_with_scipy_and_the_normal_interval() -> None:
    values = np.random.default_rng(2).binomial(1, 0.6, 240).astype(float)
    ours = bootstrap_mean(values.tolist(), resamples=5000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=5000, method="percentile", rng=0).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.01) and ours.high == pytest.approx(theirs.high, abs=0.01)
    half = 1.96 * math.sqrt(ours.mean * (1 - ours.mean) / 240)
    assert ours.high - ours.low == pytest.approx(2 * half, abs=0.01)


def test_chunks_do_not_change_the_shape_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(10.0)
    whole = bootstrap_mean(values.tolist(), resamples=2000)
    monkeypatch.setattr(statistics, "_CHUNK_CELLS", 30)
    parts = bootstrap_mean(values.tolist(), resamples=2000)
    assert parts.mean == whole.mean
    assert parts.low == pytest.approx(whole.low, abs=0.3) and parts.high == pytest.approx(whole.high, abs=0.3)


def test_missing_values_leave_the_mean_and_no_values_give_no_number() -> None:
    assert bootstrap_mean([1.0, math.nan, 3.0]).mean == 2.0
    assert bootstrap_mean([1.0, math.nan, 3.0]).n == 2
    empty = bootstrap_mean([math.nan])
    assert math.isnan(empty.mean) and empty.as_dict() == {"mean": None, "low": None, "high": None, "n": 0}


def test_pairs_are_compared_question_by_question() -> None:
    before, after = [0.0, 0.5, 1.0, math.nan], [0.1, 0.6, 1.1, 5.0]
    interval = paired_difference(before, after)
    assert interval.n == 3
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.1, 0.1, 0.1))


def test_pairing_is_what_narrows_the_interval() -> None:
    rng = np.random.default_rng(3)
    before = rng.normal(size=100)
    after = before + 0.2 + rng.normal(scale=0.05, size=100)
    paired = paired_difference(before.tolist(), after.tolist())
    alone = bootstrap_mean(after.tolist())
    assert paired.low > 0.15 and paired.high - paired.low < 0.2 * (alone.high - alone.low)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_levels_outside_are_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level must lie inside"):
        bootstrap_mean([1.0], level=level)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        paired_difference([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="dimensions"):
        bootstrap_means([1.0, 2.0])


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.integers(0, 5))
def test_the_interval_lies_in_the_range_and_repeats(values: list[float], seed: int) -> None:
    interval = bootstrap_mean(values, seed=seed, resamples=100)
    slack = 1e-9
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack
    assert interval == bootstrap_mean(values, seed=seed, resamples=100)
