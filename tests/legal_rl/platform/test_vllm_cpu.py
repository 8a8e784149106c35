"""vLLM's linear layers on the CPU keep a weight that can be updated."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from legal_rl.platform.vllm_cpu import GEMM_MODULE, keep_weight_gemm, keep_weights


def test_weight_survives_and_updates_show():
    layer = torch.nn.Linear(4, 3, bias=False)
    keep_weight_gemm(layer, remove_weight=True)
    x = torch.ones(2, 4)
    with torch.no_grad():
        layer.weight.fill_(2.0)
    assert torch.equal(layer.cpu_linear(x, layer.weight, None), torch.full((2, 3), 8.0))


def test_a_convolution_weight_is_left_alone():
    layer = torch.nn.Conv1d(2, 2, 3)
    keep_weight_gemm(layer)
    assert not hasattr(layer, "cpu_linear")


def test_a_vllm_without_the_function_is_a_clear_error():
    with pytest.raises(ImportError, match="adapt legal_rl"):
        keep_weights(SimpleNamespace())


@pytest.mark.slow
def test_vllm_still_needs_it():
    utils = pytest.importorskip(GEMM_MODULE)
    import inspect

    linear = inspect.getsource(pytest.importorskip("vllm.model_executor.layers.linear"))
    assert "dispatch_cpu_unquantized_gemm(layer, remove_weight=True)" in linear, (
        "vLLM no longer drops packed weights on the CPU: compare with legal_rl.platform.vllm_cpu"
    )
    assert hasattr(utils, "dispatch_cpu_unquantized_gemm")
