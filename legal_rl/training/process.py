"""Runs a training stage as a subprocess: its environment is set before torch loads; killing it leaves no Ray behind.

The child reads a job file, writes `metrics.jsonl`, and on failure an error file with one line for the user.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legal_rl.training.export import ExportResult
from legal_rl.training.interpreter import interpreter
from legal_rl.training.metrics import TrainingError, read_metrics
from retrieval_server.errors import LegalRLError


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A finished stage: the Hugging Face folder, the number of steps, its metrics and how long this call took."""

    model_dir: Path
    steps: int
    metrics_file: Path
    seconds: float
    max_logit_difference: float = 0.0
    """Largest difference of the exported model's logits to the checkpoint's."""


OnStep = Callable[[dict[str, float]], None]
POLL_S = 0.2
STOP_GRACE_S = 15.0


def run_stage(
    module: str,
    job: Mapping[str, Any],
    out_dir: Path,
    env: Mapping[str, str],
    on_step: OnStep | None = None,
    launcher: Sequence[str] = (),
    on_notice: Callable[[str], None] | None = None,
) -> None:
    """Runs `python -m module job.json`; reports new metrics lines to `on_step`, lines of notices.txt to `on_notice`.

    Raises:
        TrainingError: the stage failed; the text is the child's own one-line reason, or points to its log.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    job_file, error_file, log_file = out_dir / "job.json", out_dir / "error.txt", out_dir / "log.txt"
    job_file.write_text(json.dumps(dict(job), ensure_ascii=False, indent=1), encoding="utf-8")
    error_file.unlink(missing_ok=True)
    seen = len(read_metrics(out_dir / "metrics.jsonl"))
    command = [*(launcher or [interpreter()]), "-m", module, str(job_file)]
    with log_file.open("ab") as log:
        child = subprocess.Popen(command, env=dict(env), stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _watch(child, out_dir, seen, on_step, on_notice)
        except BaseException:
            _stop(child)
            raise
    _stop(child)
    if child.returncode != 0:
        reason = error_file.read_text(encoding="utf-8").strip() if error_file.exists() else ""
        raise TrainingError(reason or f"the stage ended with exit code {child.returncode}; see {log_file}")


def _watch(
    child: subprocess.Popen[bytes],
    out_dir: Path,
    seen: int,
    on_step: OnStep | None,
    on_notice: Callable[[str], None] | None,
) -> None:
    """Follows metrics and notices until the child ends. A resumed run may first shorten the metrics."""
    notices_seen = 0
    while True:
        running = child.poll() is None
        rows = read_metrics(out_dir / "metrics.jsonl")
        seen = min(seen, len(rows))
        for row in rows[seen:]:
            if on_step:
                on_step(row)
        seen = len(rows)
        notices = _lines(out_dir / "notices.txt")
        for line in notices[notices_seen:]:
            if on_notice:
                on_notice(line)
        notices_seen = len(notices)
        if not running:
            return
        time.sleep(POLL_S)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ends the child's whole session, Ray's and vLLM's processes included."""
    for signum, patience in ((signal.SIGTERM, STOP_GRACE_S), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(child.pid, signum)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + (patience if child.poll() is None else 3.0)
        while time.monotonic() < deadline:
            child.poll()
            if not _group_alive(child.pid):
                return
            time.sleep(0.1)


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def write_error(job_file: Path, error: BaseException) -> None:
    """Leaves the one line that the parent shows to the user; the traceback goes to the log."""
    traceback.print_exception(error)
    text = str(error) if isinstance(error, LegalRLError) else f"{type(error).__name__}: {error}"
    (job_file.parent / "error.txt").write_text(" ".join(text.split())[:1000] + "\n", encoding="utf-8")


def write_result(out_dir: Path, exported: ExportResult, steps: int) -> None:
    """What the parent needs to know of a finished stage."""
    result = {"steps": steps, "max_logit_difference": exported.max_logit_difference}
    (out_dir / "result.json").write_text(json.dumps(result), encoding="utf-8")


def read_result(out_dir: Path, started: float) -> TrainingResult:
    """The finished stage in `out_dir`; `started` is the parent's `time.monotonic()` at its start."""
    result = json.loads((out_dir / "result.json").read_text(encoding="utf-8"))
    seconds = time.monotonic() - started
    return TrainingResult(out_dir / "model", metrics_file=out_dir / "metrics.jsonl", seconds=seconds, **result)


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
