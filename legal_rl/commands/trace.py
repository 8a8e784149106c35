"""`legal-rl trace view`: any rollout file as a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from legal_rl.commands.shared import console, require_file

app = typer.Typer(help="Read trajectories.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command("view")
def view(
    file: Annotated[Path, typer.Argument(help="Rollouts as JSON Lines: ours, or a file of verl's rollout_data_dir.")],
    out: Annotated[Path | None, typer.Option("--out", help="Page to write; default beside the file.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many trajectories on the page.")] = 5_000,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Model folder: show the gap between its log-probabilities and the sampler's."),
    ] = None,
) -> None:
    """Write a self-contained page with the trajectories of a rollout file.

    Examples:

      legal-rl trace view runs/quickstart/eval/grpo.rollouts.jsonl

      legal-rl trace view runs/quickstart/eval/grpo.rollouts.jsonl --model runs/quickstart/grpo/model
    """
    from legal_rl.traces.trace import write_trace_page

    page = write_trace_page(
        require_file(file, "rollouts as JSON Lines"), out or file.with_suffix(".html"), limit=limit, model=model
    )
    console.print(f"{page}", highlight=False)
