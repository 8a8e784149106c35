"""verl's platform interface on the CPU."""

from __future__ import annotations

import torch

from legal_rl.platform.cpu_platform import PlatformCPU, cpu_device_module


def test_every_abstract_method_is_there():
    assert not PlatformCPU.__abstractmethods__, "a newer verl asks its platforms for more"


def test_values_that_verl_reads():
    platform = PlatformCPU()
    assert platform.current_device() == torch.device("cpu")
    assert (platform.device_name, platform.communication_backend_name()) == ("cpu", "gloo")
    assert platform.ray_resource_options(1) == {"num_gpus": 1}
    assert platform.is_ipc_supported() is False
    assert platform.get_device_capability() == (None, None)
    with platform.nvtx_range("step"):
        platform.synchronize()


def test_device_module_extends_torch_cpu_without_changing_it():
    before = set(vars(torch.cpu))
    module = cpu_device_module()
    assert set(vars(torch.cpu)) == before
    assert module.memory_allocated() == 0
    available, total = module.mem_get_info()
    assert 0 < available <= total
    state = module.get_rng_state()
    first = torch.rand(3)
    module.set_rng_state(state)
    assert torch.equal(first, torch.rand(3))
