"""How a run was made: stages with their time, versions, machine, seeds, and the health of its rollouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from legal_rl.traces.metrics import model_label
from legal_rl.traces.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class StageTime:
    """One stage: its share of the whole in percent, and what it says of itself."""

    title: str
    seconds: float
    share: float
    facts: str


@dataclass(frozen=True, slots=True)
class Made:
    """The last section of the report."""

    facts: list[tuple[str, str]]
    stages: list[StageTime] = field(default_factory=list)
    seconds: float | None = None
    config: str = ""


def made_with(folder: RunFolder) -> Made:
    """Everything known about how the run was made."""
    run = folder.run or {}
    facts = [
        ("Command", run.get("command", "")),
        ("Seed", str(run["seed"]) if "seed" in run else ""),
        ("Machine", _machine(run.get("machine") or {})),
        ("Versions", ", ".join(f"{name} {version}" for name, version in _versions(run).items())),
        ("Trajectories", _trajectories(folder.manifest)),
        ("Token mismatches in GRPO", token_mismatches(folder)),
        ("Invalid rollouts in GRPO", invalid_rollouts(folder)),
        ("Rollouts ended by", _stop_reasons(folder)),
        ("Dropped in the evaluation", _dropped(folder)),
    ]
    stages = _stages(run.get("stages") or [])
    config = yaml.safe_dump(folder.config, allow_unicode=True, sort_keys=False) if folder.config else ""
    total = sum(stage.seconds for stage in stages) if stages else None
    return Made([(name, text) for name, text in facts if text], stages, total, config)


def token_mismatches(folder: RunFolder) -> str:
    """Rollouts whose trained tokens would not be the sampled ones, over all GRPO steps; they are never trained on."""
    rows = [row for row in folder.curves.get("grpo", []) if "token_mismatch" in row]
    if not rows:
        return ""
    played = sum(_rollouts(row, folder.config.get("grpo") or {}) for row in rows)
    share = sum(row["token_mismatch"] for row in rows) / len(rows)
    if not played:
        return f"{100 * share:.2f} % of the rollouts"
    exact = all("mismatched_rollouts" in row for row in rows)
    count = sum(row["mismatched_rollouts"] for row in rows) if exact else share * played
    return f"{count:.0f} of {played:,.0f} rollouts"


def invalid_rollouts(folder: RunFolder) -> str:
    """GRPO rollouts that an outage ended; they are dropped and counted."""
    rows = [row for row in folder.curves.get("grpo", []) if "invalid_rollouts" in row]
    return f"{sum(row['invalid_rollouts'] for row in rows):.0f}" if rows else ""


def _rollouts(row: dict[str, float], settings: dict[str, Any]) -> float:
    """Rollouts of one step, those of refilled groups included where the step tells; 0 when nothing is known."""
    groups = sum(row.get(f"groups/{kind}", 0.0) for kind in ("kept", "constant", "invalid"))
    return (groups or settings.get("prompts_per_step", 0)) * settings.get("group_size", 0)


def _versions(run: dict[str, Any]) -> dict[str, str]:
    own = {"legal-rl": run["legal_rl"]} if run.get("legal_rl") else {}
    return own | (run.get("versions") or {})


def _machine(machine: dict[str, Any]) -> str:
    names = {"cores": "{} cores", "memory_gib": "{} GiB memory"}
    return ", ".join(names.get(key, "{}").format(value) for key, value in machine.items())


def _trajectories(manifest: dict[str, Any] | None) -> str:
    sft = (manifest or {}).get("sft") or {}
    kept, dropped = sft.get("kept"), sft.get("dropped")
    if not isinstance(kept, dict):
        return ""
    text = f"{sum(kept.values()):,} kept for SFT in {len(kept)} families"
    return f"{text}, {sum(dropped.values()):,} dropped by the quality filters" if isinstance(dropped, dict) else text


def _stop_reasons(folder: RunFolder) -> str:
    models = (folder.evaluation or {}).get("models", {})
    texts = []
    for name, model in models.items():
        reasons = sorted((model.get("stop_reasons") or {}).items(), key=lambda item: -item[1])
        if reasons:
            inside = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in reasons)
            texts.append(f"{model_label(name)}: {inside}")
    return "; ".join(texts)


def _dropped(folder: RunFolder) -> str:
    models = (folder.evaluation or {}).get("models", {})
    return ", ".join(f"{model_label(name)} {model.get('dropped', 0)}" for name, model in models.items())


def _stages(stages: list[dict[str, Any]]) -> list[StageTime]:
    total = sum(stage.get("seconds", 0.0) for stage in stages) or 1.0
    return [
        StageTime(s["title"], s["seconds"], round(100 * s["seconds"] / total, 2), _facts(s.get("summary") or {}))
        for s in stages
    ]


def _facts(summary: dict[str, Any]) -> str:
    shown = {key: value for key, value in summary.items() if isinstance(value, int | float | str)}
    return ", ".join(f"{key.replace('_', ' ')} {_short(value)}" for key, value in shown.items())


def _short(value: float | str) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value
