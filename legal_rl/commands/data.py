"""`legal-rl data synthesize|inspect`: questions, trajectories and what is in a file of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from legal_rl.commands import data_stages
from legal_rl.commands.shared import (
    ConfigArgument,
    JsonOption,
    OverridesArgument,
    console,
    load,
    print_json,
    require_file,
)

app = typer.Typer(help="Build and inspect training data.", no_args_is_help=True)
data_stages.register(app)


@app.command("synthesize")
def synthesize(config: ConfigArgument, overrides: OverridesArgument = None) -> None:
    """Make questions from the statutes and let the scripted teacher play them through the real Assistant.

    Example: legal-rl data synthesize quickstart run_dir=runs/data questions.train_per_family=100
    """
    from legal_rl.quickstart.story import run_story

    run_story(load(config, overrides), last="trajectories")


@app.command("inspect")
def inspect(
    file: Annotated[Path, typer.Argument(help="Rollouts or questions as JSON Lines.")],
    as_json: JsonOption = False,
) -> None:
    """Count what a file of rollouts or questions holds, by family; broken lines are named.

    Example: legal-rl data inspect runs/quickstart/trajectories/sft.jsonl
    """
    kind, counts = _count(require_file(file, "rollouts or questions as JSON Lines"))
    total = sum(counts.values())
    if as_json:
        print_json({"kind": kind, "n": total, "families": counts})
        return
    table = Table("family", kind, title=str(file), title_justify="left")
    for family, count in counts.items():
        table.add_row(family, str(count))
    table.add_row("all", str(total))
    console.print(table)


def _count(file: Path) -> tuple[str, dict[str, int]]:
    from envs.records import read_questions, read_rollouts

    if _looks_like_rollouts(file):
        return "rollouts", dict(sorted(Counter(r.question.family for r in read_rollouts(file)).items()))
    return "questions", dict(sorted(Counter(q.family for q in read_questions(file)).items()))


def _looks_like_rollouts(file: Path) -> bool:
    """By the first line; a line that cannot be read is left to the reader, which names it."""
    import json

    with file.open("rb") as lines:
        try:
            first = json.loads(lines.readline() or b"{}")
        except ValueError:
            return False
    return isinstance(first, dict) and "turns" in first
