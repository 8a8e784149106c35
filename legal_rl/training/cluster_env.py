"""Environment variables of a training process and of the Ray cluster it starts on its own machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from legal_rl.platform.activation import PLATFORM_NAME, cpu_platform_active
from legal_rl.training.interpreter import interpreter

# Ray starts one Python process per CPU in advance, and each costs about a second of one core. The actors that verl
# creates carry an environment of their own and could not use them.
_RAY_QUIET = {
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    # Ray's workers would run at niceness 15 and starve beside anything else on the machine.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
}
# Nothing of a run may reach for the network.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def threads_per_process(threads: int, ranks: int) -> int:
    """The given number, or the cores shared out over the ranks; at least 1."""
    return threads or max(1, (os.cpu_count() or 1) // max(1, ranks))


def training_environment(
    threads: int,
    ranks: int,
    extra: Mapping[str, str] | None = None,
    base: Mapping[str, str] | None = None,
    wandb: bool = False,
) -> dict[str, str]:
    """Environment for a training subprocess; its Ray cluster and all their processes inherit it."""
    env = dict(os.environ if base is None else base)
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # a dozen processes would each compile all of vLLM and torch again
    env.update(_RAY_QUIET)
    env.update(_OFFLINE)
    env.setdefault("TOKENIZERS_PARALLELISM", "false")
    env.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    env.setdefault("PYTHONUNBUFFERED", "1")
    if wandb and not env.get("WANDB_API_KEY"):
        env.setdefault("WANDB_MODE", "offline")
    if cpu_platform_active():
        env.pop("CUDA_VISIBLE_DEVICES", None)  # Ray compares it with the number of logical GPUs
        env.update(cpu_environment(threads_per_process(threads, ranks)))
    env["PATH"] = os.pathsep.join([str(Path(interpreter()).parent), env.get("PATH", "")])
    env.update(extra or {})
    return env


def cpu_environment(threads: int) -> dict[str, str]:
    """Thread counts and passive waiting: spinning OpenMP threads of several processes cost a factor of ten."""
    count = str(threads)
    return {
        "VERL_PLATFORM": PLATFORM_NAME,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "OMP_WAIT_POLICY": "passive",
        "KMP_BLOCKTIME": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # vLLM compiles small helpers of its sampler with inductor: 40 s of a start, and a C++ compiler is needed.
        "TORCHDYNAMO_DISABLE": "1",
        # Lets the engine run its model itself instead of in a further process with all its imports.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
