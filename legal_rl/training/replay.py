"""The group filter: which finished groups of rollouts a GRPO step trains on.

GRPO learns from differences inside a group. A group whose answers are all equally right (and whose evidence supports
them equally) teaches nothing about the answer; its shaped reward would only push style. Such groups, and groups with
too few valid rollouts for a baseline, are dropped and replaced by fresh questions (decisions: "Group filter").
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from legal_rl.training.group_filter import GroupFilter
from retrieval_server.errors import LegalRLError

POLL_INTERVAL_S = 0.05
MAX_STEPS_WITHOUT_SIGNAL = 5


class NoSignalError(LegalRLError):
    """Every group drawn for a step was dropped, so there is nothing to learn from."""


class OutageError(LegalRLError):
    """The retrieval server stayed away for longer than the run was to wait."""


def reward_infos(keys: list[str], partition_id: str) -> list[dict[str, float]]:
    """The `reward_extra_info` of rollouts in the TransferQueue, in the order of their keys."""
    data: Any = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=["extra_fields"])
    return [getattr(value, "data", value)["reward_extra_info"] for value in list(data["extra_fields"])]


class GroupFilterBuffer(ReplayBuffer):
    """verl's synchronous replay buffer with our filter, bounded refills and a short poll.

    verl's own filter looks at one metric, refills without bound and polls every two seconds, which is most of a step
    of a small model.
    """

    def __init__(self, *args: Any, sampler_kwargs: Any, refill_fn: Any = None, **kwargs: Any) -> None:
        super().__init__(
            *args, sampler_kwargs=sampler_kwargs, refill_fn=refill_fn, poll_interval=POLL_INTERVAL_S, **kwargs
        )
        self._rule = GroupFilter(
            enabled=bool(sampler_kwargs.enabled),
            metrics=tuple(sampler_kwargs.metrics),
            min_valid=int(sampler_kwargs.min_valid),
        )
        self._max_refills = int(sampler_kwargs.max_refills)
        self._steps_without_signal = 0
        self._spare: str | None = None
        """A dropped group of the step in work, kept until it is known that another one is left."""
        self._stop_file = Path(sampler_kwargs.stop_file)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, float]]:
        """A batch of up to `batch_size` groups and the filter's counts."""
        if partition_id == "val":
            self._wait_until_idle(partition_id)
            uids = self._terminal(partition_id)[:batch_size]
            return self._materialize_batch(partition_id, uids, dict(self.partitions[partition_id])), {}
        counts: dict[str, float] = {"kept": 0.0, "constant": 0.0, "invalid": 0.0, "refills": 0.0}
        kept: list[str] = []
        self._spare = None
        for round_no in range(self._max_refills + 1):
            self._wait_until_idle(partition_id)
            kept += self._judge(partition_id, exclude={*kept, self._spare}, counts=counts)
            missing = batch_size - len(kept)
            if missing <= 0 or round_no == self._max_refills:
                break
            counts["refills"] += missing
            assert self.refill_fn is not None
            self.refill_fn(missing)
        self._steps_without_signal = 0 if kept else self._steps_without_signal + 1
        if not kept:
            kept = self._silenced_group(partition_id, global_steps, counts)
        elif self._spare is not None:
            self._clear_groups(partition_id, {self._spare})
        counts["kept"] = float(len(kept)) if not self._steps_without_signal else 0.0
        batch = self._materialize_batch(partition_id, kept, dict(self.partitions[partition_id]))
        return batch, {f"groups/{name}": value for name, value in counts.items()}

    def _silenced_group(self, partition_id: str, step: int, counts: dict[str, float]) -> list[str]:
        """One group without advantages, so that verl can finish a step that has nothing to learn from.

        Raises:
            NoSignalError: no valid rollout at all, or too many such steps in a row.
        """
        text = f"{counts['constant']:.0f} groups constant, {counts['invalid']:.0f} invalid"
        if self._spare is None or self._steps_without_signal > MAX_STEPS_WITHOUT_SIGNAL:
            raise NoSignalError(
                f"step {step}: nothing to learn from ({text}) for {self._steps_without_signal} step(s); "
                "raise temperature or max_refills, or give easier or harder questions"
            )
        print(f"[grpo] step {step}: no group differs in its answers ({text}); no update", flush=True)
        keys = [key for key in self.partitions[partition_id] if key.split("_")[0] == self._spare]
        data: Any = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=["rm_scores"])
        data["rm_scores"] = data["rm_scores"] * 0.0
        tq.kv_batch_put(keys=keys, partition_id=partition_id, fields=data)
        return [self._spare]

    def _terminal(self, partition_id: str) -> list[str]:
        done = self.finished_keys[partition_id] | self.failure_keys[partition_id]
        return sorted(done, key=lambda uid: self.prompt_global_steps[partition_id].get(uid, 0))

    def _wait_until_idle(self, partition_id: str) -> None:
        """Blocks until no rollout of the partition is pending or running."""
        while True:
            if self._stop_file.exists():
                raise OutageError(self._stop_file.read_text(encoding="utf-8").strip())
            self._sync_metadata_from_transfer_queue()
            if not (self.pending_keys[partition_id] or self.running_keys[partition_id]):
                return
            time.sleep(self.poll_interval)

    def _judge(self, partition_id: str, exclude: set[str | None], counts: dict[str, float]) -> list[str]:
        """Judges the groups that are new, clears the dropped ones from the queue and returns the kept ones."""
        fresh = [uid for uid in self._terminal(partition_id) if uid not in exclude]
        infos = self._reward_infos(partition_id, set(fresh))
        verdicts = {uid: self._rule.verdict(infos[uid]) for uid in fresh}
        dropped = {uid for uid, verdict in verdicts.items() if verdict != "keep"}
        for uid in dropped:
            counts[verdicts[uid]] += 1
        if self._spare is None:
            self._spare = next((uid for uid in fresh if verdicts[uid] == "constant"), None)
        self._clear_groups(partition_id, dropped - {self._spare})
        return [uid for uid in fresh if uid not in dropped]

    def _reward_infos(self, partition_id: str, uids: set[str]) -> dict[str, list[dict[str, float]]]:
        """Reward breakdown of every rollout of the groups `uids`."""
        infos: dict[str, list[dict[str, float]]] = defaultdict(list)
        keys = [key for key in self.partitions[partition_id] if key.split("_")[0] in uids]
        if keys:
            for key, info in zip(keys, reward_infos(keys, partition_id), strict=True):
                infos[key.split("_")[0]].append(info)
        return infos
