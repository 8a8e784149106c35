"""Evidence-masked SFT with verl's trainer, as one call: records in, Hugging Face folder out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from envs.records import read_rollouts
from envs.tokens import record_from_messages
from envs.types import TokenRecord
from legal_rl.training.cluster_env import training_environment
from legal_rl.training.export import export_checkpoint
from legal_rl.training.metrics import TrainingError, latest_step, read_metrics
from legal_rl.training.process import OnStep, run_stage
from legal_rl.training.rows import write_sft_rows
from legal_rl.training.settings import SftSettings


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A finished stage: the Hugging Face folder, the number of steps, its metrics and how long it took."""

    model_dir: Path
    steps: int
    metrics_file: Path
    seconds: float
    max_logit_difference: float = 0.0


def records_from_rollouts(path: Path, model_dir: Path) -> Iterable[TokenRecord]:
    """Token records of the rollouts in a JSON Lines file.

    Rollouts of a text policy (the teacher) carry messages only; the environment's own token builder turns them into
    the tokens that a rollout of the model would have.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    for rollout in read_rollouts(path):
        yield rollout.tokens or record_from_messages(tokenizer, rollout.messages)


def run_sft(
    settings: SftSettings, records_file: Path, model_dir: Path, out_dir: Path, on_step: OnStep | None = None
) -> TrainingResult:
    """Trains `model_dir` on the trajectories of `records_file` and exports `out_dir/model`.

    Goes on from its last checkpoint when `out_dir` holds one.

    Args:
        records_file: rollouts with tokens (JSON Lines of envs.records), or a parquet file of `write_sft_rows`.
        on_step: called with each step's metrics, such as `{"step": 3, "train/loss": …}`.

    Raises:
        TrainingError: bad input or a failed stage, one clear line.
    """
    started = time.monotonic()
    check_model_dir(model_dir)
    out_dir = out_dir.resolve()
    rows = records_file
    if records_file.suffix != ".parquet":
        rows = out_dir / "train.parquet"
        count = write_sft_rows(records_from_rollouts(records_file, model_dir), rows, settings.mask, settings.max_length)
        if count < settings.batch_size:
            raise TrainingError(f"{records_file}: {count} trajectories, fewer than one batch ({settings.batch_size})")
    job = {
        "settings": settings.model_dump(),
        "train_file": str(rows.resolve()),
        "model_dir": str(model_dir.resolve()),
        "out_dir": str(out_dir),
    }
    ranks = settings.n_gpus_per_node
    env = training_environment(
        settings.threads, ranks, {"TENSORBOARD_DIR": str(out_dir / "tensorboard")}, wandb=settings.wandb
    )
    launcher = ["torchrun", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    run_stage("legal_rl.training.sft_job", job, out_dir, env, on_step, launcher)
    steps = latest_step(out_dir / "checkpoints")
    exported = export_checkpoint(out_dir / "checkpoints" / f"global_step_{steps}", out_dir / "model")
    metrics = out_dir / "metrics.jsonl"
    assert read_metrics(metrics), "a finished stage has metrics"
    seconds = time.monotonic() - started
    return TrainingResult(exported.model_dir, steps, metrics, seconds, exported.max_logit_difference)


def check_model_dir(model_dir: Path) -> None:
    """Refuses a folder that holds no Hugging Face model."""
    if not (model_dir / "config.json").is_file():
        raise TrainingError(f"{model_dir}: no Hugging Face model folder (config.json is missing)")
