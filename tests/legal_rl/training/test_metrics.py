"""Metrics file and NaN guard."""

from __future__ import annotations

import math

import numpy as np
import pytest

from legal_rl.training.metrics import MetricsFile, TrainingError, check_finite, latest_step, plain, read_metrics


def test_plain_takes_numbers_and_leaves_the_rest():
    metrics = {"a": np.float32(0.5), "b": 2, "c": "text", "d": math.nan, "e": True, "f": np.array([1.0, 2.0])}
    assert plain(metrics) == {"a": 0.5, "b": 2.0, "e": 1.0}


def test_resumed_file_has_each_step_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    for step in (1, 2, 3):
        first.append(step, {"loss": step / 10})
    resumed = MetricsFile(path, resume_step=2)  # step 3 came after the last checkpoint and is trained again
    resumed.append(3, {"loss": 0.33})
    assert [(row["step"], row["loss"]) for row in read_metrics(path)] == [(1, 0.1), (2, 0.2), (3, 0.33)]


def test_a_torn_last_line_is_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2', encoding="utf-8")
    assert read_metrics(path) == [{"step": 1}]
    MetricsFile(path, resume_step=1).append(2, {"x": 1})
    assert read_metrics(path) == [{"step": 1}, {"step": 2, "x": 1.0}]


@pytest.mark.parametrize("name", ["actor/grad_norm", "train/loss", "actor/kl_loss", "critic/rewards/mean"])
def test_nan_in_what_matters_stops(name):
    with pytest.raises(TrainingError, match=rf"step 7: {name} is nan"):
        check_finite({name: math.nan}, step=7)


def test_nan_elsewhere_is_only_left_out():
    check_finite({"perf/ratio": math.nan, "actor/grad_norm": 1.0}, step=1)


def test_latest_step(tmp_path):
    assert latest_step(tmp_path) == 0
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("12\n")
    assert latest_step(tmp_path) == 12
