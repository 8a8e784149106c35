"""The report's tables: the paper's with our rows under them, our runs, tasks, categories, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from legal_rl.evaluation.benchmarks.comparison import paired_difference_of
from legal_rl.evaluation.benchmarks.records import BenchmarkError
from legal_rl.evaluation.benchmarks.report_data import MISSING, Cell, ReportTable, Run, points, span
from legal_rl.evaluation.benchmarks.tasks import CATEGORIES

_ABLATION = ("plain", "judge_only", "hybrid", "rerank", "no_rerank", "full")
_PIPELINE = ("one_turn", "three_turn", "no_rerank", "no_summary", "full")


@cache
def published() -> dict[str, Any]:
    """The paper's numbers (`published.yaml`)."""
    return yaml.safe_load((Path(__file__).parent / "published.yaml").read_text(encoding="utf-8"))


def paper_tables(runs: Sequence[Run], retrieval: Mapping[str, Any] | None) -> list[ReportTable]:
    """Tables 1, 2, 4, 5, 6 and 7 of the paper, our rows below the published ones."""
    systems = _systems(runs)
    law = [pair["lawbench"] for pair in systems if "lawbench" in pair]
    ablated = [pair for mode in _ABLATION for pair in systems if _one(pair).mode == mode]
    tables = [
        _with_ours("main", [_benchmark_row(pair) for pair in systems]),
        _with_ours("ablation", [_benchmark_row(pair) for pair in ablated]),
        _with_ours("pipeline", [_pipeline_row(run) for mode in _PIPELINE for run in law if run.mode == mode]),
        _with_ours("statutes", [_retrieval_row(retrieval)] if retrieval else []),
        _with_ours("progression", []),
        _with_ours("cost", [_cost_row(pair) for pair in systems if "lawbench" in pair]),
    ]
    return tables


def runs_table(runs: Sequence[Run], out: Path) -> ReportTable:
    """One row per run: scores, failures, and what it cost."""
    header = [
        "run", "score", "fixed graders", "n", "failed", "not applicable", "cut", "degraded", "made up", "searches",
        "tokens", "p50 s", "tool s", "tokens/s",
    ]  # fmt: skip
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
                Cell(str(run.scores.get("not_applicable", 0))),
                _number(cost.get("cut"), 0),
                *(_number(run.scores.get(key), 0) for key in ("degraded", "made_up")),
                *(_number(cost.get(key), 2) for key in ("searches", "tokens", "seconds_p50", "tool_s")),
                _number(run.cost["output_tokens_per_s"], 1),
            ]
        )
    note = (
        "Score: mean of the tasks' scores in points, graded as upstream does; 95 % bootstrap interval over samples. "
        "Failed samples are left out of the score and counted. Cut: answers that the token limit ended; degraded: "
        "searches without the Assistant's LLM that should have helped; made up: with the question, for the Lawyer."
    )
    return ReportTable("runs", "Runs", header, rows, note, list(range(len(rows))))


def task_tables(runs: Sequence[Run], chosen: Run, out: Path) -> list[ReportTable]:
    """Per benchmark: every task's score in every run, and its difference from the baseline."""
    tables = []
    for benchmark, baseline in baselines(runs, chosen).items():
        group = [run for run in runs if run.benchmark == benchmark]
        tables.append(_task_table(benchmark, group, baseline, out))
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


def baselines(runs: Sequence[Run], chosen: Run) -> dict[str, Run]:
    """Benchmark -> the run to compare with: the chosen one, its system on another benchmark, else that one's first."""
    found = {chosen.benchmark: chosen}
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        group = [run for run in runs if run.benchmark == benchmark]
        same = next((run for run in group if _key(run) == _key(chosen)), group[0])
        found.setdefault(benchmark, same)
    return found


def difference_table(runs: Sequence[Run], chosen: Run) -> ReportTable:
    """Every run against its benchmark's baseline, paired over the samples that both answered."""
    rows = []
    base = baselines(runs, chosen)
    for run in runs:
        baseline = base[run.benchmark]
        if run is baseline:
            continue
        found = paired_difference_of(run.samples, baseline.samples)
        if found is None:
            rows.append([Cell(run.label), Cell(baseline.label, css="left"), *[Cell(MISSING)] * 3])
            continue
        css = "better" if found.low > 0 else "worse" if found.high < 0 else ""
        cell = Cell(f"{100 * found.mean:+.2f}", ci=span(found.low, found.high), css=css)
        rows.append(
            [Cell(run.label), Cell(baseline.label, css="left"), cell, Cell(f"{found.p:.3f}"), Cell(str(found.n))]
        )
    note = (
        "Mean over tasks of the mean difference per sample; sign-flip test, two-sided, 1,000 draws. LawBench 2-1: "
        "of the sentences' own F0.5, whose mean is not the F0.5 of the whole corpus in the score column."
    )
    header = ["run", "baseline", "difference", "p", "common samples"]
    return ReportTable("differences", "Paired differences", header, rows, note)


def _task_table(benchmark: str, runs: Sequence[Run], baseline: Run, out: Path) -> ReportTable:
    names = dict.fromkeys(name for run in runs for name in run.tasks)
    others = [run for run in runs if run is not baseline]
    header = [
        "task",
        "name",
        "metric",
        *(run.label for run in runs),
        *(f"{run.label} − {baseline.label}" for run in others),
    ]
    rows = []
    for name in names:
        task = next(run.tasks[name] for run in runs if name in run.tasks)
        row = [Cell(name), Cell(task.name, css="left"), Cell(task.metric, css="left")]
        row += [_task_cell(run, name, out) for run in runs]
        row += [_difference_cell(run, baseline, name) for run in others]
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


def _systems(runs: Sequence[Run]) -> list[dict[str, Run]]:
    """Runs of one system (mode and models) over both benchmarks share a row; every further run has a row of its own."""
    rows: list[dict[str, Run]] = []
    for run in runs:
        if run.benchmark not in ("lawbench", "lexeval"):
            continue
        fitting = (row for row in rows if run.benchmark not in row and _key(_one(row)) == _key(run))
        row = next(fitting, None)
        if row is None:
            rows.append({run.benchmark: run})
        else:
            row[run.benchmark] = run
    return rows


def _one(pair: Mapping[str, Run]) -> Run:
    return next(iter(pair.values()))


def _key(run: Run) -> tuple[str, str]:
    return run.mode, run.models


def _benchmark_row(pair: Mapping[str, Run]) -> list[Cell]:
    """A judge's column is filled only where every task was judged: rule and judge scores are never mixed."""
    cells = []
    for benchmark in ("lawbench", "lexeval"):
        run = pair.get(benchmark)
        cells += [_score_cell(run), Cell(points(run.judge_score))] if run else [Cell(MISSING), Cell(MISSING)]
    return [Cell(_name(pair)), Cell(_one(pair).retrieval), Cell(MISSING), *cells, Cell(_average(pair))]


def _average(pair: Mapping[str, Run]) -> str:
    """The paper's average: rule and judge score of both benchmarks; nothing less is called so."""
    values = [v for run in pair.values() for v in (run.interval.mean, run.judge_score)]
    whole = len(values) == 4 and all(v is not None and v == v for v in values)
    return points(sum(v for v in values if v is not None) / 4) if whole else MISSING


def _score_cell(run: Run) -> Cell:
    return Cell(points(run.interval.mean), ci=run.part)


def _pipeline_row(run: Run) -> list[Cell]:
    return [Cell(_name({run.benchmark: run})), Cell(points(run.judge_score)), _score_cell(run)]


def _cost_row(pair: Mapping[str, Run]) -> list[Cell]:
    cost = pair["lawbench"].cost["all"]
    name = Cell(_name(pair), ci=pair["lawbench"].part)
    return [name, Cell(_average(pair)), *(_number(cost.get(key), 2) for key in ("searches", "tokens"))]


def _retrieval_row(result: Mapping[str, Any]) -> list[Cell]:
    names = ("ndcg", "recall", "mrr", "hit")
    try:
        values = [float(result["overall"][name]) for name in names]
    except (KeyError, TypeError, ValueError):
        raise BenchmarkError(f"the retrieval result has no `overall` with {', '.join(names)}") from None
    return [Cell("this run"), *(Cell(f"{value:.4f}") for value in values)]


def _with_ours(key: str, ours: Sequence[Sequence[Cell]]) -> ReportTable:
    table = published()[key]
    theirs = [
        [
            Cell(value if isinstance(value, str) else f"{value:g}" if key == "statutes" else f"{value:.2f}")
            for value in row
        ]
        for row in table["rows"]
    ]
    rows = theirs + [list(row) for row in ours]
    note = "Published rows are the paper's; " + (
        "rows of this report are marked." if ours else "no run of this report belongs here."
    )
    return ReportTable(key, table["title"], table["header"], rows, note, list(range(len(theirs), len(rows))))


def _name(pair: Mapping[str, Run]) -> str:
    """Label and models; a row over both benchmarks goes by its mode, which they share."""
    run = _one(pair)
    label = run.label if len(pair) == 1 or "(" in run.label or "#" in run.label else run.mode
    return f"this run: {label}{f' [{run.models}]' if run.models else ''}"


def _number(value: float | None, digits: int) -> Cell:
    return Cell(MISSING if value is None else f"{value:.{digits}f}")
