"""Which curves and plots the report draws, from the metrics files and the evaluation's summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from legal_rl.traces.evaluation_tables import HEADLINE, family_names
from legal_rl.traces.metrics import BY_KEY, model_label
from legal_rl.traces.svg import Dot, DotRow, Series, dot_plot, line_chart, number


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve the report knows: the first of `keys` that a file has is drawn."""

    title: str
    keys: tuple[str, ...]
    zero: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn chart with its title and the value it ends at."""

    title: str
    ends: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Stage:
    """The curves of one stage."""

    key: str
    title: str
    css: str
    figures: list[Figure]


_STAGES: tuple[tuple[str, str, str, tuple[Curve, ...]], ...] = (
    (
        "policy",
        "Pretraining of the tiny policy",
        "m0",
        (Curve("Loss", ("loss",)), Curve("Copies evidence right", ("copy_accuracy",), zero=True)),
    ),
    (
        "sft",
        "Evidence-masked SFT",
        "m1",
        (Curve("Loss", ("train/loss",)), Curve("Gradient norm", ("train/grad_norm",), zero=True)),
    ),
    (
        "grpo",
        "GRPO",
        "m2",
        (
            Curve("Reward", ("reward/total", "critic/score/mean")),
            Curve("R_acc: answer grade", ("reward/acc", "acc"), zero=True),
            Curve("R_gain: evidence", ("reward/gain", "gain"), zero=True),
            Curve("Searches per rollout", ("num_searches",), zero=True),
            Curve("Malformed turns", ("malformed_share",), zero=True),
            Curve("KL to the SFT policy", ("actor/kl_loss",), zero=True),
            Curve("Policy tokens", ("policy_tokens",), zero=True),
            Curve("Entropy", ("actor/entropy",), zero=True),
            Curve("Seconds per step", ("timing_s/step",), zero=True),
        ),
    ),
)


_SMOOTHING = ((200, 0.85), (60, 0.7), (12, 0.5))
"""(points at least, weight of the moving average): short curves are smoothed little."""


def curves(files: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Stage]:
    """The learning curves of the stages that have a metrics file."""
    stages = []
    for key, title, css, known in _STAGES:
        rows = files.get(key) or []
        figures = [figure for curve in known if (figure := _figure(curve, rows, css))]
        if figures:
            stages.append(Stage(key, title, css, figures))
    return stages


def _figure(curve: Curve, rows: Sequence[Mapping[str, float]], css: str) -> Figure | None:
    key = next((k for k in curve.keys if any(k in row for row in rows)), None)
    if key is None:
        return None
    points = [(float(row["step"]), float(row[key])) for row in rows if row.get(key) is not None]
    smoothing = next((weight for size, weight in _SMOOTHING if len(points) >= size), 0.0)
    svg = line_chart(curve.title, [Series("", points, css)], zero=curve.zero, smoothing=smoothing)
    return Figure(curve.title, f"{number(points[0][1])} → {number(points[-1][1])}", svg)


def families(evaluation: Mapping[str, Any]) -> Markup:
    """Correct answers by family, with intervals."""
    rows = []
    for family in family_names(evaluation):
        dots = []
        for place, (name, model) in enumerate(evaluation["models"].items()):
            interval = model["by_family"].get(family, {}).get(HEADLINE) or {}
            mean, low, high = (interval.get(key) for key in ("mean", "low", "high"))
            metric = BY_KEY[HEADLINE]
            text = f"{model_label(name)}: {metric.text(mean)} ({metric.bounds(interval)})"
            dots.append(Dot(mean, low, high, f"m{place % 5}", text))
        rows.append(DotRow(family.replace("_", " "), dots))
    return dot_plot("Correct answers by family, with 95 % intervals", rows)
