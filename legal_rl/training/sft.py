"""Evidence-masked SFT with verl's trainer, as one call: records in, Hugging Face folder out."""

from __future__ import annotations

import time
from pathlib import Path

from legal_rl.training.cluster_env import training_environment
from legal_rl.training.metrics import TrainingError
from legal_rl.training.process import OnStep, TrainingResult, read_result, run_stage
from legal_rl.training.settings import SftSettings


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
    if not records_file.is_file():
        raise TrainingError(f"{records_file}: no such file of trajectories")
    job = {
        "settings": settings.model_dump(),
        "records_file": str(records_file.resolve()),
        "model_dir": str(model_dir.resolve()),
        "out_dir": str(out_dir),
    }
    ranks = settings.n_gpus_per_node
    env = training_environment(
        settings.threads, ranks, {"TENSORBOARD_DIR": str(out_dir / "tensorboard")}, wandb=settings.wandb
    )
    launcher = ["torchrun", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    run_stage("legal_rl.training.sft_job", job, out_dir, env, on_step, launcher)
    return read_result(out_dir, started)


def check_model_dir(model_dir: Path) -> None:
    """Refuses a folder that holds no Hugging Face model."""
    if not (model_dir / "config.json").is_file():
        raise TrainingError(f"{model_dir}: no Hugging Face model folder (config.json is missing)")
