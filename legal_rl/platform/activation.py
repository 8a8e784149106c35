"""Decides whether the CPU platform is on: never on a machine with a working CUDA, never against VERL_PLATFORM."""

from __future__ import annotations

import os

PLATFORM_NAME = "cpu"
NOSET_VARIABLE = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
"""Keeps Ray from hiding devices of an actor; verl sets it for its rollout servers."""


def cpu_platform_active() -> bool:
    """True when verl and vLLM run on the CPU here.

    `VERL_PLATFORM`, verl's own switch, decides when it is set; otherwise the absence of CUDA does.
    """
    chosen = os.environ.get("VERL_PLATFORM", "").strip().lower()
    if chosen:
        return chosen == PLATFORM_NAME
    import torch

    return not torch.cuda.is_available()
