"""vLLM on a CPU: weights that can be updated after loading (adaptation 7), through vLLM's general plugin hook."""

from __future__ import annotations

from typing import Any

import wrapt

from legal_rl.platform.activation import cpu_platform_active
from legal_rl.platform.distribution import alias_vllm_distribution

GEMM_MODULE = "vllm.model_executor.layers.utils"


def keep_weight_gemm(layer: Any, remove_weight: bool = False) -> None:
    """Replaces vLLM's `dispatch_cpu_unquantized_gemm`, which packs a layer's weight and drops the original.

    Training updates the weights after each step, and an update needs the parameter in its own shape ("load weight
    [..] into parameter [0]" otherwise). `torch.nn.functional.linear` reads the live parameter.
    """
    import torch

    if layer.weight.is_meta or layer.weight.ndim == 2:
        layer.cpu_linear = torch.nn.functional.linear


def keep_weights(module: Any) -> None:
    """Puts `keep_weight_gemm` in place; the callers import the function when they run, so this reaches all of them."""
    if not hasattr(module, "dispatch_cpu_unquantized_gemm"):
        raise ImportError(f"{GEMM_MODULE}.dispatch_cpu_unquantized_gemm is gone; adapt legal_rl.platform.vllm_cpu")
    module.dispatch_cpu_unquantized_gemm = keep_weight_gemm


_installed = False


def register() -> None:
    """Entry point of `vllm.general_plugins`: installs the adaptation once, if this process is on the CPU platform."""
    global _installed
    if _installed or not cpu_platform_active():
        return
    _installed = True
    alias_vllm_distribution()
    wrapt.register_post_import_hook(keep_weights, GEMM_MODULE)
