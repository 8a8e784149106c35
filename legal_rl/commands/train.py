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
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="GPUs of a node, instead of the layout's.")] = None,
    gpu_memory: Annotated[float | None, typer.Option("--gpu-memory", min=1, help="GiB of each of them.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print who gets which share of which GPU, and check that everything divides and fits.

    What does not is refused, with the nearest overrides that do.

    Examples:

      legal-rl plan h20_4gpu grpo.prompts_per_step=30

      legal-rl plan h20_4gpu --gpus 8 --gpu-memory 80
    """
    from dataclasses import asdict

    from legal_rl.cluster.plan import plan_run

    run = load(config, overrides)
    result = plan_run(run, gpus, gpu_memory)
    if as_json:
        shares = [asdict(share) | {"gib": share.gib} for share in result.shares]
        print_json({"ok": result.ok, **asdict(result), "shares": shares})
    else:
        _print_plan(run.name, result)
    if not result.ok:
        raise typer.Exit(1)


def _print_plan(name: str, result) -> None:
    table = Table(title=f"{name}: {result.parameters / 1e9:.2f} billion parameters, GiB per GPU", title_justify="left")
    columns = ("weights", "optimizer", "gradients", "activations", "kv_cache", "other", "gib")
    for heading in ("part", "GPU", *columns, "what"):
        shown = {"gib": "sum", "kv_cache": "KV cache", "optimizer": "Adam"}.get(heading, heading)
        table.add_column(shown, justify="right" if heading in columns else "left")
    for share in result.shares:
        cells = [f"{getattr(share, column):.1f}" if getattr(share, column) else "" for column in columns]
        table.add_row(share.part, share.gpus, *cells, share.note)
    console.print(table)
    budget = result.budget
    console.print(
        f"context: prompt {budget.prompt:,} + response {budget.allowed:,} = {budget.context:,} tokens; a turn with its "
        f"evidence up to {budget.per_turn:,}, {budget.full_searches} of {budget.turns - 1} such searches fit",
        highlight=False,
    )
    held = f", {result.concurrent_sequences} of them held by one engine" if result.concurrent_sequences else ""
    console.print(
        f"a step: {result.effective_batch} trajectories{held}; at most {result.tokens_per_step:,} tokens",
        highlight=False,
    )
    for note in result.notes:
        console.print(f"[yellow]note:[/] {note}", highlight=False)
    for problem in result.problems:
        console.print(f"[red]refused:[/] {problem}", highlight=False)
    if result.ok:
        console.print("[green]divides and fits[/]")
    elif result.nearest:
        console.print(f"[cyan]nearest plan that fits:[/] {' '.join(result.nearest)}", highlight=False)
    else:
        console.print("[cyan]no batch, rollout share or micro-batch makes it fit: more GPUs or a smaller model[/]")


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
