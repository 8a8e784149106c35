"""Child processes of a run: heavy stages and the retrieval server, which never outlive their parent.

Each heavy stage has a process of its own, so that its memory and its threads are gone when it is done. On Linux the
kernel is asked to end the children when the parent dies, however it dies (kill -9 included).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from legal_rl.training.interpreter import interpreter

PR_SET_PDEATHSIG = 1
GRACE_S = 20.0


def _die_with_parent() -> None:
    """Runs in the child before exec: SIGTERM when the parent goes. Linux only; elsewhere a no-op."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(
    arguments: Sequence[str], log: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `python -m <arguments>`; output goes to `log` (appended), or to this terminal."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
    command = [interpreter(), "-m", *arguments]
    if log is None:
        return subprocess.Popen(command, env=env, preexec_fn=_die_with_parent)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
        )


def wait(process: subprocess.Popen[bytes], tick: Callable[[], None] | None = None, interval_s: float = 0.5) -> int:
    """Wait for a child, calling `tick` now and then; a Ctrl-C here ends the child first."""
    try:
        while True:
            try:
                return process.wait(timeout=interval_s)
            except subprocess.TimeoutExpired:
                if tick is not None:
                    tick()
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a child: SIGTERM, then SIGKILL after a grace time. Nothing happens when it is gone already."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def how_it_ended(code: int) -> str:
    """2 -> "ended with exit code 2"; -9 -> "was killed by SIGKILL (…)"."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"was killed by {name}" + (" (out of memory, or by hand)" if name == "SIGKILL" else "")


def last_error(log: Path | None) -> str:
    """The last line of a log that looks like an error, for the one-line message; empty when there is none."""
    if log is None or not log.exists():
        return ""
    with log.open("rb") as handle:
        handle.seek(max(0, log.stat().st_size - 64_000))
        lines = handle.read().decode("utf-8", errors="replace").splitlines()
    telling = [line.strip() for line in lines if "error" in line.lower() and not line.startswith(" ")]
    return f": {telling[-1][:300]}" if telling else ""


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that was free a moment ago."""
    import socket

    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
