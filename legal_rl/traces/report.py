"""The report of a run: one self-contained page with what was learned, how it was measured and how to make it again.

    write_report(Path("runs/quickstart"))   # -> runs/quickstart/report.html

The run's folder is described in `run_folder`; a part that is not there is said to be missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legal_rl.traces import charts
from legal_rl.traces.evaluation_tables import family_table, hero_cards, metric_table, seed_table
from legal_rl.traces.examples import EXAMPLES, Example, opened, pick_examples, read_examples
from legal_rl.traces.metrics import METRICS, difference_label, model_label
from legal_rl.traces.pages import render, write_page
from legal_rl.traces.provenance import made_with
from legal_rl.traces.run_folder import RunFolder, read_run_folder

PAGE = "report.html"


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into the run's folder and return its path.

    Raises:
        ReportError: the folder does not exist, or a file in it is damaged.
        RecordError: a rollout file is damaged.
    """
    folder = read_run_folder(Path(run_dir))
    return write_page(folder.path / PAGE, render("report.html.jinja", **report_values(folder)))


def report_values(folder: RunFolder) -> dict[str, Any]:
    """What the template shows, section by section; a section without data is None or empty."""
    evaluation = folder.evaluation
    name = (folder.run or {}).get("name") or folder.path.name
    examples = _examples(folder)
    return {
        "title": f"Legal-RL run: {name}",
        "name": name,
        "models": [(model, model_label(model)) for model in folder.models],
        "missing": folder.missing,
        "evaluation": evaluation,
        "hero": hero_cards(evaluation) if evaluation else [],
        "metric_table": metric_table(evaluation, METRICS) if evaluation else [],
        "differences": [difference_label(key) for key in (evaluation or {}).get("differences", {})],
        "family_table": family_table(evaluation) if evaluation else [],
        "family_chart": charts.families(evaluation) if evaluation else "",
        "curves": charts.curves(folder.curves),
        "examples": examples,
        "opened": opened(examples),
        "num_examples": EXAMPLES,
        "retrieval": folder.retrieval,
        "seeds": seed_table(folder.seeds) if folder.seeds else None,
        "made": made_with(folder),
    }


def _examples(folder: RunFolder) -> list[Example]:
    if not folder.rollout_files:
        return []
    return read_examples(folder, pick_examples(folder))
