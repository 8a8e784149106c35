"""Each adaptation of verl to the CPU: still needed, still works. Run in a process of its own, as verl loads it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NEEDED = """
import json, importlib
report = {}
from verl.plugin.platform import get_platform
report["platform"] = type(get_platform()).__name__
from verl.utils.device import get_device_id, get_device_name
report["device"] = [str(get_device_id()), get_device_name()]
import verl.utils.distributed as distributed
report["process_group"] = distributed.initialize_global_process_group_ray.__module__
import importlib.metadata
report["vllm"] = importlib.metadata.version("vllm")
import torch
import verl.workers.engine.fsdp.transformer_impl as fsdp
from verl.workers.engine.base import EngineRegistry
report["engine"] = EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__
report["pinned"] = fsdp.CPUOffloadPolicy(pin_memory=True).pin_memory
import verl.utils.torch_functional as functional
torch.manual_seed(0)
logits = torch.randn(2, 5, 7, requires_grad=True)
labels = torch.randint(0, 7, (2, 5))
fused = functional.logprobs_from_logits(logits, labels)
fused.sum().backward()
gradient, logits.grad = logits.grad, None
plain = torch.log_softmax(logits, -1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
plain.sum().backward()
report["logprobs"] = [float((fused - plain).abs().max()), float((gradient - logits.grad).abs().max())]
report["logprobs_by"] = functional.logprobs_from_logits_v2.__module__
distributed.initialize_global_process_group_ray()
report["backend"] = torch.distributed.get_backend()
tensor = torch.ones(1)
torch.distributed.all_reduce(tensor)
report["sum"] = float(tensor)
torch.distributed.destroy_process_group()
print("REPORT", json.dumps(report))
"""

UNADAPTED = """
import json, torch
report = {}
from verl.plugin.platform import PlatformRegistry
report["platforms"] = list(PlatformRegistry.registered_names())
import verl.workers.engine.fsdp.transformer_impl as fsdp
from verl.workers.engine.base import EngineRegistry
report["engines"] = [str(key) for key in EngineRegistry._engines["language_model"]["fsdp2"]]
import inspect, verl.utils.distributed as distributed
source = inspect.getsource(distributed.initialize_global_process_group_ray)
report["backend_line"] = 'f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"' in source
try:
    torch.distributed.init_process_group(
        "cpu:gloo,cpu:gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1
    )
    report["double_backend"] = "accepted"
except Exception as error:
    report["double_backend"] = type(error).__name__
import verl.utils.torch_functional as functional
report["loops"] = "for logit in logits" in inspect.getsource(functional.logprobs_from_logits_v2)
report["pins"] = "CPUOffloadPolicy(pin_memory=True)" in inspect.getsource(fsdp)
print("REPORT", json.dumps(report))
"""


def run_python(code: str, **env: str) -> dict:
    """Runs `code` in a fresh interpreter and returns what it reports."""
    import json

    settings = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29871",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **settings, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[0].removeprefix("REPORT "))


@pytest.fixture(scope="module")
def adapted() -> dict:
    return run_python(NEEDED, VERL_PLATFORM="cpu")


@pytest.fixture(scope="module")
def unadapted() -> dict:
    """verl without our plugin: what makes each adaptation needed."""
    return run_python(UNADAPTED, VERL_USE_EXTERNAL_PLUGINS="none", VERL_PLATFORM="nvidia")


@pytest.mark.slow
def test_platform_is_cpu(adapted):
    assert adapted["platform"] == "PlatformCPU"


@pytest.mark.slow
def test_current_device_is_no_cuda_index(adapted):
    assert adapted["device"] == ["cpu", "cpu"]


@pytest.mark.slow
def test_fsdp_engine_is_registered_for_cpu(adapted, unadapted):
    assert adapted["engine"] == "FSDPEngineWithLMHead"
    assert "cpu" not in unadapted["engines"], "verl registers its FSDP engine for cpu: drop register_fsdp_engine"


@pytest.mark.slow
def test_process_group_uses_gloo_once(adapted, unadapted):
    assert adapted["process_group"] == "legal_rl.platform.verl_cpu"
    assert adapted["sum"] == 1.0
    assert unadapted["backend_line"], "verl builds its backend string differently: check use_gloo_groups"
    assert unadapted["double_backend"] != "accepted", "torch takes cpu:gloo twice: use_gloo_groups may go"


@pytest.mark.slow
def test_offload_policy_does_not_pin(adapted, unadapted):
    assert adapted["pinned"] is False
    assert unadapted["pins"], "verl no longer pins memory for offloading: drop unpin_offload_policy"


@pytest.mark.slow
def test_log_probabilities_are_fused_and_the_same(adapted, unadapted):
    assert adapted["logprobs_by"] == "legal_rl.platform.verl_cpu"
    assert max(adapted["logprobs"]) < 1e-5
    assert unadapted["loops"], "verl no longer loops over tokens: drop fuse_logprobs"


@pytest.mark.slow
def test_verl_brings_no_cpu_platform_of_its_own(unadapted):
    assert "cpu" not in unadapted["platforms"], "verl has a cpu platform now: compare it with PlatformCPU"


@pytest.mark.slow
def test_inactive_for_another_platform():
    code = (
        "import json, legal_rl.platform.verl_cpu as plugin, os\n"
        "from verl.plugin.platform import PlatformRegistry\n"
        "print('REPORT', json.dumps({'names': list(PlatformRegistry.registered_names()), 'on': plugin._installed}))"
    )
    report = run_python(code, VERL_PLATFORM="nvidia")
    assert report["on"] is False
    assert "cpu" not in report["names"]
