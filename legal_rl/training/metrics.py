"""Per-step metrics: JSON Lines that a resumed run appends to, and the guard against NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retrieval_server.errors import LegalRLError


class TrainingError(LegalRLError):
    """A training stage stopped; the text says why and what was kept."""


# Losses and rewards must be finite; other statistics may be undefined for a batch (a ratio of nothing).
GUARDED = ("loss", "grad_norm", "pg_loss", "kl_loss", "critic/score/mean", "critic/rewards/mean", "log_prob")


def check_finite(metrics: Mapping[str, Any], step: int) -> None:
    """Raises when a loss, gradient norm or reward is NaN or infinite: the weights are no longer to be trusted."""
    for name, value in metrics.items():
        guarded = any(name.endswith(suffix) for suffix in GUARDED)
        if guarded and isinstance(value, int | float) and not math.isfinite(value):
            raise TrainingError(f"step {step}: {name} is {value}; lower the learning rate. The last checkpoint is kept")


def plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers among `metrics` as Python floats, numpy scalars included."""
    numbers: dict[str, float] = {}
    for name, value in metrics.items():
        item = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
        if isinstance(item, bool | int | float) and math.isfinite(item):
            numbers[name] = float(item)
    return numbers


class MetricsFile:
    """`metrics.jsonl`: one line `{"step": n, name: value, …}` per step, flushed as it is written.

    Lines of steps that a resumed run trains again (killed after its last checkpoint) are dropped, so each step
    appears once.
    """

    def __init__(self, path: Path, resume_step: int = 0) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [row for row in read_metrics(path) if row["step"] <= resume_step]
        temporary = path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        temporary.replace(path)

    def append(self, step: int, metrics: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **plain(metrics)}) + "\n")


def read_metrics(path: Path) -> list[dict[str, float]]:
    """All complete lines of a metrics file; empty when it does not exist yet."""
    return list(_complete_lines(path)) if path.exists() else []


def _complete_lines(path: Path) -> Iterator[dict[str, float]]:
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):  # a line without its end is still being written
            yield json.loads(line)


def latest_step(checkpoints: Path) -> int:
    """Step of the newest complete checkpoint by verl's tracker file; 0 when there is none."""
    tracker = checkpoints / "latest_checkpointed_iteration.txt"
    return int(tracker.read_text().strip()) if tracker.exists() else 0
