"""The report's tables: the paper's with our rows under them, our runs, tasks, categories, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from legal_rl.evaluation.benchmarks.comparison import paired_difference_of
from legal_rl.evaluation.benchmarks.report_data import MISSING, Cell, ReportTable, Run, points, span
from legal_rl.evaluation.benchmarks.settings import WITHOUT_EVIDENCE
from legal_rl.evaluation.benchmarks.tasks import CATEGORIES

_ABLATION = ("plain", "judge_only", "hybrid", "rerank", "no_rerank", "full")
_PIPELINE = ("one_turn", "three_turn", "no_rerank", "no_summary", "full")


@cache
def published() -> dict[str, Any]:
    """The paper's numbers (`published.yaml`)."""
    return yaml.safe_load((Path(__file__).parent / "published.yaml").read_text(encoding="utf-8"))


def paper_tables(runs: Sequence[Run], retrieval: Mapping[str, Any] | None) -> list[ReportTable]:
    """Tables 1, 2, 4, 5, 6 and 7 of the paper, our rows below the published ones."""
    both = _by_mode(runs)
    law = {mode: pair["lawbench"] for mode, pair in both.items() if "lawbench" in pair}
    tables = [
        _with_ours("main", [_benchmark_row(mode, both[mode]) for mode in both]),
        _with_ours("ablation", [_benchmark_row(mode, both[mode]) for mode in _ABLATION if mode in both]),
        _with_ours("pipeline", [_pipeline_row(m, law[m]) for m in _PIPELINE if m in law]),
        _with_ours("statutes", [_retrieval_row(retrieval)] if retrieval else []),
        _with_ours("progression", []),
        _with_ours("cost", [_cost_row(mode, run) for mode, run in law.items()]),
    ]
    return tables


def runs_table(runs: Sequence[Run], out: Path) -> ReportTable:
    """One row per run: scores, failures, and what it cost."""
    header = ["run", "score", "fixed graders", "n", "failed", "searches", "tokens", "p50 s", "tool s", "tokens/s"]
    rows = []
    for run in runs:
        cost, first = run.cost["all"], next(iter(run.tasks))
        interval = run.interval
        rows.append(
            [
                Cell(run.label),
                Cell(points(interval.mean), run.page(first, out), span(interval.low, interval.high)),
                Cell(points(run.scores["average_fixed"])),
                Cell(str(run.scores["n"])),
                Cell(str(run.scores["failed"]), css="worse" if run.scores["failed"] else ""),
                *(_number(cost.get(key), 2) for key in ("searches", "tokens", "seconds_p50", "tool_s")),
                _number(run.cost["output_tokens_per_s"], 1),
            ]
        )
    note = (
        "Score: mean of the tasks' scores in points, graded as upstream does; 95 % bootstrap interval over samples. "
        "Failed samples are left out of the score and counted."
    )
    return ReportTable("runs", "Runs", header, rows, note, list(range(len(rows))))


def task_tables(runs: Sequence[Run], baseline: Run | None, out: Path) -> list[ReportTable]:
    """Per benchmark: every task's score in every run, and its difference from the baseline."""
    tables = []
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        group = [run for run in runs if run.benchmark == benchmark]
        base = baseline if baseline is not None and baseline.benchmark == benchmark else None
        tables.append(_task_table(benchmark, group, base, out))
    return tables


def judge_table(runs: Sequence[Run]) -> ReportTable:
    """What the LLM judge said, on which tasks, and how far its two gradings agree."""
    rows = []
    for run in runs:
        if found := run.verdicts:
            agree, shift = found["consistency"]["within_one"], found["consistency"]["mean_difference"]
            rows.append(
                [
                    Cell(run.label), Cell(str(found["model"])), Cell(points(found["average"])),
                    Cell(", ".join(found["tasks"]), css="left"), Cell(str(found["n"])), Cell(str(found["failed"])),
                    Cell(points(agree, 1)), _number(shift, 2),
                ]
            )  # fmt: skip
    header = ["run", "judge", "score", "tasks", "n", "failed", "two gradings within 1 of 10, %", "mean shift"]
    note = (
        "Each answer is graded twice, with the reference first and with the answer first. Never part of a rule score."
    )
    return ReportTable("judge", "LLM judge", header, rows, note)


def category_table(runs: Sequence[Run]) -> ReportTable:
    """Means by the paper's categories."""
    rows = [
        [Cell(run.label), *(Cell(points(run.scores["by_category"].get(name))) for name in CATEGORIES)] for run in runs
    ]
    return ReportTable("categories", "Scores by category", ["run", *CATEGORIES], rows)


def complexity_table(runs: Sequence[Run]) -> ReportTable:
    """Searches per question by complexity group, the paper's ranges first."""
    ranges = published()["turns"]
    rows = [[Cell("Legal-R1 (paper, figure 5)"), *(Cell("{}–{}".format(*ranges[g])) for g in ("lower", "higher"))]]
    for run in runs:
        groups = run.cost["by_complexity"]
        rows.append([Cell(run.label), *(_number(groups.get(g, {}).get("searches"), 2) for g in ("lower", "higher"))])
    header = ["run", "Knowledge, Understanding", "Reasoning, Generation, Consultation"]
    return ReportTable("complexity", "Searches by complexity", header, rows)


def difference_table(runs: Sequence[Run], baseline: Run) -> ReportTable:
    """Every run of the baseline's benchmark against it, paired over the samples that both answered."""
    rows = []
    for run in runs:
        if run is baseline or run.benchmark != baseline.benchmark:
            continue
        found = paired_difference_of(run.samples, baseline.samples)
        if found is None:
            rows.append([Cell(run.label), *[Cell(MISSING)] * 3])
            continue
        css = "better" if found.low > 0 else "worse" if found.high < 0 else ""
        cell = Cell(f"{100 * found.mean:+.2f}", ci=span(found.low, found.high), css=css)
        rows.append([Cell(run.label), cell, Cell(f"{found.p:.3f}"), Cell(str(found.n))])
    note = "Mean over tasks of the mean difference per sample; sign-flip test, two-sided, 1,000 draws."
    header = ["run", f"difference from {baseline.label}", "p", "common samples"]
    return ReportTable("differences", "Paired differences", header, rows, note)


def _task_table(benchmark: str, runs: Sequence[Run], baseline: Run | None, out: Path) -> ReportTable:
    names = dict.fromkeys(name for run in runs for name in run.tasks)
    others = [run for run in runs if baseline is not None and run is not baseline]
    header = [
        "task",
        "name",
        "metric",
        *(run.mode for run in runs),
        *(f"{run.mode} − {baseline.mode}" for run in others if baseline),
    ]
    rows = []
    for name in names:
        task = next(run.tasks[name] for run in runs if name in run.tasks)
        row = [Cell(name), Cell(task.name, css="left"), Cell(task.metric, css="left")]
        row += [_task_cell(run, name, out) for run in runs]
        row += [_difference_cell(run, baseline, name) for run in others if baseline]
        rows.append(row)
    return ReportTable(f"tasks_{benchmark}", f"{benchmark}: every task", header, rows, "Numbers lead to their samples.")


def _task_cell(run: Run, name: str, out: Path) -> Cell:
    row = run.scores["tasks"].get(name, {})
    if "score" not in row:
        return Cell(MISSING, run.page(name, out) if row else "")
    return Cell(points(row["score"]), run.page(name, out), span(*row["ci95"]))


def _difference_cell(run: Run, baseline: Run, name: str) -> Cell:
    ours, theirs = ([row for row in r.samples if row["task"] == name] for r in (run, baseline))
    found = paired_difference_of(ours, theirs)
    if found is None:
        return Cell(MISSING)
    css = "better" if found.low > 0 else "worse" if found.high < 0 else ""
    return Cell(f"{100 * found.mean:+.2f}", ci=f"p {found.p:.3f}", css=css)


def _by_mode(runs: Sequence[Run]) -> dict[str, dict[str, Run]]:
    modes: dict[str, dict[str, Run]] = {}
    for run in runs:
        modes.setdefault(run.mode, {}).setdefault(run.benchmark, run)
    return {mode: pair for mode, pair in modes.items() if set(pair) & {"lawbench", "lexeval"}}


def _benchmark_row(mode: str, pair: Mapping[str, Run]) -> list[str]:
    """A judge's column is filled only where every task was judged: rule and judge scores are never mixed."""
    cells = []
    for benchmark in ("lawbench", "lexeval"):
        run = pair.get(benchmark)
        cells += [points(run.interval.mean), points(run.judge_score)] if run else [MISSING, MISSING]
    whole = MISSING not in cells
    average = f"{sum(map(float, cells)) / 4:.2f}" if whole else MISSING
    return [_name(mode), "✗" if mode in WITHOUT_EVIDENCE else "✓", MISSING, *cells, average]


def _pipeline_row(mode: str, run: Run) -> list[str]:
    return [_name(mode), points(run.judge_score), points(run.interval.mean)]


def _cost_row(mode: str, run: Run) -> list[str]:
    cost = run.cost["all"]
    return [_name(mode), points(run.interval.mean), *(_number(cost.get(key), 2).text for key in ("searches", "tokens"))]


def _retrieval_row(result: Mapping[str, Any]) -> list[str]:
    return ["this run", *(f"{result['overall'][name]:.4f}" for name in ("ndcg", "recall", "mrr", "hit"))]


def _with_ours(key: str, ours: Sequence[Sequence[str]]) -> ReportTable:
    table = published()[key]
    theirs = [
        [
            Cell(value if isinstance(value, str) else f"{value:g}" if key == "statutes" else f"{value:.2f}")
            for value in row
        ]
        for row in table["rows"]
    ]
    rows = theirs + [[Cell(text) for text in row] for row in ours]
    note = "Published rows are the paper's; " + (
        "rows of this report are marked." if ours else "no run of this report belongs here."
    )
    return ReportTable(key, table["title"], table["header"], rows, note, list(range(len(theirs), len(rows))))


def _name(mode: str) -> str:
    return f"this run: {mode}"


def _number(value: float | None, digits: int) -> Cell:
    return Cell(MISSING if value is None else f"{value:.{digits}f}")
