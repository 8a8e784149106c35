"""Resumable stages: a finished stage leaves a marker with the fingerprint of everything it depends on.

A fingerprint covers the package version, the stage's own settings and the fingerprints of the stages it builds on. Same
fingerprint and marker: skipped. Same fingerprint, no marker: the stage goes on from its own checkpoint in its folder.
Another fingerprint: the stage's folder is cleared first, so nothing stale is ever resumed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legal_rl import __version__
from legal_rl.errors import StageError


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a run. `run(folder)` does the work and returns a short summary for the console and the report."""

    name: str
    title: str
    settings: dict[str, Any]
    """What of the configuration the stage's result depends on (JSON values)."""
    run: Callable[[Path], dict[str, Any]]
    after: tuple[str, ...] = ()
    """Names of the stages whose results it reads."""
    intact: Callable[[], bool] = lambda: True
    """Asked of a finished stage: is its result still there and whole? If not, the stage runs again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one stage: seconds of the attempt that finished it, and its summary."""

    name: str
    title: str
    seconds: float
    skipped: bool
    summary: dict[str, Any]


def fingerprints(stages: Sequence[Stage]) -> dict[str, str]:
    """Fingerprint per stage name; stages must stand in the order of their dependencies."""
    known: dict[str, str] = {}
    for stage in stages:
        parts = [__version__, stage.name, stage.settings, *(known[name] for name in stage.after)]
        text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        known[stage.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return known


def run_stages(stages: Sequence[Stage], run_dir: Path, announce: Callable[[Stage, bool], None]) -> Iterator[Outcome]:
    """Run what is not finished, in order; yields each stage's outcome as soon as it is known.

    Args:
        announce: called before each stage with (stage, skipped).

    Raises:
        StageError: a stage failed; everything before it stays finished.
    """
    prints = fingerprints(stages)
    for stage in stages:
        marker = run_dir / "stages" / f"{stage.name}.json"
        done = read_json(marker)
        if done.get("fingerprint") == prints[stage.name] and stage.intact():
            announce(stage, True)
            yield Outcome(stage.name, stage.title, done["seconds"], True, done["summary"])
            continue
        announce(stage, False)
        folder = _prepare_folder(stage, run_dir, prints[stage.name])
        started = time.monotonic()
        summary = stage.run(folder)
        seconds = time.monotonic() - started
        write_json(marker, {"fingerprint": prints[stage.name], "seconds": seconds, "summary": summary})
        yield Outcome(stage.name, stage.title, seconds, False, summary)


def _prepare_folder(stage: Stage, run_dir: Path, fingerprint: str) -> Path:
    """The stage's folder: kept when an interrupted run with the same fingerprint left it, emptied otherwise."""
    folder = run_dir / stage.name
    begun = folder / ".begun.json"
    if read_json(begun).get("fingerprint") != fingerprint:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        write_json(begun, {"fingerprint": fingerprint, "at": time.time()})
    return folder


@contextmanager
def run_lock(run_dir: Path) -> Iterator[None]:
    """Only one process works in a run's folder; the lock goes with the process, however it ends.

    Raises:
        StageError: another process holds it.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:
        raise StageError(f"{run_dir}: no folder can be made here; choose another run_dir") from None
    with (run_dir / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StageError(
                f"{run_dir}: another process is working here; wait for it, or choose another run_dir"
            ) from None
        yield


def write_json(path: Path, value: Any) -> None:
    """Write JSON under a temporary name, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    os.replace(temporary, path)


def read_json(path: Path) -> dict[str, Any]:
    """A marker's content; a missing or damaged marker means "not done"."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
