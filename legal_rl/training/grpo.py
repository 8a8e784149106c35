"""GRPO with verl, as one call: questions and a retrieval server in, Hugging Face folder out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envs.env import EnvConfig
from envs.records import read_questions
from legal_rl.training.agent_state import STOP_FILE
from legal_rl.training.cluster_env import training_environment
from legal_rl.training.metrics import TrainingError, latest_step
from legal_rl.training.process import OnStep, TrainingResult, read_result, run_stage
from legal_rl.training.rows import write_grpo_rows
from legal_rl.training.settings import GrpoSettings
from legal_rl.training.sft import check_model_dir

OnNotice = Callable[[str], None]


def run_grpo(
    settings: GrpoSettings,
    train_file: Path,
    val_file: Path | None,
    model_dir: Path,
    out_dir: Path,
    retrieval_url: str,
    environment: EnvConfig | None = None,
    *,
    reward_preset: str = "default",
    reward_weights: Mapping[str, float] | None = None,
    judge: Mapping[str, Any] | None = None,
    on_step: OnStep | None = None,
    on_notice: OnNotice | None = None,
    ray_temp_dir: Path | None = None,
) -> TrainingResult:
    """Trains `model_dir` by GRPO against the Legal Assistant at `retrieval_url` and exports `out_dir/model`.

    Goes on from its last checkpoint when `out_dir` holds one. Leaves `metrics.jsonl`, `tensorboard/`, `rollouts/`,
    `invalid.jsonl`, `verl_config.yaml` and `log.txt` in `out_dir`.

    Args:
        train_file, val_file: questions (JSON Lines of envs.records) or parquet of `write_grpo_rows`.
        on_step: called with each step's metrics.
        on_notice: called with one line when the run pauses for the retrieval server or goes on.

    Raises:
        TrainingError: bad input, an outage that outlasted `retrieval_patience_s`, NaN, or another failure; one line.
    """
    started = time.monotonic()
    check_model_dir(model_dir)
    out_dir = out_dir.resolve()
    out_dir.mkdir(parents=True, exist_ok=True)
    for stale in (STOP_FILE, "notices.txt"):
        (out_dir / stale).unlink(missing_ok=True)
    _drop_untrained_dumps(out_dir)
    environment = _patient(environment or EnvConfig(), settings)
    train_rows = _rows(train_file, out_dir / "train.parquet", settings.prompts_per_step)
    job: dict[str, Any] = {
        "settings": settings.model_dump(),
        "train_file": str(train_rows),
        "val_file": str(_rows(val_file, out_dir / "val.parquet", 1)) if val_file else str(train_rows),
        "model_dir": str(model_dir.resolve()),
        "out_dir": str(out_dir),
        "agent": {
            "environment": environment.model_dump(mode="json"),
            "retrieval_url": retrieval_url,
            "retrieval_timeout_s": settings.retrieval_timeout_s,
            "retrieval_patience_s": settings.retrieval_patience_s,
            "reward_preset": reward_preset,
            "reward_weights": dict(reward_weights or {}),
            "judge": dict(judge) if judge else None,
            "dump_dir": str(out_dir / "rollouts") if settings.dump_rollouts else "",
            "run_dir": str(out_dir),
        },
        "ray_temp_dir": str(ray_temp_dir) if ray_temp_dir else None,
    }
    run_stage("legal_rl.training.grpo_job", job, out_dir, _environment(settings, out_dir), on_step, on_notice=on_notice)
    return read_result(out_dir, started)


def _environment(settings: GrpoSettings, out_dir: Path) -> dict[str, str]:
    extra = {
        "TENSORBOARD_DIR": str(out_dir / "tensorboard"),
        "VLLM_CPU_KVCACHE_SPACE": str(settings.vllm_cpu_cache_gib),
    }
    return training_environment(settings.threads, settings.n_gpus_per_node, extra, wandb=settings.wandb)


def _patient(environment: EnvConfig, settings: GrpoSettings) -> EnvConfig:
    """Deadlines that leave room for waiting: during an outage a run pauses, it does not lose its rollouts."""
    wait = settings.retrieval_patience_s + settings.retrieval_timeout_s + 10
    fields = {
        "tool_timeout_s": max(environment.tool_timeout_s, wait),
        "deadline_s": environment.deadline_s + wait,
        "max_response_tokens": min(environment.max_response_tokens, settings.max_response_tokens),
    }
    return environment.model_copy(update=fields)


def _rows(questions: Path, out: Path, at_least: int) -> Path:
    if questions.suffix == ".parquet":
        return questions.resolve()
    count = write_grpo_rows(read_questions(questions), out)
    if count < at_least:
        raise TrainingError(f"{questions}: {count} questions, fewer than one step needs ({at_least})")
    return out


def _drop_untrained_dumps(out_dir: Path) -> None:
    """Dumps of steps after the checkpoint that the run goes on from: those steps are played again."""
    resume = latest_step(out_dir / "checkpoints")
    for file in (out_dir / "rollouts").glob("step_*.jsonl"):
        if int(file.name.split("_")[1].split(".")[0]) > resume:
            file.unlink()
    if not resume:
        shutil.rmtree(out_dir / "checkpoints", ignore_errors=True)
