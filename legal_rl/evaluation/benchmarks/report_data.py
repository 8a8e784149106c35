"""Runs as read back from their folders, and tables that every output format is written from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from legal_rl.evaluation.benchmarks.comparison import average_interval
from legal_rl.evaluation.benchmarks.predictions import read_lines
from legal_rl.evaluation.benchmarks.records import BenchmarkError, Task
from legal_rl.evaluation.benchmarks.settings import WITHOUT_EVIDENCE, WITHOUT_LAWYER
from legal_rl.evaluation.benchmarks.tasks import load_tasks
from legal_rl.evaluation.statistics import Interval

MISSING = "–"
_FULL_SIZE = {"lawbench": 20 * 500}
"""Questions of a whole benchmark, where every task has the same number."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `href` leads to the samples behind a number, `ci` stands under it."""

    text: str
    href: str = ""
    ci: str = ""
    css: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table in every format; `ours` numbers the rows that are this project's runs."""

    key: str
    title: str
    header: list[str]
    rows: list[list[Cell]]
    note: str = ""
    ours: list[int] = field(default_factory=list)


class Run:
    """A finished run folder of `legal-rl eval lawbench|lexeval|mini`.

    Raises:
        BenchmarkError: the folder holds no finished run.
    """

    def __init__(self, folder: Path, label: str = "") -> None:
        self.folder = folder
        self.scores = read_json(folder / "scores.json")
        self.cost = read_json(folder / "efficiency.json")
        judged = folder / "judge.json"
        self.verdicts: dict[str, Any] = read_json(judged) if judged.is_file() else {}
        self.benchmark: str = self.scores["benchmark"]
        self.mode: str = self.scores["mode"]
        self.label = label or f"{self.benchmark} {self.mode}"
        self.slug = "".join(ch if ch.isalnum() else "-" for ch in self.label)
        record = folder / "run.json"
        self.settings: dict[str, Any] = read_json(record) if record.is_file() else {}

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """Rows of samples.jsonl."""
        return read_lines(self.folder / "samples.jsonl")

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """The journal, in the order of the questions."""
        return read_lines(self.folder / "trace.jsonl")

    @cached_property
    def interval(self) -> Interval:
        """Average over tasks with its interval."""
        return average_interval(self.samples)

    @property
    def judge_score(self) -> float | None:
        """The LLM judge's average, where every task of the run was judged; else None."""
        whole = set(self.verdicts.get("tasks", ())) == set(self.scores["tasks"])
        return self.verdicts["average"] if self.verdicts and whole else None

    @property
    def tasks(self) -> dict[str, Task]:
        """Tasks of the benchmark that this run has."""
        return {name: task for name, task in load_tasks(self.benchmark).items() if name in self.scores["tasks"]}

    @property
    def retrieval(self) -> str:
        """✓ or ✗; a dash for imported predictions, of which nothing is known."""
        if self.settings.get("imported"):
            return MISSING
        return "✗" if self.mode in WITHOUT_EVIDENCE else "✓"

    @property
    def models(self) -> str:
        """Who answered, such as `legal-r1 + Qwen/Qwen3-8B`: the Lawyer and the Judge, where the mode has them."""
        config = self.settings.get("config", {})
        judge, lawyer = ((config.get(name) or {}).get("model", "") for name in ("judge", "lawyer"))
        # Two folders of the name `model` are told apart by what lies above them.
        folder = "/".join(Path(config.get("lawyer_model") or "").parts[-3:])
        if judge and self.mode in WITHOUT_LAWYER:
            return judge
        return " + ".join(name for name in (lawyer or folder, judge) if name)

    @property
    def part(self) -> str:
        """`5 of 20 tasks, n = 50` for a run over a part of its benchmark, so that it is not taken for the whole."""
        there, whole = len(self.scores["tasks"]), len(load_tasks(self.benchmark))
        graded = self.scores["n"] - self.scores["failed"] - self.scores.get("not_applicable", 0)
        sizes = _FULL_SIZE.get(self.benchmark)
        if there == whole and (sizes is None or graded >= sizes):
            return ""
        return f"{there} of {whole} tasks, n = {graded}"

    def page(self, task: str, out: Path) -> str:
        """Address of a task's sample page, relative to the report."""
        return f"{out.stem}_samples/{self.slug}/{task}.html"


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Runs in the given order; those of the same benchmark and mode are told apart by their folder's name."""
    runs = [Run(folder) for folder in folders]
    labels = [run.label for run in runs]
    runs = [
        Run(run.folder, f"{run.label} ({run.folder.parent.name}/{run.folder.name})")
        if labels.count(run.label) > 1
        else run
        for run in runs
    ]
    _number_repeats(runs)
    return runs


def _number_repeats(runs: Sequence[Run]) -> None:
    """a/lawbench/full and b/lawbench/full end alike, and `x y` and `x-y` have one slug: pages must not overwrite."""
    labels, slugs = set(), set()
    for number, run in enumerate(runs, start=1):
        if run.label in labels:
            run.label = f"{run.label} #{number}"
        if run.slug in slugs or run.label.endswith(f" #{number}"):
            run.slug = f"{run.slug}-{number}"
        labels.add(run.label)
        slugs.add(run.slug)


def points(value: float | None, digits: int = 2) -> str:
    """A score of 0 to 1 in points of 100; None is a dash."""
    return MISSING if value is None or value != value else f"{100 * value:.{digits}f}"


def span(low: float | None, high: float | None) -> str:
    """An interval in points, such as `41.2 to 48.9`."""
    return "" if low is None or high is None or low != low else f"{points(low, 1)} to {points(high, 1)}"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; raises `BenchmarkError` naming the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BenchmarkError(f"{path}: missing; finish the run with the same `legal-rl eval` command") from None
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path}: cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise BenchmarkError(f"{path}: must be a JSON object")
    return value
