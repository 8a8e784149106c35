"""The rails of a training run: what stops it, what warns, what is counted. No verl needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from legal_rl.training.metrics import TrainingError
from legal_rl.training.rails import (
    Alarms,
    AlarmSettings,
    EmptyEvidenceGuard,
    InvalidCounter,
    InvalidShareGuard,
    health_metrics,
    mean_infos,
)


def test_empty_evidence_guard_looks_at_a_full_window() -> None:
    guard = EmptyEvidenceGuard(threshold=0.5, window=3)
    guard.observe(10, 10, step=1)
    guard.observe(10, 8, step=2)
    guard.observe(0, 0, step=3)  # a step without searches says nothing
    with pytest.raises(TrainingError, match=r"step 4: 67% of the searches of the last 3 steps found nothing"):
        guard.observe(10, 2, step=4)


def test_guard_stays_quiet_below_the_threshold() -> None:
    guard = EmptyEvidenceGuard(threshold=0.5, window=2)
    for step, empty in enumerate((9, 1, 8, 2)):
        guard.observe(10, empty, step)


def test_a_run_that_loses_a_fifth_of_its_rollouts_is_stopped_with_the_reasons() -> None:
    guard = InvalidShareGuard(threshold=0.2, window=2)
    assert guard.observe(6, {"deadline": 2}, step=1) == 0.25  # one bad step is no reason yet
    assert guard.observe(8, {}, step=2) == 0.0  # 2 of 16
    with pytest.raises(
        TrainingError, match=r"step 3: 24% .* \(more than 20%; most often judge \(5\), deadline \(2\)\)"
    ):
        guard.observe(8, {"judge": 5}, step=3)


def test_invalid_rollouts_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "invalid.jsonl"
    path.write_text(json.dumps({"reason": "deadline"}) + "\n")
    counter = InvalidCounter(path)  # what an earlier run left is not this one's
    with path.open("a") as file:
        for reason in ("retrieval_error", "token_mismatch"):
            file.write(json.dumps({"reason": reason, "terms": []}) + "\n")
    assert [entry["reason"] for entry in counter.since_last()] == ["retrieval_error", "token_mismatch"]
    assert counter.since_last() == [] == InvalidCounter(tmp_path / "none").since_last()


def test_means_over_the_batch() -> None:
    assert mean_infos([{"acc": 1.0}, {"acc": 0.0}]) == {"acc": 0.5}
    assert mean_infos([]) == {}


def test_health_is_hand_worked() -> None:
    infos = [
        {"num_searches": 2.0, "num_empty_searches": 1.0, "tool_seconds": 1.0},
        {"num_searches": 1.0, "num_empty_searches": 0.0, "tool_seconds": 0.1},
        {"num_searches": 0.0, "num_empty_searches": 0.0, "tool_seconds": 0.0},
    ]
    lost = [{"reason": "token_mismatch"}, {"reason": "answer", "terms": ["gain"]}]
    health = health_metrics(infos, lost)
    assert health["invalid_rollouts"] == 2 and health["invalid/answer"] == 1 and health["token_mismatch"] == 0.25
    assert health["valid/gain"] == pytest.approx(1 - 1 / 5) and health["valid/acc"] == 1.0
    assert health["empty_evidence"] == pytest.approx(1 / 3)
    assert (health["tool_latency_s/p50"], health["tool_latency_s/p95"]) == (0.5, 0.5)
    assert "tool_latency_s/p50" not in health_metrics([], []) and health_metrics([], [])["valid/acc"] == 1.0


NORMAL = {
    "actor/kl_loss": 0.01, "entropy_estimate": 0.5, "self_written_evidence": 0.0, "answer_chars": 20.0,
    "num_searches": 1.0, "acc": 0.3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "alarm"),
    [
        ({"actor/kl_loss": 3.0}, "kl"),
        ({"entropy_estimate": 0.0}, "entropy"),
        ({"self_written_evidence": 0.5}, "self_written"),
        ({"answer_chars": 90.0}, "answer_length"),
        ({"answer_chars": 2.0}, "answer_length"),
        ({"num_searches": 2.5}, "search_for_reward"),
        ({"num_searches": 2.5, "acc": 0.6}, ""),
        ({}, ""),
    ],
)
def test_alarms(change: dict[str, float], alarm: str) -> None:
    alarms, said = Alarms(AlarmSettings(window=3)), []
    for step in range(4):
        assert not any(alarms.observe(NORMAL, step, said.append).values())
    for step in range(4, 8):
        seen = alarms.observe(NORMAL | change, step, said.append)
    assert [name for name, on in seen.items() if on] == ([f"alarm/{alarm}"] if alarm else [])
    assert len(said) == bool(alarm) and all("alarm at step" in line for line in said)  # said once, not every step
    for step in range(8, 12):
        seen = alarms.observe(NORMAL, step, said.append)
    assert not any(seen.values()) and (not alarm or said[-1].endswith(f"{alarm} is quiet again"))


def test_every_alarm_is_a_metric_from_the_first_step() -> None:
    assert set(Alarms().observe({}, 1)) == {f"alarm/{name}" for name in Alarms.NAMES}
