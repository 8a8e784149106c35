"""From prediction files to scores: sum over samples divided by the number evaluated (paper, appendix B.1).

score_file(find_task("lexeval", "1_1"), Path("1_1.jsonl")).as_dict()
-> {"task": "1_1", "metric": "accuracy", "score": 0.34, "ci95": [0.3, 0.38], "abstention_rate": 0.0, "n": 500, …}
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from legal_rl.evaluation.benchmarks.corrections import f_half
from legal_rl.evaluation.benchmarks.graders import RECURSION_NOTE, grade_example
from legal_rl.evaluation.benchmarks.predictions import PredictionFile, read_examples
from legal_rl.evaluation.benchmarks.records import Example, Grade, Mode, ReferenceFormatError, Task
from legal_rl.evaluation.statistics import Interval, bootstrap_mean

RESAMPLES = 2_000
_PART = 64
"""Examples that one process grades at a time."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One task's result; `grades` are in the order of the examples."""

    task: Task
    mode: Mode
    interval: Interval
    grades: tuple[Grade, ...]

    @property
    def score(self) -> float:
        """The benchmark's main number; NaN when no example counts."""
        return self.interval.mean

    @property
    def n(self) -> int:
        """All examples of the file; the abstention rate is over these."""
        return len(self.grades)

    @property
    def evaluated(self) -> int:
        """Examples in the mean."""
        return sum(grade.counted for grade in self.grades)

    @property
    def abstention_rate(self) -> float:
        """Share of examples from which nothing could be read."""
        return sum(grade.abstained for grade in self.grades) / len(self.grades)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        row: dict[str, Any] = {
            "benchmark": self.task.benchmark,
            "task": self.task.id,
            "name": self.task.name,
            "domain": self.task.domain,
            "category": self.task.category,
            "metric": self.task.metric,
            "mode": self.mode,
            "score": plain(self.score),
            "ci95": [plain(self.interval.low), plain(self.interval.high)],
            "abstention_rate": self.abstention_rate,
            "n": self.n,
            "evaluated": self.evaluated,
        }
        second = [grade.f1 for grade in self.grades if grade.f1 is not None]
        if second:
            row["f1"] = sum(second) / len(second)
        deep = [grade.note for grade in self.grades if grade.note.startswith(RECURSION_NOTE)]
        if deep:
            row["zeroed_by_recursion"] = len(deep)
            row["score_without_recursion_limit"] = self.score + sum(map(_lost, deep)) / self.n
        return row


def score_examples(task: Task, examples: Sequence[Example], mode: Mode = "upstream") -> TaskScore:
    """Grade examples and put them together; raises `ReferenceFormatError` naming the record."""
    return collect(task, mode, _grade_part(_Part(task, list(examples), mode)))


def score_file(task: Task, path: Path, mode: Mode = "upstream") -> TaskScore:
    """Score one prediction file in this process."""
    return collect(task, mode, _grade_part(_Part(task, read_examples(path, task), mode, f"{path}: ")))


def score_files(
    files: Sequence[PredictionFile],
    mode: Mode = "upstream",
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[TaskScore]:
    """Score several files, their examples spread over processes.

    Args:
        workers: processes; None = all cores this process may use, 1 = none beside this one.
        progress: told (examples done, examples in all).
    """
    read = [(file, read_examples(file.path, file.task)) for file in files]
    parts = [
        _Part(file.task, rows[i : i + _PART], mode, f"{file.path}: ", i)
        for file, rows in read
        for i in range(0, len(rows), _PART)
    ]
    total, done = sum(len(rows) for _, rows in read), 0
    grades: list[Grade] = []
    for found in _mapped(parts, workers or len(os.sched_getaffinity(0))):
        grades.extend(found)
        done += len(found)
        progress(done, total)
    scores, start = [], 0
    for file, rows in read:
        scores.append(collect(file.task, mode, grades[start : start + len(rows)]))
        start += len(rows)
    return scores


def collect(task: Task, mode: Mode, grades: Sequence[Grade]) -> TaskScore:
    """A task's score from its grades; F0.5 is computed over the corpus, everything else is a mean."""
    if task.grader == "correction":
        interval = _corpus_interval([grade.edits for grade in grades if grade.edits is not None])
    else:
        interval = bootstrap_mean([grade.score for grade in grades if grade.counted], resamples=RESAMPLES)
    return TaskScore(task, mode, interval, tuple(grades))


def average(scores: Sequence[TaskScore]) -> float:
    """Mean of the task scores, as both benchmarks' tables give it; NaN without any.

    A task of which no sample counts has no score and is no part of the mean: `unscored` names it.
    """
    values = [score.score for score in scores if not math.isnan(score.score)]
    return sum(values) / len(values) if values else math.nan


def unscored(scores: Sequence[TaskScore]) -> list[str]:
    """Tasks of which no sample counts, such as 3-4 with nothing but death sentences as references."""
    return [score.task.id for score in scores if math.isnan(score.score)]


@dataclass(frozen=True, slots=True)
class _Part:
    """Examples that go to a process together; `start` is the place of the first one in its file."""

    task: Task
    examples: list[Example]
    mode: Mode
    where: str = ""
    start: int = 0


def _mapped(parts: Sequence[_Part], workers: int) -> Iterator[list[Grade]]:
    if workers <= 1 or len(parts) <= 1:
        yield from map(_grade_part, parts)
        return
    # Fork would copy the threads of libraries that this process has already started.
    with ProcessPoolExecutor(min(workers, len(parts)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_grade_part, parts)


def _grade_part(part: _Part) -> list[Grade]:
    grades = []
    for number, example in enumerate(part.examples, start=part.start + 1):
        try:
            grades.append(grade_example(part.task, example, part.mode))
        except ReferenceFormatError as error:
            hint = "the upstream scorer fails as well; --fixed reads more forms" if part.mode == "upstream" else ""
            text = f"{part.where}record {number}: {error}{f' ({hint})' if hint else ''}"
            raise ReferenceFormatError(text, error.upstream) from None
    return grades


def _corpus_interval(edits_N3: Sequence[tuple[int, int, int]]) -> Interval:
    """F0.5 of the summed edits, with a bootstrap over sentences."""
    if not edits_N3:
        return Interval(math.nan, math.nan, math.nan, 0)
    table = np.asarray(edits_N3, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(table), size=(RESAMPLES, len(table)))
    sums = np.stack([table[row].sum(axis=0) for row in draws])
    values = [f_half(*(int(v) for v in row)) for row in sums]
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(f_half(*(int(v) for v in table.sum(axis=0))), float(low), float(high), len(table))


def _lost(note: str) -> float:
    """The score that the recursion limit took."""
    with suppress(ValueError, IndexError):
        return float(note.split("; ")[1].split(" ")[0])
    return 0.0


def plain(value: float) -> float | None:
    """The value for JSON: null in place of NaN."""
    return None if math.isnan(value) else value
