"""The SFT subprocess: `python -m legal_rl.training.sft_job job.json`, one process per rank. Started by `sft`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs.records import read_rollouts
from envs.tokens import record_from_messages
from envs.types import TokenRecord
from legal_rl.training.export import export_checkpoint
from legal_rl.training.metrics import MetricsFile, TrainingError, check_finite, latest_step
from legal_rl.training.process import write_error, write_result
from legal_rl.training.rows import write_sft_rows
from legal_rl.training.settings import SftSettings


def single_rank_environment() -> None:
    """What torchrun would set for one process; saves its start-up."""
    from legal_rl.training.process import free_port

    for name, value in {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }.items():
        os.environ.setdefault(name, value)


def _tracking_class(base: type, metrics_path: Path, resume_step: int) -> type:
    """verl's `Tracking` that also appends to `metrics.jsonl` and stops at NaN."""

    class JsonLinesTracking(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._metrics = MetricsFile(metrics_path, resume_step)

        def log(self, data: dict[str, Any], step: int, **kwargs: Any) -> None:
            super().log(data, step, **kwargs)
            self._metrics.append(step, data)
            check_finite(data, step)

    return JsonLinesTracking


def _fit(config: Any) -> None:
    """verl's trainer from start or checkpoint to the end."""
    from verl.trainer.sft_trainer import SFTTrainer
    from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

    initialize_global_process_group()
    trainer = SFTTrainer(config=config)
    if trainer.resume_global_step and trainer.resume_global_step % len(trainer.train_dataloader) == 0:
        # A checkpoint at the end of an epoch restores an exhausted loader: verl would skip the next epoch's order.
        trainer._build_dataloader()
        trainer.ckpt_handler.train_dataloader = trainer.train_dataloader
    trainer.fit()
    destroy_global_process_group()


def records_from_rollouts(path: Path, model_dir: Path) -> Iterator[TokenRecord]:
    """Token records of the rollouts in a JSON Lines file.

    Rollouts of a text policy (the teacher) carry messages only; the environment's own token builder turns them into
    the tokens that a rollout of the model would have.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    for rollout in read_rollouts(path):
        yield rollout.tokens or record_from_messages(tokenizer, rollout.messages)


def _training_rows(settings: SftSettings, records: Path, model_dir: Path, out_dir: Path, first: bool) -> Path:
    """The parquet file to train on; rank 0 makes it, the other ranks wait for it."""
    if records.suffix == ".parquet":
        return records
    rows, job_file = out_dir / "train.parquet", out_dir / "job.json"
    if first:
        count = write_sft_rows(records_from_rollouts(records, model_dir), rows, settings.mask, settings.max_length)
        if count < settings.batch_size:
            raise TrainingError(f"{records}: {count} trajectories, fewer than one batch ({settings.batch_size})")
    while not rows.exists() or rows.stat().st_mtime < job_file.stat().st_mtime:
        time.sleep(0.2)
    return rows


def train(job: dict[str, Any]) -> None:
    """Runs verl's own SFT trainer on our token records."""
    import torch
    from omegaconf import OmegaConf
    from verl.trainer import sft_trainer

    from legal_rl.training.verl_config import sft_config

    torch.set_flush_denormal(True)
    settings, out_dir = SftSettings(**job["settings"]), Path(job["out_dir"])
    torch.manual_seed(settings.seed)
    first = os.environ["RANK"] == "0"
    rows = _training_rows(settings, Path(job["records_file"]), Path(job["model_dir"]), out_dir, first)
    config = sft_config(settings, rows, Path(job["model_dir"]), out_dir)
    if first:
        OmegaConf.save(config, out_dir / "verl_config.yaml", resolve=True)
    resume = latest_step(out_dir / "checkpoints")
    verls: type = sft_trainer.Tracking  # pyright: ignore[reportPrivateImportUsage]
    tracking = _tracking_class(verls, out_dir / "metrics.jsonl", resume)
    sft_trainer.Tracking = tracking  # pyright: ignore[reportPrivateImportUsage]  # verl makes its logger by this name
    _fit(config)
    if first:
        steps = latest_step(out_dir / "checkpoints")
        exported = export_checkpoint(out_dir / "checkpoints" / f"global_step_{steps}", out_dir / "model")
        write_result(out_dir, exported, steps)


def main() -> int:
    """Exit code 0 or 1; on 1 the reason is in `error.txt` beside the job file."""
    job_file = Path(sys.argv[1])
    single_rank_environment()
    try:
        train(json.loads(job_file.read_text(encoding="utf-8")))
    except Exception as error:
        write_error(job_file, error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
