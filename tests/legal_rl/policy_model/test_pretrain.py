"""The pretraining loop: what is trained, determinism, and going on after a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from legal_rl.errors import ModelError
from legal_rl.policy_model.build import new_model
from legal_rl.policy_model.exercises import ExerciseMaker, Segment
from legal_rl.policy_model.pretrain import (
    CHECKPOINT_FILE,
    METRICS_FILE,
    PretrainState,
    encode,
    learning_rate,
    make_batch,
    pretrain,
    progress_of,
)
from legal_rl.policy_model.settings import PolicySettings
from legal_rl.policy_model.tokenizer import train_tokenizer

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tokenizer(texts, samples):
    return train_tokenizer(texts, samples, 700)


def _weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def _same(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_weights_follow_their_segments(tokenizer):
    exercise = [Segment("<|im_start|>user\n第五条<|im_end|>\n", 0.0), Segment("<answer>", 0.5), Segment("第五条", 1.0)]
    ids, weights = encode(tokenizer, exercise)
    label = tokenizer("第五条", add_special_tokens=False)["input_ids"]
    count = len(label)
    assert ids[-count:] == label and weights[-count - 1 :] == [0.5] + [1.0] * count
    assert set(weights[: -count - 1]) == {0.0}


def test_rows_too_short_for_any_exercise_are_refused(tokenizer, texts, settings):
    with pytest.raises(ModelError, match="max_length"):
        make_batch(ExerciseMaker(texts, 0), tokenizer, settings.model_copy(update={"max_length": 4}), 0)


def test_batch_is_a_function_of_seed_and_step(tokenizer, texts, settings):
    first, again, other = (make_batch(ExerciseMaker(texts, 0), tokenizer, settings, step) for step in (3, 3, 4))
    assert torch.equal(first.ids_BT, again.ids_BT) and torch.equal(first.weights_BT, again.weights_BT)
    assert first.ids_BT.shape != other.ids_BT.shape or not torch.equal(first.ids_BT, other.ids_BT)
    assert first.ids_BT.shape == first.weights_BT.shape
    assert first.ids_BT.shape[1] <= settings.max_length


def test_learning_rate_warms_up_then_decays_to_a_tenth():
    s = PolicySettings(learning_rate=1.0, warmup_steps=10)
    assert learning_rate(s, 0, 0.0) == pytest.approx(0.1)
    assert learning_rate(s, 50, 0.5) == pytest.approx(1.0)
    assert learning_rate(s, 99, 1.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("steps", "minutes", "state", "share"),
    [
        (10, 0, PretrainState(step=5, seconds=1e9), 0.5),
        (10, 1, PretrainState(step=1, seconds=30), 0.5),
        (10, 1, PretrainState(step=9, seconds=30), 0.9),
        (0, 0, PretrainState(), 1.0),
        (10, 1, PretrainState(step=11, seconds=90), 1.0),
    ],
)
def test_progress_is_the_further_of_steps_and_time(steps, minutes, state, share):
    assert progress_of(PolicySettings(steps=steps, minutes=minutes), state) == pytest.approx(share)


def test_a_killed_run_goes_on_to_the_same_weights(tokenizer, texts, settings, tmp_path: Path):
    straight = new_model(settings, tokenizer)
    pretrain(straight, tokenizer, texts, settings, tmp_path / "straight")

    halted = new_model(settings, tokenizer)
    work = tmp_path / "halted"
    work.mkdir()
    _stop_after(3, halted, tokenizer, texts, settings, work)
    assert torch.load(work / CHECKPOINT_FILE, weights_only=True)["state"]["step"] == 2
    resumed = new_model(settings, tokenizer)
    state = pretrain(resumed, tokenizer, texts, settings, work)
    assert state.step == 4
    assert _same(_weights(straight), _weights(resumed))


def _stop_after(step, model, tokenizer, texts, settings, work):
    """A run that dies in the forward pass after `step` steps."""

    class Stop(Exception):
        pass

    calls = 0
    original = model.model.forward

    def dying(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls > step:
            raise Stop
        return original(*args, **kwargs)

    model.model.forward = dying
    with pytest.raises(Stop):
        pretrain(model, tokenizer, texts, settings, work)


def test_a_checkpoint_of_other_settings_is_not_used(tokenizer, texts, settings, tmp_path: Path):
    pretrain(new_model(settings, tokenizer), tokenizer, texts, settings, tmp_path)
    other = settings.model_copy(update={"steps": 2, "learning_rate": 1e-3})
    assert pretrain(new_model(other, tokenizer), tokenizer, texts, other, tmp_path).step == 2
    assert len((tmp_path / METRICS_FILE).read_text().splitlines()) == 2


def test_metrics_are_json_lines(tokenizer, texts, settings, tmp_path: Path):
    pretrain(new_model(settings, tokenizer), tokenizer, texts, settings, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(line["loss"] > 0 and line["tokens"] > 0 for line in lines)


def test_a_diverged_run_says_so(tokenizer, texts, settings, tmp_path: Path):
    model = new_model(settings, tokenizer)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="step 0"):
        pretrain(model, tokenizer, texts, settings, tmp_path)
