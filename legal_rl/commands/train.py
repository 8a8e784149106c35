"""`legal-rl plan|sft|grpo|export`: the training stages one by one, on any configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from legal_rl.commands.shared import ConfigArgument, JsonOption, OverridesArgument, console, load, print_json
from legal_rl.errors import ConfigError


def plan(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Print who gets which share of which GPU, and check that everything divides and fits.

    Example: legal-rl plan h20_4gpu grpo.prompts_per_step=30
    """
    from dataclasses import asdict

    from legal_rl.cluster.plan import plan as make_plan

    run = load(config, overrides)
    result = make_plan(run.layout, run.grpo.prompts_per_step, run.grpo.group_size, run.grpo.vllm_memory)
    if as_json:
        print_json({"ok": result.ok, **asdict(result)})
    else:
        _print_plan(run.name, result)
    if not result.ok:
        raise typer.Exit(1)


def _print_plan(name: str, result) -> None:
    table = Table(title=f"{name}: {result.effective_batch} trajectories a step", title_justify="left")
    for heading in ("part", "GPU", "GiB per GPU", "what"):
        table.add_column(heading, justify="right" if heading == "GiB per GPU" else "left")
    for share in result.shares:
        table.add_row(share.part, share.gpus, f"{share.gib:.1f}", share.note)
    console.print(table)
    for problem in result.problems:
        console.print(f"[red]refused:[/] {problem}", highlight=False)
    if result.ok:
        console.print("[green]divides and fits[/]")


def sft(config: ConfigArgument, overrides: OverridesArgument = None) -> None:
    """Evidence-masked supervised fine-tuning on a run's trajectories (verl's SFT trainer).

    Example: legal-rl sft quickstart sft.learning_rate=1e-3
    """
    from legal_rl.quickstart.story import run_story

    run_story(load(config, overrides), last="sft")


def grpo(config: ConfigArgument, overrides: OverridesArgument = None) -> None:
    """Trajectory-aware GRPO from the SFT model, with a retrieval server beside it (verl on Ray, FSDP2, vLLM).

    Example: legal-rl grpo quickstart grpo.max_steps=20
    """
    from legal_rl.quickstart.story import run_story

    run_story(load(config, overrides), last="grpo")


def export(
    checkpoint: Annotated[Path, typer.Argument(help="An FSDP checkpoint folder (global_step_N).")],
    out: Annotated[Path, typer.Argument(help="Hugging Face folder to write.")],
) -> None:
    """Turn an FSDP checkpoint into a Hugging Face folder, load it again and compare the logits.

    Example: legal-rl export runs/quickstart/grpo/checkpoints/global_step_30 exported/lawyer
    """
    from legal_rl.training.export import export_checkpoint

    if not checkpoint.is_dir():
        raise ConfigError(f"{checkpoint}: no such checkpoint folder")
    result = export_checkpoint(checkpoint, out)
    console.print(f"{out}: written and checked: {result}", highlight=False)
