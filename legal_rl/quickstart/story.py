"""The story as a list of stages; every one runs in a child process (`legal_rl.quickstart.work`) and can be resumed.

knowledge ── trajectories ── policy ── sft ── grpo ── eval ── report
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule

from legal_rl import __version__
from legal_rl.cluster.layout import Layout
from legal_rl.config import RunConfig, write_config
from legal_rl.errors import ConfigError, ModelError, StageError
from legal_rl.quickstart import children
from legal_rl.quickstart.inputs import fetch_model, index_is_whole, source_states
from legal_rl.quickstart.memory import MemoryWatch
from legal_rl.quickstart.stages import Outcome, Stage, read_json, run_lock, run_stages, write_json

STAGES = {
    "knowledge": "Index statutes and precedents",
    "trajectories": "Questions from the statutes, played by the scripted teacher",
    "policy": "Tokenizer and base policy",
    "sft": "Evidence-masked supervised fine-tuning",
    "grpo": "GRPO with retrieval in the loop",
    "eval": "Held-out evaluation: untrained, SFT, GRPO",
}
"""Name -> title, in order."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "knowledge": ("knowledge",),
    "trajectories": ("questions", "teacher", "environment", "assistant"),
    "policy": ("policy", "model", "seed"),
    "sft": ("sft", "seed"),
    "grpo": ("grpo", "rewards", "environment", "assistant", "seed", "layout"),
    "eval": ("evaluation", "rewards", "environment", "assistant", "seed"),
}
"""Configuration sections that each stage's result depends on, besides the stages before it."""


def run_story(config: RunConfig, last: str | None = None, console: Console | None = None) -> Path:
    """Run every stage up to `last` (default: all, and the report), skipping what is finished.

    Returns:
        The run's folder.

    Raises:
        LegalRLError: a stage failed, or another process works in the folder. The same command goes on from there.
    """
    console = console or Console()
    names = _names_until(last)
    run_dir = config.run_path
    _check_model(config)
    _check_device(config.layout)
    started = time.monotonic()
    with run_lock(run_dir):
        config_file = run_dir / "config.yaml"
        write_config(config, config_file)
        stages = [_stage(name, config, config_file) for name in names]
        outcomes = []
        for outcome in run_stages(stages, run_dir, lambda stage, skipped: _announce(console, stage, names, skipped)):
            _tell(console, outcome)
            outcomes.append(outcome)
        _write_run_facts(config, outcomes, time.monotonic() - started)
        if last is None:
            _report(run_dir, console)
    return run_dir


def _names_until(last: str | None) -> list[str]:
    names = list(STAGES)
    if last is None:
        return names
    if last not in STAGES:
        raise ConfigError(f"no stage {last!r}; stages are {', '.join(names)}")
    return names[: names.index(last) + 1]


def _check_model(config: RunConfig) -> None:
    """The model must be there before anything else is done: as a folder, or fetched by its hub name."""
    if not config.model:
        return
    looks_like_path = config.model.startswith((".", "/", "~")) or config.model.count("/") > 1
    folder = Path(config.model).expanduser()
    if (looks_like_path or folder.exists()) and not (folder / "config.json").is_file():
        raise ModelError(
            f"{config.model}: no Hugging Face model folder (config.json is missing); check the key `model`"
        )
    if not folder.exists():
        fetch_model(config.model)


def _check_device(layout: Layout) -> None:
    """A layout of GPUs must not quietly run on the CPU.

    Raises:
        ConfigError: no usable GPU.
    """
    if layout.device != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise ConfigError("layout.device is cuda, but no GPU is usable here; `legal-rl doctor` says what is missing")


def _stage(name: str, config: RunConfig, config_file: Path) -> Stage:
    values = config.model_dump(mode="json")
    settings = {section: values[section] for section in SECTIONS[name]}
    if name == "knowledge":
        settings["sources"] = source_states([*config.knowledge.articles, *config.knowledge.cases])
    if name == "policy" and config.model:
        settings["model_files"] = source_states([config.model])
    earlier = list(STAGES)[: list(STAGES).index(name)]
    intact = (lambda: index_is_whole(config.index_path)) if name == "knowledge" else (lambda: True)
    return Stage(
        name, STAGES[name], settings, lambda folder: _work(name, config, config_file, folder), tuple(earlier), intact
    )


def _work(name: str, config: RunConfig, config_file: Path, folder: Path) -> dict[str, Any]:
    environment = _quiet() | platform_choice(config.layout)
    environment |= trainer_devices(config.layout, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    process = children.start(["legal_rl.quickstart.work", name, str(config_file), str(folder)], environment=environment)
    watch = MemoryWatch(process.pid)
    code = children.wait(process, watch.sample)
    if code != 0:
        error = folder / "error.txt"
        if error.exists():
            raise StageError(f"stage {name}: {error.read_text(encoding='utf-8')}")
        raise StageError(f"stage {name} {children.how_it_ended(code)}; the same command goes on from there")
    return read_json(folder / "stage.json") | {"peak_memory_gib": watch.peak_gib}


def _quiet() -> dict[str, str]:
    """Offline, and passive waits: spinning OpenMP threads of several processes cost a factor of ten."""
    return {
        "OMP_WAIT_POLICY": "passive",
        "KMP_BLOCKTIME": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "0"),
    }


def platform_choice(layout: Layout) -> dict[str, str]:
    """A layout for the CPU runs on the CPU on a machine with GPUs too."""
    return {"VERL_PLATFORM": "cpu"} if layout.device == "cpu" else {}


def trainer_devices(layout: Layout, visible: str) -> dict[str, str]:
    """Shows a stage the trainers' GPUs only; the others belong to the model servers (paper, appendix B.2).

    Args:
        visible: what a scheduler such as Slurm left in CUDA_VISIBLE_DEVICES; empty = every GPU of the machine.

    Raises:
        ConfigError: the layout names a GPU that is not there.
    """
    if layout.device != "cuda":
        return {}
    names = [name.strip() for name in visible.split(",")] if visible else [str(n) for n in range(layout.gpus_per_node)]
    missing = [gpu for gpu in layout.trainer_gpus if gpu >= len(names)]
    if missing:
        raise ConfigError(f"layout.trainer_gpus names GPU {missing[0]}, but CUDA_VISIBLE_DEVICES={visible} shows fewer")
    return {"CUDA_VISIBLE_DEVICES": ",".join(names[gpu] for gpu in layout.trainer_gpus)}


def _announce(console: Console, stage: Stage, names: list[str], skipped: bool) -> None:
    number = f"{names.index(stage.name) + 1}/{len(names)}"
    if skipped:
        console.print(f"[dim]{number} {stage.title}: finished before[/]", highlight=False)
    else:
        console.print(Rule(f"{number} {stage.title}", align="left", style="cyan"))


def _tell(console: Console, outcome: Outcome) -> None:
    if outcome.skipped:
        return
    facts = ", ".join(f"{key} {_short(value)}" for key, value in outcome.summary.items() if not isinstance(value, dict))
    console.print(f"[green]done[/] in {outcome.seconds:.0f} s: {facts}", highlight=False)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _write_run_facts(config: RunConfig, outcomes: list[Outcome], seconds: float) -> None:
    """`run.json`: what the report says about how the run was made."""
    from legal_rl.quickstart.facts import machine, package_versions

    facts = {
        "name": config.name,
        "legal_rl": __version__,
        "command": " ".join(["legal-rl", *sys.argv[1:]]),
        "seed": config.seed,
        "seconds": seconds,
        "stages": [
            {"name": o.name, "title": o.title, "seconds": o.seconds, "skipped": o.skipped, "summary": o.summary}
            for o in outcomes
        ],
        "versions": package_versions(),
        "machine": machine(),
        "config": config.model_dump(mode="json"),
    }
    write_json(config.run_path / "run.json", facts)


def _report(run_dir: Path, console: Console) -> None:
    from legal_rl.traces.console import print_summary
    from legal_rl.traces.report import write_report

    page = write_report(run_dir)
    print_summary(run_dir, console)
    console.print(f"report: [bold]{page}[/]", highlight=False, soft_wrap=True)
