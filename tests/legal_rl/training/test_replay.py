"""The filtering replay buffer over a toy queue."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.slow  # importing verl takes a quarter of a minute

SETTINGS = {"enabled": True, "metrics": ["acc", "gain"], "min_valid": 2, "max_refills": 2}


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A buffer whose queue is a dictionary; `toy.feed` holds the groups that refills bring."""
    import torch

    from legal_rl.training import replay

    store: dict[str, dict] = {}
    state = SimpleNamespace(feed=[], cleared=[], written={}, stop=tmp_path / "stopped.txt")

    class Queue:
        @staticmethod
        def kv_list(*_args):
            return {"train": {key: row["tag"] for key, row in store.items()}}

        @staticmethod
        def kv_batch_get(keys, partition_id, select_fields):
            if select_fields == ["rm_scores"]:
                return {"rm_scores": torch.stack([torch.ones(2) for _ in keys])}
            return {"extra_fields": [{"reward_extra_info": store[key]["info"]} for key in keys]}

        @staticmethod
        def kv_batch_put(keys, partition_id, fields):
            state.written = {key: fields["rm_scores"][i].tolist() for i, key in enumerate(keys)}

        @staticmethod
        def kv_clear(partition_id, keys):
            state.cleared += keys
            for key in keys:
                store.pop(key, None)

    def add(uid: str, *accs: float) -> None:
        store[uid] = {"tag": {"is_prompt": True, "status": "finished", "global_steps": 1}}
        for i, acc in enumerate(accs):
            store[f"{uid}_{i}_0"] = {"tag": {"seq_len": 3}, "info": {"acc": acc, "gain": 0.0}}

    def refill(count: int) -> None:
        for _ in range(min(count, len(state.feed))):
            add(*state.feed.pop(0))

    import verl.trainer.ppo.v1.replay_buffer as base

    monkeypatch.setattr(replay, "tq", Queue)
    monkeypatch.setattr(base, "tq", Queue)
    kwargs = SimpleNamespace(**SETTINGS, stop_file=str(state.stop))
    state.buffer = replay.GroupFilterBuffer(
        trainer_mode="sync",
        trainer_config=None,
        max_off_policy_threshold=None,
        max_off_policy_strategy="drop",
        sampler_kwargs=kwargs,
        refill_fn=refill,
    )
    state.add = add
    return state


def test_dropped_groups_are_replaced(toy):
    toy.add("a", 1, 0)
    toy.add("b", 1, 1)
    toy.add("c", 1)
    toy.feed = [("d", 0, 1), ("e", 0, 0), ("f", 1, 0)]
    batch, counts = toy.buffer.sample(1, "train", 3)
    assert sorted({key.split("_")[0] for key in batch.keys}) == ["a", "d", "f"]
    assert counts == {
        "groups/kept": 3.0,
        "groups/constant": 2.0,
        "groups/invalid": 1.0,
        "groups/refills": 3.0,
    }


def test_refills_are_bounded_and_the_step_goes_on_with_fewer(toy):
    toy.add("a", 1, 0)
    toy.add("b", 1, 1)
    toy.feed = [("c", 1, 1), ("d", 1, 1), ("e", 0, 1)]
    batch, counts = toy.buffer.sample(1, "train", 2)
    assert {key.split("_")[0] for key in batch.keys} == {"a"}
    assert counts["groups/refills"] == 2.0


def test_a_step_without_signal_trains_nothing_and_five_in_a_row_stop(toy):
    from legal_rl.training.replay import NoSignalError

    for step in range(5):
        toy.add(f"s{step}", 1, 1)
        batch, counts = toy.buffer.sample(step, "train", 1)
        assert counts["groups/kept"] == 0.0
        assert set(toy.written) == set(batch.keys)
        assert all(value == [0.0, 0.0] for value in toy.written.values())
        for key in batch.keys:
            toy.buffer._clear_groups("train", {key.split("_")[0]})
    toy.add("s5", 1, 1)
    with pytest.raises(NoSignalError, match="raise temperature"):
        toy.buffer.sample(5, "train", 1)


def test_an_outage_stops_the_wait(toy):
    from legal_rl.training.replay import OutageError

    toy.stop.write_text("no answer for 600 s\n")
    with pytest.raises(OutageError, match="no answer for 600 s"):
        toy.buffer.sample(1, "train", 1)
