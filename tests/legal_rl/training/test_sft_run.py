"""verl's SFT trainer on token records, whole: loss falls, evidence gets no gradient, a killed run goes on exactly."""

from __future__ import annotations

import pytest

from legal_rl.training.metrics import TrainingError, latest_step, read_metrics
from legal_rl.training.settings import SftSettings
from legal_rl.training.sft import run_sft

STEPS, KILL_AT = 90, 50
SETTINGS = SftSettings(
    n_gpus_per_node=1,
    dtype="float32",
    learning_rate=3e-3,
    lr_schedule="constant",
    warmup_ratio=0.0,
    batch_size=16,
    epochs=100,
    max_steps=STEPS,
    save_every=40,
    threads=1,
    mask="assistant",
    max_length=512,
)
pytestmark = pytest.mark.slow


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def straight(toy_world, tmp_path_factory):
    return run_sft(SETTINGS, toy_world.rollouts, toy_world.model, tmp_path_factory.mktemp("sft"))


@pytest.fixture(scope="module")
def resumed(toy_world, tmp_path_factory):
    """Killed at step 50, ten steps after its checkpoint, then started again."""
    out = tmp_path_factory.mktemp("sft resumed")

    def kill(row):
        if row["step"] >= KILL_AT:
            raise Killed

    with pytest.raises(Killed):
        run_sft(SETTINGS, toy_world.rollouts, toy_world.model, out, on_step=kill)
    assert latest_step(out / "checkpoints") == 40
    return run_sft(SETTINGS, toy_world.rollouts, toy_world.model, out)


def losses(result) -> dict[int, float]:
    return {int(row["step"]): row["train/loss"] for row in read_metrics(result.metrics_file)}


def test_loss_falls(straight):
    curve = losses(straight)
    assert list(curve) == list(range(1, STEPS + 1))
    assert curve[STEPS] < 0.2 < 3 < curve[1]


def test_export_gives_the_checkpoints_logits(straight):
    assert straight.max_logit_difference == 0.0
    assert (straight.model_dir / "tokenizer_config.json").exists()


def test_resumed_run_equals_the_straight_one(straight, resumed):
    assert losses(resumed) == pytest.approx(losses(straight), abs=1e-5)


def test_tensorboard_is_written(straight):
    assert list((straight.model_dir.parent / "tensorboard").rglob("events.out.tfevents.*"))


def test_missing_model_folder_is_one_clear_line(toy_world, tmp_path):
    with pytest.raises(TrainingError, match=r"config\.json is missing"):
        run_sft(SETTINGS, toy_world.rollouts, tmp_path / "nothing", tmp_path / "out")


def test_unknown_override_is_named(toy_world, tmp_path):
    settings = SETTINGS.model_copy(update={"overrides": {"trainer.no_such_key": 1}})
    with pytest.raises(TrainingError, match="no_such_key"):
        run_sft(settings, toy_world.rollouts, toy_world.model, tmp_path / "out")
