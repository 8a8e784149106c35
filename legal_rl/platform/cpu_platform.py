"""`PlatformCPU`: verl's platform interface on top of `torch.cpu`.

Adaptation 1: device `cpu`, collectives by gloo, no IPC (verl then moves weights through shared memory), and the Ray
resource `GPU` as a *logical* accelerator, so that the placement code of a GPU machine runs unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform import PlatformBase

from legal_rl.platform.activation import NOSET_VARIABLE


def _nothing(*_args: object, **_kwargs: object) -> None:
    """Stand-in for memory calls that a CPU does not have."""


def _zero(*_args: object, **_kwargs: object) -> int:
    return 0


def _memory_info(*_args: object, **_kwargs: object) -> tuple[int, int]:
    """(available, total) bytes of main memory, in place of a GPU's free and total memory."""
    import psutil

    memory = psutil.virtual_memory()
    return memory.available, memory.total


def cpu_device_module() -> ModuleType:
    """`torch.cpu` extended by the calls verl makes on `torch.cuda`; `torch.cpu` itself is left as it is."""
    module = ModuleType("legal_rl_torch_cpu", doc=torch.cpu.__doc__)
    module.__dict__.update({k: v for k, v in vars(torch.cpu).items() if not k.startswith("__")})
    for name in ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated"):
        setattr(module, name, _nothing)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        setattr(module, name, _zero)
    module.mem_get_info = _memory_info  # type: ignore[attr-defined]
    module.get_rng_state = lambda *_: torch.get_rng_state()  # type: ignore[attr-defined]
    module.set_rng_state = lambda state, *_: torch.set_rng_state(state)  # type: ignore[attr-defined]
    module.manual_seed = torch.manual_seed  # type: ignore[attr-defined]
    module.manual_seed_all = torch.manual_seed  # type: ignore[attr-defined]
    module.set_device = _nothing  # type: ignore[attr-defined]
    module.current_device = lambda: torch.device("cpu")  # type: ignore[attr-defined]
    module.get_device_name = lambda *_: "cpu"  # type: ignore[attr-defined]
    return module


class PlatformCPU(PlatformBase):
    """verl's view of a machine without accelerators."""

    def __init__(self) -> None:
        self._module = cpu_device_module()

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        return self._module

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        """A `torch.device`, not an index: torch reads the integer 0 as `cuda:0` (adaptation 2)."""
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return [NOSET_VARIABLE]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None
