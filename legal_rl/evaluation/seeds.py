"""Several seeds of one configuration, taken together: the same held-out questions, another policy per seed.

The interval of a difference is a crossed bootstrap: seeds and questions are both resampled, so that it covers the luck
of the training seed as well as that of the questions. The Student interval over the seeds' means stands beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from legal_rl.errors import ConfigError
from legal_rl.evaluation.lawyer import METRICS

T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""97.5 % points of Student's distribution by degrees of freedom."""

MIN_COMMON = 0.9
"""Least share of the questions that all models of all runs must have answered; outages may cost a few."""

Table = npt.NDArray[np.float64]


def compare_seeds(
    run_dirs: Sequence[Path],
    before: str = "sft",
    after: str = "grpo",
    resamples: int = 5000,
    seed: int = 0,
    part: str = "",
) -> dict[str, Any]:
    """Per-seed means of every model and the pooled difference `after - before`.

    Args:
        run_dirs: finished runs, one per seed, with the same held-out questions.
        part: folder below `eval` whose scores are compared: "" the headline, "greedy" the evaluation beside it.

    Returns:
        {"seeds": [{"seed", "run", model: means, …}],
         "difference": {metric: {"mean", "low", "high", "t_low", "t_high", "per_seed"}}}

    Raises:
        ConfigError: a run is not finished, or the runs asked different questions.

    Questions on which an outage or a failed judge left one model without a score are left out for all of them.
    """
    rows = {folder: {name: _scores(folder, name, part) for name in ("untrained", before, after)} for folder in run_dirs}
    asked = [set(model) for run in rows.values() for model in run.values()]
    questions, every = sorted(set.intersection(*asked)), set.union(*asked)
    if not questions or len(questions) < MIN_COMMON * len(every):
        raise ConfigError("the runs were evaluated on different questions; use the same question seed for all of them")
    difference = {}
    for metric in METRICS:
        table_SN = np.array(
            [[run[after][q][metric] - run[before][q][metric] for q in questions] for run in rows.values()]
        )
        difference[metric] = crossed_interval(table_SN, resamples, seed)
    seeds = [
        {
            "seed": _seed_of(folder),
            "run": folder.name,
            **{name: _means([model[q] for q in questions]) for name, model in run.items()},
        }
        for folder, run in rows.items()
    ]
    return {
        "n_questions": len(questions), "left_out": len(every) - len(questions),
        "before": before, "after": after, "seeds": seeds, "difference": difference,
    }  # fmt: skip


def crossed_interval(table_SN: Table, resamples: int, seed: int) -> dict[str, Any]:
    """Mean and 95 % intervals of a table of differences, S seeds by N questions."""
    num_seeds, num_questions = table_SN.shape
    rng = np.random.default_rng(seed)
    seeds_BS = rng.integers(0, num_seeds, (resamples, num_seeds))
    questions_BN = rng.integers(0, num_questions, (resamples, num_questions))
    means_B = np.array([table_SN[s][:, q].mean() for s, q in zip(seeds_BS, questions_BN, strict=True)])
    low, high = np.quantile(means_B, [0.025, 0.975])
    per_seed = table_SN.mean(axis=1)
    half = _student_half_width(per_seed)
    mean = float(per_seed.mean())
    return {
        "mean": mean, "low": float(low), "high": float(high),
        "t_low": mean - half, "t_high": mean + half, "per_seed": [float(value) for value in per_seed],
    }  # fmt: skip


def _student_half_width(values: Table) -> float:
    """Half the 95 % Student interval of a mean of few values; infinite for one value."""
    count = len(values)
    if count < 2:
        return math.inf
    quantile = T_975.get(count - 1, 1.96)
    return float(quantile * values.std(ddof=1) / math.sqrt(count))


def _scores(folder: Path, name: str, part: str) -> dict[str, dict[str, Any]]:
    path = folder / "eval" / part / f"{name}.scores.jsonl"
    if not path.exists():
        raise ConfigError(f"{path}: missing; finish that run first (legal-rl quickstart run_dir={folder})")
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["id"]: row for row in rows if row["reward"] is not None and row["reward"] == row["reward"]}  # no NaN


def _means(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {metric: float(np.mean([row[metric] for row in rows])) for metric in METRICS}


def _seed_of(folder: Path) -> int | None:
    path = folder / "run.json"
    return json.loads(path.read_text(encoding="utf-8")).get("seed") if path.exists() else None
