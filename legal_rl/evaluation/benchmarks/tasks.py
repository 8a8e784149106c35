"""The table of tasks (`tasks.yaml`) and the label lists (`labels.yaml`) of both benchmarks.

find_task("lawbench", "3-4").grader == "term"      find_task("lexeval", "5_3").category == "Generation"
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from legal_rl.evaluation.benchmarks.records import BenchmarkError, Task

BENCHMARKS = ("lawbench", "lexeval")
CATEGORIES = ("Knowledge", "Understanding", "Reasoning", "Generation", "Consultation")
"""The five categories of the paper's figures 4 and 5."""
_HERE = Path(__file__).parent


@cache
def load_tasks(benchmark: str) -> dict[str, Task]:
    """All tasks of a benchmark, in the benchmark's order.

    Raises:
        BenchmarkError: no benchmark of this name.
    """
    table = _yaml("tasks.yaml")
    if benchmark not in table:
        raise BenchmarkError(f"unknown benchmark {benchmark!r}; known: {', '.join(BENCHMARKS)}")
    rows = table[benchmark]
    tasks = [_task(benchmark, rows["domain"], row) for row in rows["tasks"]]
    return {task.id: task for task in tasks}


def find_task(benchmark: str, task_id: str) -> Task:
    """One task; raises `BenchmarkError` naming the known ids."""
    tasks = load_tasks(benchmark)
    if task_id not in tasks:
        raise BenchmarkError(f"unknown task {task_id!r} of {benchmark}; known: {', '.join(tasks)}")
    return tasks[task_id]


@cache
def load_labels(name: str) -> tuple[str, ...]:
    """A label list by name."""
    return tuple(_yaml("labels.yaml")[name])


def _task(benchmark: str, domains: dict[str, str], row: Sequence[Any]) -> Task:
    task_id, name, category, metric, grader, max_tokens, *rest = row
    more: dict[str, Any] = dict(rest[0]) if rest else {}
    more.setdefault("judged", False)
    return Task(
        benchmark=benchmark,
        id=task_id,
        name=name,
        domain=domains[task_id[0]],
        category=category,
        metric=metric,
        grader=grader,
        max_tokens=max_tokens,
        **more,
    )


@cache
def _yaml(name: str) -> dict[str, Any]:
    return yaml.safe_load((_HERE / name).read_text(encoding="utf-8"))
