"""What a run's folder holds, read for the report; a part that is not there is None, and its name is in `missing`.

run_dir/run.json               versions, machine, seed, stages with their seconds, configuration
run_dir/policy|sft|grpo/metrics.jsonl   {"step": n, name: number, …} per line
run_dir/eval/summary.json      legal_rl.evaluation.lawyer
run_dir/eval/<model>.rollouts.jsonl
run_dir/retrieval.json         legal_rl.evaluation.reference_queries
run_dir/trajectories/manifest.json
run_dir/seeds.json             optional: what legal_rl.evaluation.seeds.compare_seeds returns, or only its list "seeds"
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legal_rl.errors import LegalRLError

CURVES = ("policy", "sft", "grpo")


class ReportError(LegalRLError):
    """A file of the run's folder cannot be read; the text names it."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The parts of a run's folder. Values are as they stand in the files."""

    path: Path
    run: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None
    curves: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    rollout_files: dict[str, Path] = field(default_factory=dict)
    retrieval: dict[str, Any] | None = None
    manifest: dict[str, Any] | None = None
    seeds: dict[str, Any] | None = None
    missing: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, Any]:
        """The run's resolved configuration, empty when it is not known."""
        return (self.run or {}).get("config") or {}

    @property
    def models(self) -> list[str]:
        """Names of the evaluated models, in the order in which they were trained."""
        return list((self.evaluation or {}).get("models", {}))


def read_run_folder(path: Path) -> RunFolder:
    """Read everything there is.

    Raises:
        ReportError: the folder does not exist, or a file in it is damaged.
    """
    if not path.is_dir():
        raise ReportError(f"{path}: no such run folder")
    missing: list[str] = []
    evaluation = _object(path / "eval" / "summary.json", path, missing)
    curves = {stage: _lines(path / stage / "metrics.jsonl", path, missing) for stage in CURVES}
    names = list((evaluation or {}).get("models", {}))
    rollouts = {name: path / "eval" / f"{name}.rollouts.jsonl" for name in names}
    missing += [str(file.relative_to(path)) for file in rollouts.values() if not file.exists()]
    return RunFolder(
        path=path,
        run=_object(path / "run.json", path, missing),
        evaluation=evaluation,
        curves={stage: rows for stage, rows in curves.items() if rows},
        rollout_files={name: file for name, file in rollouts.items() if file.exists()},
        retrieval=_object(path / "retrieval.json", path, missing),
        manifest=_object(path / "trajectories" / "manifest.json", path, missing),
        seeds=_seeds(path / "seeds.json"),
        missing=tuple(missing),
    )


def _object(file: Path, run_dir: Path, missing: list[str]) -> dict[str, Any] | None:
    if not file.exists():
        missing.append(str(file.relative_to(run_dir)))
        return None
    value = _json(file.read_text(encoding="utf-8"), file)
    if not isinstance(value, dict):
        raise ReportError(f"{file}: must hold a JSON object")
    return value


def _lines(file: Path, run_dir: Path, missing: list[str]) -> list[dict[str, float]]:
    """Complete lines only: the last one may still be in the writing."""
    if not file.exists():
        missing.append(str(file.relative_to(run_dir)))
        return []
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [_json(line, f"{file}: line {n}") for n, line in enumerate(lines, start=1) if line.endswith("\n")]
    for n, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not isinstance(row.get("step"), int | float):
            raise ReportError(f"{file}: line {n}: field 'step': must be a number")
    return rows


def _seeds(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    value = _json(file.read_text(encoding="utf-8"), file)
    whole = value if isinstance(value, dict) else {"seeds": value}
    rows = whole.get("seeds")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "seed" in row for row in rows):
        raise ReportError(f"{file}: field 'seeds': must be a list of objects with a field 'seed'")
    return {"before": "sft", "after": "grpo", "difference": {}, **whole}


def _json(text: str, where: Path | str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ReportError(f"{where}: not valid JSON ({error})") from None
