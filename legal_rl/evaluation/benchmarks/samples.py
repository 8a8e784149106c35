"""Questions of the benchmarks in their published form, and the built-in mini benchmark.

read_samples("lawbench", Path("LawBench/data/zero_shot"), ["3-4"])[0]
-> Sample(task=…3-4, index=0, instruction="根据下列事实…", question="事实:…", reference="刑期:4个月")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from legal_rl.evaluation.benchmarks.predictions import read_records, task_of
from legal_rl.evaluation.benchmarks.records import BenchmarkError, Example, Task
from legal_rl.evaluation.benchmarks.tasks import load_tasks

MINI = Path(__file__).parent / "mini.yaml"


@dataclass(frozen=True, slots=True)
class Sample:
    """One question of a benchmark."""

    task: Task
    index: int
    """Position in the task's file."""
    instruction: str
    question: str
    reference: str
    gold: tuple[str, ...] = ()
    """Citations of the articles that decide the question, for the oracle control; empty where unknown."""

    @property
    def id(self) -> str:
        """Unique within a benchmark: `3-4/17`."""
        return f"{self.task.id}/{self.index}"

    @property
    def prompt(self) -> str:
        """What is asked: instruction and question."""
        return f"{self.instruction.rstrip()}\n{self.question}" if self.instruction.strip() else self.question

    def example(self, prediction: str) -> Example:
        """This sample with an answer, for the graders."""
        return Example(prediction, self.reference, self.question if self.task.grader == "correction" else "")


def read_samples(
    benchmark: str, data: Path | None, task_ids: Sequence[str] = (), limit: int | None = None
) -> list[Sample]:
    """Questions of a benchmark, in the order of its tasks.

    Args:
        benchmark: lawbench, lexeval, or mini (which needs no data).
        data: folder with one file per task, as the benchmark publishes them.
        task_ids: only these tasks; all that are there otherwise.
        limit: only the first so many questions of each task.

    Raises:
        BenchmarkError: nothing there, an unknown task, or a record without a field.
    """
    tasks = load_tasks(benchmark)
    for task_id in task_ids:
        if task_id not in tasks:
            raise BenchmarkError(f"unknown task {task_id!r} of {benchmark}; known: {', '.join(tasks)}")
    wanted = [task for name, task in tasks.items() if not task_ids or name in task_ids]
    if benchmark == "mini":
        return [sample for task in wanted for sample in _mini(task)[:limit]]
    if data is None or not data.is_dir():
        raise BenchmarkError(f"{data}: no folder of {benchmark} questions; give --data")
    files = {task_of(file): file for file in sorted(data.iterdir()) if file.is_file()}
    missing = [task_id for task_id in task_ids if task_id not in files]
    if missing:
        raise BenchmarkError(f"{data}: no file for task {missing[0]}")
    found = [sample for task in wanted if task.id in files for sample in _of_file(task, files[task.id], limit)]
    if not found:
        raise BenchmarkError(f"{data}: no file is named after a task of {benchmark}")
    return found


def _of_file(task: Task, path: Path, limit: int | None) -> list[Sample]:
    rows = read_records(path)[:limit]
    return [_sample(task, i, row, f"{path}: record {i + 1}") for i, row in enumerate(rows)]


def _sample(task: Task, index: int, row: dict[str, Any], where: str) -> Sample:
    question = row.get("question", row.get("input"))
    for name, value in (("question or input", question), ("answer", row.get("answer"))):
        if not isinstance(value, str):
            raise BenchmarkError(f"{where}: field {name}: must be text")
    gold = tuple(row.get("gold", ()))
    return Sample(task, index, str(row.get("instruction") or ""), str(question), row["answer"], gold)


def _mini(task: Task) -> list[Sample]:
    block = yaml.safe_load(MINI.read_text(encoding="utf-8"))[task.id]
    rows = [{"instruction": block["instruction"], **row} for row in block["questions"]]
    return [_sample(task, i, row, f"{MINI.name}: {task.id}: question {i + 1}") for i, row in enumerate(rows)]
