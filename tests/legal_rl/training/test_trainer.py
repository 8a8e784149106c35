"""Guards and counters of the GRPO trainer."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.slow  # importing verl's trainer takes a quarter of a minute


def test_empty_evidence_guard_looks_at_a_full_window():
    from legal_rl.training.metrics import TrainingError
    from legal_rl.training.trainer import EmptyEvidenceGuard

    guard = EmptyEvidenceGuard(threshold=0.5, window=3)
    guard.observe(10, 10, step=1)
    guard.observe(10, 8, step=2)
    guard.observe(0, 0, step=3)  # a step without searches says nothing
    with pytest.raises(TrainingError, match=r"step 4: 67% of the searches of the last 3 steps found nothing"):
        guard.observe(10, 2, step=4)


def test_guard_stays_quiet_below_the_threshold():
    from legal_rl.training.trainer import EmptyEvidenceGuard

    guard = EmptyEvidenceGuard(threshold=0.5, window=2)
    for step, empty in enumerate((9, 1, 8, 2)):
        guard.observe(10, empty, step)


def test_invalid_rollouts_are_counted_once(tmp_path):
    from legal_rl.training.trainer import InvalidCounter

    path = tmp_path / "invalid.jsonl"
    path.write_text(json.dumps({"reason": "deadline"}) + "\n")
    counter = InvalidCounter(path)  # what an earlier run left is not this one's
    with path.open("a") as file:
        for reason in ("retrieval_error", "token_mismatch"):
            file.write(json.dumps({"reason": reason}) + "\n")
    assert counter.since_last() == {"invalid_rollouts": 2.0, "mismatched_rollouts": 1.0}
    assert counter.since_last() == {"invalid_rollouts": 0.0, "mismatched_rollouts": 0.0}


def test_means_over_the_batch():
    from legal_rl.training.trainer import mean_infos

    assert mean_infos([{"acc": 1.0}, {"acc": 0.0}]) == {"acc": 0.5}
    assert mean_infos([]) == {}
