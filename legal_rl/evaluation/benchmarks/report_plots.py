"""The report's plots as inline SVG: categories (dots with intervals, radar), searches, score against tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from legal_rl.evaluation.benchmarks.comparison import average_interval
from legal_rl.evaluation.benchmarks.report_data import Run
from legal_rl.evaluation.benchmarks.tasks import CATEGORIES
from legal_rl.traces.svg import Dot, DotRow, dot_plot, number, ticks


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot with its title."""

    title: str
    svg: Markup


def plots(runs: Sequence[Run]) -> list[Plot]:
    """All plots that these runs have data for."""
    drawn = [
        Plot("Score by category", _categories(runs)),
        Plot("Profile over categories", _radar(runs)),
        Plot("Searches per question by complexity", _searches(runs)),
        Plot("Score against tokens per question", _scatter(runs)),
    ]
    return [plot for plot in drawn if plot.svg]


def _categories(runs: Sequence[Run]) -> Markup:
    rows = []
    for category in CATEGORIES:
        dots = []
        for place, run in enumerate(runs):
            names = {name for name, task in run.tasks.items() if task.category == category}
            found = average_interval([row for row in run.samples if row["task"] in names])
            if found.n:
                text = f"{run.label}, {category}: {100 * found.mean:.1f}"
                dots.append(Dot(found.mean, found.low, found.high, f"m{place % 5}", text))
        if dots:
            rows.append(DotRow(category, dots))
    return dot_plot("Score by category with 95 % intervals", rows, 0.0, 1.0)


def _searches(runs: Sequence[Run]) -> Markup:
    rows = []
    for group in ("lower", "higher"):
        values = [run.cost["by_complexity"].get(group, {}).get("searches") for run in runs]
        dots = [
            Dot(value, None, None, f"m{place % 5}", f"{runs[place].label}: {value:.2f}")
            for place, value in enumerate(values)
            if value is not None
        ]
        if dots:
            rows.append(DotRow(f"{group} complexity", dots))
    top = max((dot.mean or 0 for row in rows for dot in row.dots), default=0)
    return dot_plot("Searches per question", rows, 0.0, max(top, 1.0), percent=False)


def _radar(runs: Sequence[Run]) -> Markup:
    """Axes are categories, from 0 in the middle to 100 at the rim."""
    axes = [c for c in CATEGORIES if all(run.scores["by_category"].get(c) is not None for run in runs)]
    if len(axes) < 3:
        return Markup("")
    size, radius = 400, 135
    angles = [2 * math.pi * i / len(axes) - math.pi / 2 for i in range(len(axes))]

    def at(angle: float, share: float) -> tuple[float, float]:
        return round(size / 2 + radius * share * math.cos(angle), 1), round(170 + radius * share * math.sin(angle), 1)

    parts = []
    for ring in (0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path class="radar-grid" d="{_closed([at(a, ring) for a in angles])}"/>')
    for angle, axis in zip(angles, axes, strict=True):
        x, y = at(angle, 1.16)
        parts.append(f'<text x="{x}" y="{y}" text-anchor="middle">{escape(axis)}</text>')
    for place, run in enumerate(runs):
        shares = [min(max(run.scores["by_category"][axis], 0.0), 1.0) for axis in axes]
        line = _closed([at(a, share) for a, share in zip(angles, shares, strict=True)])
        parts.append(f'<path class="line m{place % 5}" d="{line}"><title>{escape(run.label)}</title></path>')
    return _svg(size, 340, "Radar of the categories", parts)


def _scatter(runs: Sequence[Run]) -> Markup:
    found = [(run.cost["all"].get("tokens"), run.interval, place, run.label) for place, run in enumerate(runs)]
    drawn = [(tokens, interval, place, label) for tokens, interval, place, label in found if tokens and interval.n]
    if not drawn:
        return Markup("")
    width, height, left, bottom = 640, 300, 48, 34
    x_ticks = ticks(0, max(tokens for tokens, *_ in drawn))
    y_ticks = ticks(0, max(max(interval.high for _, interval, *_ in drawn), 0.1))

    def at(x: float, y: float) -> tuple[float, float]:
        px = left + x / x_ticks[-1] * (width - left - 20)
        return round(px, 1), round(height - bottom - y / y_ticks[-1] * (height - bottom - 14), 1)

    parts = [
        f'<line class="grid" x1="{left}" x2="{width - 20}" y1="{at(0, y)[1]}" y2="{at(0, y)[1]}"/>'
        f'<text x="{left - 6}" y="{at(0, y)[1] + 4}" text-anchor="end">{100 * y:g}</text>'
        for y in y_ticks
    ]
    parts += [
        f'<text x="{at(x, 0)[0]}" y="{height - bottom + 18}" text-anchor="middle">{number(x)}</text>' for x in x_ticks
    ]
    for tokens, interval, place, label in drawn:
        (x, y), (_, low), (_, high) = at(tokens, interval.mean), at(tokens, interval.low), at(tokens, interval.high)
        text = f"{escape(label)}: {100 * interval.mean:.1f} points, {tokens:.0f} tokens"
        parts.append(
            f'<g class="m{place % 5}"><title>{text}</title>'
            f'<line class="whisker" x1="{x}" x2="{x}" y1="{low}" y2="{high}"/>'
            f'<circle class="dot" cx="{x}" cy="{y}" r="5"/></g>'
        )
    return _svg(width, height, "Score against tokens per question", parts)


def _closed(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x} {y}" for x, y in points) + " Z"


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> Markup:
    head = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    return Markup(f"{head}{''.join(parts)}</svg>")
