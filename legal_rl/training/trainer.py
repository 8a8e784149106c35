"""`LegalTrainer`: verl's synchronous PPO trainer plus what a run over a legal environment must watch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from legal_rl.training.metrics import MetricsFile, check_finite, read_metrics
from legal_rl.training.rails import (
    Alarms,
    EmptyEvidenceGuard,
    InvalidCounter,
    InvalidShareGuard,
    health_metrics,
    mean_infos,
)
from legal_rl.training.replay import OutageError, reward_infos
from legal_rl.training.settings import GrpoSettings


class LegalTrainer(PPOTrainerSync):
    """Adds to verl's trainer: `metrics.jsonl`, reward terms and health as metrics, and the rails of `rails`."""

    def __init__(self, config: Any, metrics_path: Path, settings: GrpoSettings) -> None:
        super().__init__(config)
        self._metrics_path = metrics_path
        self._empty_guard = EmptyEvidenceGuard(settings.max_empty_evidence, settings.empty_evidence_window)
        self._invalid_guard = InvalidShareGuard(settings.max_invalid, settings.invalid_window)
        self._alarms = Alarms(settings.alarms)
        self._metrics_file: MetricsFile | None = None
        self._invalid = InvalidCounter(metrics_path.with_name("invalid.jsonl"))

    def on_train_begin(self) -> None:
        """`global_steps` is already the first step to train."""
        self._metrics_file = MetricsFile(self._metrics_path, resume_step=self.global_steps - 1)
        for row in read_metrics(self._metrics_path):  # of a resumed run: what is normal was seen before
            self._alarms.observe(row, int(row["step"]), say=lambda text: None)
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
        lost = self._invalid.since_last()
        metrics.update(mean_infos(infos))
        metrics.update(health_metrics(infos, lost))
        metrics.update(self._alarms.observe(metrics, global_steps, say=lambda text: print(text, flush=True)))
        assert self._metrics_file is not None
        self._metrics_file.append(global_steps, metrics)
        check_finite(metrics, global_steps)
        searches = sum(float(info.get("num_searches", 0.0)) for info in infos)
        self._empty_guard.observe(searches, searches * metrics["empty_evidence"], global_steps)
        self._invalid_guard.observe(len(infos), Counter(entry["reason"] for entry in lost), global_steps)

    def _reward_infos(self, batch: Any) -> list[dict[str, float]]:
        keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        return reward_infos(keys, batch.partition_id)
