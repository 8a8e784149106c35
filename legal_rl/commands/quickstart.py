"""`legal-rl quickstart`: the whole story on this machine, with a report at the end."""

from __future__ import annotations

from typing import Annotated

import typer

from legal_rl.commands.shared import OverridesArgument, load


def quickstart(
    overrides: OverridesArgument = None,
    config: Annotated[str, typer.Option("--config", help="Configuration to run.")] = "quickstart",
    last: Annotated[str, typer.Option("--until", help="Stop after this stage.")] = "",
) -> None:
    """Index, trajectories, policy, SFT, GRPO, evaluation and report; goes on where it stopped.

    Examples:

      legal-rl quickstart

      legal-rl quickstart seed=1 run_dir=runs/seed1

      legal-rl quickstart --until sft
    """
    from legal_rl.quickstart.story import run_story

    run_story(load(config, overrides), last=last or None)
