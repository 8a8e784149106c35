"""`legal-rl eval report`: the paper's tables with our rows, plots, and a page for the samples of every number.

write_report([Path("runs/eval/lawbench/full")], Path("report.html"))
-> report.html, report.csv, report.md, report.tex, report_samples/<run>/<task>.html
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from legal_rl.evaluation.benchmarks.records import BenchmarkError
from legal_rl.evaluation.benchmarks.report_data import ReportTable, Run, points, read_runs
from legal_rl.evaluation.benchmarks.report_plots import plots
from legal_rl.evaluation.benchmarks.report_tables import (
    category_table,
    complexity_table,
    difference_table,
    judge_table,
    paper_tables,
    published,
    runs_table,
    task_tables,
)
from legal_rl.traces.pages import render, write_page


def write_report(
    folders: Sequence[Path], out: Path, baseline: Path | None = None, retrieval: Mapping[str, Any] | None = None
) -> list[Path]:
    """Write the report of some runs in every format.

    Args:
        folders: finished run folders, in the order of the columns.
        out: the HTML file; the other files lie beside it.
        baseline: the run that the others are compared with; the first one otherwise.
        retrieval: output of `legal-rl eval retrieval --json`, for table 5.

    Returns:
        The files written, sample pages included.

    Raises:
        BenchmarkError: a folder holds no finished run, or the baseline is none of them.
    """
    runs = read_runs(folders)
    base = _baseline(runs, baseline)
    tables = [runs_table(runs, out), *task_tables(runs, base, out), category_table(runs), complexity_table(runs)]
    if len(runs) > len({run.benchmark for run in runs}):
        tables.insert(1, difference_table(runs, base))
    if any(run.verdicts for run in runs):
        tables.append(judge_table(runs))
    tables += paper_tables(runs, retrieval)
    page = render(
        "benchmarks.html.jinja", title="Legal-RL: benchmarks", tables=tables, plots=plots(runs), runs=runs,
        baseline=base.label, source=published()["source"],
    )  # fmt: skip
    written = [write_page(out, page)]
    for suffix, text in ((".csv", as_csv(tables)), (".md", as_markdown(tables)), (".tex", as_latex(tables))):
        written.append(write_page(out.with_suffix(suffix), text))
    return written + [path for run in runs for path in _sample_pages(run, out)]


def as_csv(tables: Sequence[ReportTable]) -> str:
    """All tables in long form: table, row, column, value, interval."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", "row", "column", "value", "interval", "ours"])
    for table in tables:
        for number, row in enumerate(table.rows):
            for column, cell in zip(table.header[1:], row[1:], strict=True):
                writer.writerow([table.key, row[0].text, column, cell.text, cell.ci, int(number in table.ours)])
    return text.getvalue()


def as_markdown(tables: Sequence[ReportTable]) -> str:
    """One Markdown table each."""
    parts = []
    for table in tables:
        lines = [f"## {table.title}", "", *([table.note, ""] if table.note else [])]
        lines += ["| " + " | ".join(table.header) + " |", "|" + " --- |" * len(table.header)]
        for row in table.rows:
            lines.append("| " + " | ".join(_pipe(_with_interval(cell.text, cell.ci)) for cell in row) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_latex(tables: Sequence[ReportTable]) -> str:
    """One `tabular` each, for booktabs; our rows are bold."""
    parts = ["% needs \\usepackage{booktabs} and a Chinese font (xeCJK)"]
    for table in tables:
        lines = [f"% {table.title}", "\\begin{tabular}{l" + "r" * (len(table.header) - 1) + "}", "\\toprule"]
        lines.append(" & ".join(map(_tex, table.header)) + " \\\\ \\midrule")
        for number, row in enumerate(table.rows):
            cells = [_tex(_with_interval(cell.text, cell.ci)) for cell in row]
            bold = number in table.ours and len(table.ours) < len(table.rows)
            lines.append(" & ".join(f"\\textbf{{{c}}}" if bold else c for c in cells) + " \\\\")
        parts.append("\n".join([*lines, "\\bottomrule", "\\end{tabular}"]))
    return "\n\n".join(parts) + "\n"


def _sample_pages(run: Run, out: Path) -> list[Path]:
    """One page per task: question, trajectory, evidence, answer, reference, grade and why."""
    grades = {row["id"]: row for row in run.samples}
    written = []
    for name, task in run.tasks.items():
        entries = [entry | {"grade": grades.get(entry["id"], {})} for entry in run.entries if entry["task"] == name]
        page = render(
            "benchmark_samples.html.jinja", title=f"{run.label}: {name} {task.name}", run=run, task=task,
            entries=entries, row=run.scores["tasks"][name], points=points, back="../../" + out.name,
        )  # fmt: skip
        written.append(write_page(out.parent / run.page(name, out), page))
    return written


def _baseline(runs: Sequence[Run], wanted: Path | None) -> Run:
    if not runs:
        raise BenchmarkError("name at least one run folder")
    if wanted is None:
        return runs[0]
    for run in runs:
        if run.folder.resolve() == wanted.resolve():
            return run
    raise BenchmarkError(f"{wanted}: the baseline is none of the runs of this report")


def _with_interval(text: str, interval: str) -> str:
    return f"{text} ({interval})" if interval else text


def _pipe(text: str) -> str:
    return text.replace("|", "\\|")


def _tex(text: str) -> str:
    plain = text.replace("\\", "/")
    for sign in "&%$#_{}":
        plain = plain.replace(sign, f"\\{sign}")
    return plain.replace("✓", "yes").replace("✗", "no").replace("−", "$-$")
