"""Several seeds together: hand-worked means, intervals that cover what they should, and refusals."""

import json

import numpy as np
import pytest

from legal_rl.errors import ConfigError
from legal_rl.evaluation.lawyer import METRICS
from legal_rl.evaluation.seeds import compare_seeds, crossed_interval


def write_run(folder, sft, grpo, seed=0):
    (folder / "eval").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"seed": seed}))
    for name, values in {"untrained": [0.0] * len(sft), "sft": sft, "grpo": grpo}.items():
        rows = [{"id": f"q{i}", "family": "f", **dict.fromkeys(METRICS, value)} for i, value in enumerate(values)]
        (folder / "eval" / f"{name}.scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_means_and_differences_are_hand_worked(tmp_path):
    first = write_run(tmp_path / "a", [0.0, 1.0], [1.0, 1.0], seed=3)
    second = write_run(tmp_path / "b", [0.0, 0.0], [0.0, 0.0], seed=4)
    result = compare_seeds([first, second], resamples=200)
    gain = result["difference"]["reward"]
    assert gain["per_seed"] == [0.5, 0.0]
    assert gain["mean"] == 0.25
    # Student: sd of (0.5, 0) is 0.35355, half width 12.706 * 0.35355 / sqrt(2) = 3.1765
    assert gain["t_high"] == pytest.approx(0.25 + 3.1765, abs=1e-3)
    assert [row["seed"] for row in result["seeds"]] == [3, 4]
    assert result["seeds"][0]["sft"]["reward"] == 0.5


def test_the_greedy_part_is_read_from_its_own_folder(tmp_path):
    run = write_run(tmp_path / "a", [0.0], [0.0])
    inner = write_run(tmp_path / "b", [0.0], [1.0])
    (inner / "eval").rename(run / "eval" / "greedy")
    assert compare_seeds([run], resamples=10)["difference"]["reward"]["mean"] == 0.0
    assert compare_seeds([run], resamples=10, part="greedy")["difference"]["reward"]["mean"] == 1.0


def test_a_constant_gain_has_no_width():
    interval = crossed_interval(np.full((3, 5), 0.2), resamples=100, seed=0)
    assert interval["low"] == pytest.approx(0.2) and interval["high"] == pytest.approx(0.2)
    assert interval["t_low"] == pytest.approx(0.2)


def test_the_interval_holds_the_mean_and_is_seeded():
    table = np.random.default_rng(1).normal(0.1, 0.3, (3, 100))
    first, second = crossed_interval(table, 500, seed=7), crossed_interval(table, 500, seed=7)
    assert first == second
    assert first["low"] < first["mean"] < first["high"]


def test_other_questions_are_refused(tmp_path):
    first, second = write_run(tmp_path / "a", [0.0], [1.0]), write_run(tmp_path / "b", [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ConfigError, match="different questions"):
        compare_seeds([first, second])


def test_an_unfinished_run_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"untrained\.scores\.jsonl: missing"):
        compare_seeds([tmp_path])


def test_a_few_questions_lost_to_outages_are_left_out_for_every_model(tmp_path):
    first = write_run(tmp_path / "a", [0.0] * 20, [1.0] * 20)
    path = first / "eval" / "grpo.scores.jsonl"
    lines = path.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "reward": None})
    path.write_text("\n".join(lines[:-1]) + "\n")
    result = compare_seeds([first, write_run(tmp_path / "b", [0.0] * 20, [1.0] * 20, seed=1)], resamples=50)
    assert (result["n_questions"], result["left_out"]) == (18, 2)
    assert result["difference"]["correct"]["mean"] == 1.0
