"""`LegalTrainer`: verl's synchronous PPO trainer plus what a run over a legal environment must watch."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from legal_rl.training.metrics import MetricsFile, TrainingError, check_finite
from legal_rl.training.replay import OutageError, reward_infos


class EmptyEvidenceGuard:
    """Stops a run whose searches find nothing (decisions, trap 4): a broken service must not go unseen.

    Example: threshold 0.5, window 2: shares 0.9, 0.2 -> fine (mean 0.55 only after both) … raises when the mean of a
    full window exceeds the threshold.
    """

    def __init__(self, threshold: float, window: int) -> None:
        self._threshold = threshold
        self._shares: deque[float] = deque(maxlen=window)

    def observe(self, searches: float, empty: float, step: int) -> None:
        """Takes one step's number of searches and of those that came back empty."""
        if searches <= 0:
            return
        self._shares.append(empty / searches)
        full = len(self._shares) == self._shares.maxlen
        mean = sum(self._shares) / len(self._shares)
        if full and mean > self._threshold:
            raise TrainingError(
                f"step {step}: {mean:.0%} of the searches of the last {len(self._shares)} steps found nothing; "
                "check the retrieval server's index (legal-rl retrieve) and start again, the checkpoint is kept"
            )


def mean_infos(infos: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of the reward breakdowns of a batch, key by key; every rollout reports the same keys."""
    if not infos:
        return {}
    return {key: float(np.mean([float(info[key]) for info in infos])) for key in infos[0]}


class InvalidCounter:
    """Reads what the agent loops append to `invalid.jsonl`: those rollouts have no row in the batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def since_last(self) -> dict[str, float]:
        """New invalid rollouts, and those among them whose tokens were not the sampled ones."""
        if not self._path.exists():
            return {"invalid_rollouts": 0.0, "mismatched_rollouts": 0.0}
        with self._path.open(encoding="utf-8") as file:
            file.seek(self._offset)
            reasons = [json.loads(line)["reason"] for line in file.readlines()]
            self._offset = file.tell()
        return {
            "invalid_rollouts": float(len(reasons)),
            "mismatched_rollouts": float(reasons.count("token_mismatch")),
        }


class LegalTrainer(PPOTrainerSync):
    """Adds to verl's trainer: `metrics.jsonl`, reward terms as metrics, NaN guard and empty-evidence guard."""

    def __init__(self, config: Any, metrics_path: Path, max_empty: float = 0.5, empty_window: int = 3) -> None:
        super().__init__(config)
        self._metrics_path = metrics_path
        self._empty_guard = EmptyEvidenceGuard(max_empty, empty_window)
        self._metrics_file: MetricsFile | None = None
        self._invalid = InvalidCounter(metrics_path.with_name("invalid.jsonl"))

    def on_train_begin(self) -> None:
        """`global_steps` is already the first step to train."""
        self._metrics_file = MetricsFile(self._metrics_path, resume_step=self.global_steps - 1)
        print(f"[grpo] steps {self.global_steps}..{self.total_training_steps}", flush=True)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> Any:
        """One step; an outage in it first saves what the steps before have learnt."""
        loader_state = self.train_dataloader.state_dict()
        try:
            return super().step(metrics, timing_raw)
        except OutageError:
            self._save_finished_steps(loader_state)
            raise

    def _save_finished_steps(self, loader_state: Any) -> None:
        """Checkpoint of the last finished step, with the data position before the step that failed."""
        self.global_steps -= 1
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if self.global_steps > 0 and not folder.exists():
            self._save_checkpoint()
            torch.save(loader_state, folder / "data.pt")

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        infos = self._reward_infos(batch)
        metrics.update(mean_infos(infos))
        metrics.update(self._invalid.since_last())
        # mismatched rollouts never reach the batch, so their share is of all that were valid otherwise
        mismatched = metrics["mismatched_rollouts"]
        metrics["token_mismatch"] = mismatched / max(1.0, mismatched + len(infos))
        assert self._metrics_file is not None
        self._metrics_file.append(global_steps, metrics)
        check_finite(metrics, global_steps)
        searches = sum(float(info.get("num_searches", 0.0)) for info in infos)
        empty = sum(float(info.get("num_empty_searches", 0.0)) for info in infos)
        self._empty_guard.observe(searches, empty, global_steps)

    def _reward_infos(self, batch: Any) -> list[dict[str, float]]:
        keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        return reward_infos(keys, batch.partition_id)
