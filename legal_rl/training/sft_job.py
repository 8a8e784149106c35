"""The SFT subprocess: `python -m legal_rl.training.sft_job job.json`, one process per rank. Started by `sft`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from legal_rl.training.metrics import MetricsFile, check_finite, latest_step
from legal_rl.training.process import write_error
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


def train(job: dict[str, Any]) -> None:
    """Runs verl's own SFT trainer on our token records."""
    import torch
    from omegaconf import OmegaConf
    from verl.trainer import sft_trainer

    from legal_rl.training.verl_config import sft_config

    torch.set_flush_denormal(True)
    settings, out_dir = SftSettings(**job["settings"]), Path(job["out_dir"])
    torch.manual_seed(settings.seed)
    config = sft_config(settings, Path(job["train_file"]), Path(job["model_dir"]), out_dir)
    if os.environ["RANK"] == "0":
        OmegaConf.save(config, out_dir / "verl_config.yaml", resolve=True)
    resume = latest_step(out_dir / "checkpoints")
    tracking = _tracking_class(sft_trainer.Tracking, out_dir / "metrics.jsonl", resume)
    sft_trainer.Tracking = tracking  # type: ignore[misc]  # verl makes its logger by this name
    sft_trainer.run_sft(config)


def main() -> int:
    """Exit code 0 or 1; on 1 the reason is in `error.txt` beside the job file."""
    job_file = Path(sys.argv[1])
    single_rank_environment()
    try:
        train(json.loads(job_file.read_text(encoding="utf-8")))
    except Exception as error:
        traceback.print_exc()
        write_error(job_file, f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
