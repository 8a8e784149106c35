"""verl on a CPU: the adaptations that verl 0.9.1 needs, installed through its plugin entry point.

verl *loads* the entry points of `verl.plugins` (it imports the module, it calls nothing), so importing this module
registers the platform. Everything that touches a heavy module of verl waits until verl itself imports that module
(`wrapt` post-import hooks): a process that only uses `verl.protocol` pays nothing.
"""

from __future__ import annotations

import os
from datetime import timedelta
from types import ModuleType
from typing import Any

import wrapt

from legal_rl.platform.activation import PLATFORM_NAME, cpu_platform_active
from legal_rl.platform.distribution import alias_vllm_distribution

FSDP_MODULE = "verl.workers.engine.fsdp.transformer_impl"
FUNCTIONAL_MODULE = "verl.utils.torch_functional"
DISTRIBUTED_MODULE = "verl.utils.distributed"


def register_platform() -> None:
    """Adaptations 1 and 2: makes `PlatformCPU` known and the one in use."""
    from verl.plugin.platform import PlatformRegistry, set_platform
    from verl.plugin.platform import platform_manager as manager

    from legal_rl.platform.cpu_platform import PlatformCPU

    PlatformRegistry.register(platform=PLATFORM_NAME)(PlatformCPU)
    current = manager._current_platform
    if not isinstance(current, PlatformCPU):
        set_platform(PlatformCPU())
    # Child processes that verl starts must not probe for a driver again.
    os.environ["VERL_PLATFORM"] = PLATFORM_NAME


def register_fsdp_engine(module: ModuleType) -> None:
    """Adaptation 3: verl registers its FSDP engines for cuda and npu only; the code itself runs on any device."""
    from verl.workers.engine.base import EngineRegistry

    for model_type, engine in (
        ("language_model", module.FSDPEngineWithLMHead),
        ("value_model", module.FSDPEngineWithValueHead),
    ):
        if PLATFORM_NAME not in EngineRegistry._engines[model_type]["fsdp2"]:
            EngineRegistry.register(model_type=model_type, backend=["fsdp", "fsdp2"], device=[PLATFORM_NAME])(engine)


def unpin_offload_policy(module: ModuleType) -> None:
    """Adaptation 5: FSDP2's CPU offload pins host memory by default, and pinning needs a CUDA driver."""
    policy = module.CPUOffloadPolicy

    def cpu_offload_policy(pin_memory: bool = False) -> Any:
        return policy(pin_memory=False)

    module.CPUOffloadPolicy = cpu_offload_policy  # type: ignore[attr-defined]


def use_gloo_groups(module: ModuleType) -> None:
    """Adaptation 4: verl composes the backend `cpu:gloo,cpu:gloo`, which torch refuses; one `cpu:gloo` is meant."""
    original_ray = module.initialize_global_process_group_ray

    def initialize_global_process_group_ray(timeout_second: int | None = None, backend: str | None = None) -> None:
        original_ray(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    def initialize_global_process_group(timeout_second: int = 36000) -> tuple[int, int, int]:
        import torch.distributed

        torch.distributed.init_process_group(
            backend="gloo",
            timeout=timedelta(seconds=timeout_second),
            init_method=os.environ.get("DIST_INIT_METHOD"),
        )
        return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    module.initialize_global_process_group_ray = initialize_global_process_group_ray  # type: ignore[attr-defined]
    module.initialize_global_process_group = initialize_global_process_group  # type: ignore[attr-defined]


def fuse_logprobs(module: ModuleType) -> None:
    """Adaptation 8, for speed: without flash attention verl takes `logsumexp` of one token after the other.

    The backward of each row's selection writes a gradient of the size of all logits, so a step costs tokens squared.
    One cross entropy over all rows gives the same numbers.
    """
    import torch

    def logprobs_from_logits_v2(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        rows = logits.reshape(-1, logits.shape[-1])
        loss = torch.nn.functional.cross_entropy(rows, labels.reshape(-1), reduction="none")
        return -loss.view(labels.shape)

    if not hasattr(module, "logprobs_from_logits_v2"):
        raise ImportError(f"{FUNCTIONAL_MODULE}.logprobs_from_logits_v2 is gone; adapt legal_rl.platform.verl_cpu")
    module.logprobs_from_logits_v2 = logprobs_from_logits_v2  # type: ignore[attr-defined]


def adapt_fsdp(module: ModuleType) -> None:
    """Both adaptations of verl's FSDP module, in the hook that runs right after its import."""
    register_fsdp_engine(module)
    unpin_offload_policy(module)


_installed = False


def register() -> None:
    """Installs all adaptations once, if this process is on the CPU platform. Safe to call again."""
    global _installed
    if _installed or not cpu_platform_active():
        return
    _installed = True
    alias_vllm_distribution()
    register_platform()
    wrapt.register_post_import_hook(adapt_fsdp, FSDP_MODULE)
    wrapt.register_post_import_hook(use_gloo_groups, DISTRIBUTED_MODULE)
    wrapt.register_post_import_hook(fuse_logprobs, FUNCTIONAL_MODULE)


register()
