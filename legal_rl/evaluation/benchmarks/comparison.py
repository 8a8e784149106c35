"""Intervals of a run's average and paired tests between two runs, over their samples.

A run's average is the mean of its tasks' scores, so resampling happens inside every task: tasks are fixed, samples are
drawn. Two runs are compared on the samples that both answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legal_rl.evaluation.benchmarks.corrections import f_half
from legal_rl.evaluation.statistics import Interval

RESAMPLES = 1_000
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference over common samples, its interval, and the p-value of a sign-flip test (two-sided)."""

    mean: float
    low: float
    high: float
    p: float
    n: int


def average_interval(rows: Sequence[Row], key: str = "score", seed: int = 0) -> Interval:
    """The mean over tasks of the mean over samples, with a 95 % bootstrap interval.

    Args:
        rows: rows of samples.jsonl; those without a value (failed, or not counted) are left out.
    """
    tasks = _by_task(rows, key)
    if not tasks:
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    rng = np.random.default_rng(seed)
    draws_TB = np.stack([_resampled(task, rng) for task in tasks])
    low, high = np.quantile(draws_TB.mean(axis=0), [0.025, 0.975])
    mean = float(np.mean([_value(task) for task in tasks]))
    return Interval(mean, float(low), float(high), sum(len(task) for task in tasks))


def paired_difference_of(
    rows: Sequence[Row], baseline: Sequence[Row], key: str = "score", seed: int = 0
) -> Difference | None:
    """Average over tasks of the mean difference per sample; None without a common sample."""
    before = {row["id"]: row[key] for row in baseline if row.get(key) is not None}
    tasks: dict[str, list[float]] = {}
    for row in rows:
        if row.get(key) is not None and row["id"] in before:
            tasks.setdefault(row["task"], []).append(row[key] - before[row["id"]])
    if not tasks:
        return None
    rng = np.random.default_rng(seed)
    columns = [np.asarray(values, dtype=np.float64) for values in tasks.values()]
    mean = float(np.mean([column.mean() for column in columns]))
    boot, flipped = np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    for column in columns:
        draws = rng.integers(0, column.size, size=(RESAMPLES, column.size))
        boot += column[draws].mean(axis=1)
        flipped += (column * rng.choice((-1.0, 1.0), size=(RESAMPLES, column.size))).mean(axis=1)
    low, high = np.quantile(boot / len(columns), [0.025, 0.975])
    more = np.sum(np.abs(flipped / len(columns)) >= abs(mean) - 1e-12)
    p = float((1 + more) / (1 + RESAMPLES))
    return Difference(mean, float(low), float(high), p, sum(column.size for column in columns))


def _by_task(rows: Sequence[Row], key: str) -> list[np.ndarray]:
    """One array per task: scores (N,), or edit counts (N, 3) where the score is of the corpus."""
    tasks: dict[str, list[Any]] = {}
    for row in rows:
        if row.get(key) is not None:
            edits = row.get("edits") if key == "score" else None
            tasks.setdefault(row["task"], []).append(edits if edits is not None else row[key])
    return [np.asarray(values, dtype=np.float64) for values in tasks.values()]


def _value(task: np.ndarray) -> float:
    return _corpus(task.sum(axis=0)) if task.ndim == 2 else float(task.mean())


def _resampled(task: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    draws = rng.integers(0, len(task), size=(RESAMPLES, len(task)))
    if task.ndim == 1:
        return task[draws].mean(axis=1)
    return np.asarray([_corpus(task[row].sum(axis=0)) for row in draws])


def _corpus(edits: np.ndarray) -> float:
    return f_half(int(edits[0]), int(edits[1]), int(edits[2]))
