"""The report's main numbers as a table in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from legal_rl.traces.evaluation_tables import Cell, family_table, metric_table
from legal_rl.traces.metrics import BY_KEY, difference_label, model_label
from legal_rl.traces.run_folder import RunFolder, read_run_folder

SHOWN = (
    "correct", "reward", "acc", "align", "gain", "query", "fmt", "bonus", "rho",
    "searches", "malformed_share", "policy_tokens", "evidence_tokens", "seconds",
)  # fmt: skip
_STYLES = {"better": "green", "worse": "red"}

WIDE = 110
"""Columns of a console on which the differences have room."""


def print_summary(run_dir: Path, console: Console) -> None:
    """Print the evaluation of a run; says what is missing when there is none.

    Raises:
        ReportError: the folder does not exist, or a file in it is damaged.
    """
    folder = read_run_folder(Path(run_dir))
    if not folder.evaluation:
        console.print(f"[yellow]no evaluation in {folder.path}: eval/summary.json is missing[/]", highlight=False)
        return
    console.print(_metrics(folder, with_differences=console.width >= WIDE))
    console.print(_families(folder))
    if folder.retrieval and folder.retrieval.get("overall"):
        console.print(_retrieval(folder), highlight=False)
    for name in folder.missing:
        console.print(f"[yellow]missing: {name}[/]", highlight=False)


def _metrics(folder: RunFolder, with_differences: bool) -> Table:
    """Means with intervals; the differences only where the console has room for them beside the names of the rows."""
    evaluation = folder.evaluation or {}
    title = f"{evaluation['n']} held-out questions, 95 % bootstrap intervals"
    differences = map(difference_label, evaluation["differences"]) if with_differences else ()
    columns = [*map(model_label, folder.models), *differences]
    table = _table(title, columns)
    for row in metric_table(evaluation, [BY_KEY[key] for key in SHOWN]):
        table.add_row(Text(row.label, style="bold" if row.main else ""), *map(_cell, row.cells[: len(columns)]))
    return table


def _families(folder: RunFolder) -> Table:
    table = _table("Correct answers by family", [*map(model_label, folder.models)])
    for row in family_table(folder.evaluation or {}):
        table.add_row(Text(row.label), *map(_cell, row.cells))
    return table


def _retrieval(folder: RunFolder) -> str:
    retrieval = folder.retrieval or {}
    names = {"ndcg": "nDCG", "recall": "recall", "mrr": "MRR", "hit": "hit"}
    cut, overall = retrieval.get("k", ""), retrieval["overall"]
    shown = [f"{label}@{cut} {overall[key]:.3f}" for key, label in names.items() if overall.get(key) is not None]
    return f"Assistant on the reference queries: {', '.join(shown)} (n = {retrieval.get('n')})"


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cell(cell: Cell) -> Text:
    text = Text(cell.text, style=_STYLES.get(cell.trend, ""))
    return text.append(f"\n{cell.bounds}", style="dim") if cell.bounds else text
