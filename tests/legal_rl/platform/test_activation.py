"""When the CPU platform is on."""

from __future__ import annotations

import pytest

from legal_rl.platform.activation import cpu_platform_active


@pytest.mark.parametrize(("value", "active"), [("cpu", True), (" CPU ", True), ("nvidia", False), ("huawei", False)])
def test_verls_switch_decides(monkeypatch, value, active):
    monkeypatch.setenv("VERL_PLATFORM", value)
    assert cpu_platform_active() is active


def test_without_the_switch_cuda_decides(monkeypatch):
    import torch

    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    assert cpu_platform_active() is not torch.cuda.is_available()
