"""Small charts as inline SVG: a line chart over steps and a dot plot with intervals. Colours come from the page's CSS.

Every text is escaped; every chart has a title and a description for readers that do not see it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

_MAX_POINTS = 240
"""More points than pixels help nobody and make the page heavy."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line: `points` are (x, y); `css` names its colour class."""

    name: str
    points: list[tuple[float, float]]
    css: str = "s0"


@dataclass(frozen=True, slots=True)
class Dot:
    """A mean with its interval."""

    mean: float | None
    low: float | None
    high: float | None
    css: str
    text: str


@dataclass(frozen=True, slots=True)
class DotRow:
    """One row of a dot plot: a label and one dot per model."""

    label: str
    dots: list[Dot] = field(default_factory=list)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten) that cover the range.

    Example: ticks(0, 0.93) -> [0.0, 0.25, 0.5, 0.75, 1.0].
    """
    size = max(abs(low), abs(high))
    if high - low <= max(1e-9 * size, 1e-200):  # one value: an axis around it
        half = size / 2 if size > 1e-200 else 0.5
        low, high = low - half, high + half
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = 2 - math.floor(math.log10(step))
    return [round(step * i, digits) for i in range(first, last + 1)]


def number(value: float) -> str:
    """Short form for axes and labels: 0.25, 12, 3.2k, −1, 2e−4."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10_000:
        text = f"{value / 1000:.0f}k"
    elif size >= 1000:
        text = f"{value / 1000:.1f}k".replace(".0k", "k")
    elif size >= 100:
        text = f"{value:.0f}"
    elif size >= 0.001:
        text = f"{value:.3g}"
    else:
        text = f"{value:.1e}".replace("e-0", "e-").replace(".0e", "e")
    return text.replace("-", "−")


def smooth(values: Sequence[float], weight: float) -> list[float]:
    """Exponential moving average, corrected for its start; `weight` 0 leaves the values as they are."""
    result, average, total = [], 0.0, 0.0
    for value in values:
        average, total = weight * average + (1 - weight) * value, weight * total + (1 - weight)
        result.append(average / total)
    return result


def line_chart(title: str, series: Sequence[Series], *, zero: bool = False, smoothing: float = 0.0) -> Markup:
    """A line chart, 400 x 190; with `smoothing` the raw values are drawn faintly behind the smoothed line."""
    drawn = [s for s in series if s.points]
    if not drawn:
        return Markup("")
    width, height, left, right, top, bottom = 400, 190, 44, 14, 12, 26
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in drawn for _, y in s.points]
    y_ticks = ticks(min([*ys, 0.0]) if zero else min(ys), max(ys))
    x_low, x_high = min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1

    def at(x: float, y: float) -> tuple[float, float]:
        px = left + (x - x_low) / (x_high - x_low) * (width - left - right)
        py = height - bottom - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (height - top - bottom)
        return round(px, 1), round(py, 1)

    parts = [_y_axis(y_ticks, lambda y: at(x_low, y)[1], left, width - right)]
    x_ticks = [x for x in ticks(x_low, x_high) if x_low <= x <= x_high and x == int(x)]  # steps are whole
    parts += [_text(at(x, y_ticks[0])[0], height - 8, number(x), "tick", "middle") for x in x_ticks]
    for s in drawn:
        parts += _line(s, at, smoothing)
    last = ", ".join(f"{s.name or title}: {number(s.points[0][1])} to {number(s.points[-1][1])}" for s in drawn)
    return _svg(width, height, title, f"{title} over steps. {last}", parts)


def _line(series: Series, at: Callable[[float, float], tuple[float, float]], smoothing: float) -> list[str]:
    points = _thin(series.points)
    ys = [y for _, y in points]
    shown = smooth(ys, smoothing) if len(points) > 5 else ys
    line = [at(x, y) for (x, _), y in zip(points, shown, strict=True)]
    raw = [at(x, y) for x, y in points]
    parts = [_path(raw, f"raw {series.css}")] if shown != ys else []
    parts.append(_path(line, f"line {series.css}") if len(line) > 1 else "")
    end_x, end_y = line[-1]
    parts.append(f'<circle class="end {escape(series.css)}" cx="{end_x}" cy="{end_y}" r="3.2"/>')
    data = json.dumps([[px, py, number(x), number(y)] for (px, py), (x, y) in zip(line, points, strict=True)])
    parts.append(f'<g class="hover" data-name="{escape(series.name)}" data-points="{escape(data)}"></g>')
    return parts


def dot_plot(title: str, rows: Sequence[DotRow], low: float = 0.0, high: float = 1.0, percent: bool = True) -> Markup:
    """Rows of means with intervals, one dot per model, one under the other; 1040 wide."""
    if not rows:
        return Markup("")
    per_row = max(len(row.dots) for row in rows)
    width, left, right, gap = 1040, 170, 30, 14
    row_height = per_row * gap + 14
    height = len(rows) * row_height + 30
    low, high = (ticks(low, high)[0], ticks(low, high)[-1])

    def at(value: float) -> float:
        return round(left + (min(max(value, low), high) - low) / (high - low) * (width - left - right), 1)

    parts = []
    for tick in ticks(low, high):
        parts.append(f'<line class="grid" x1="{at(tick)}" x2="{at(tick)}" y1="6" y2="{height - 24}"/>')
        parts.append(_text(at(tick), height - 8, f"{100 * tick:.0f} %" if percent else number(tick), "tick", "middle"))
    for index, row in enumerate(rows):
        y = 6 + index * row_height
        if index:
            parts.append(f'<line class="rule" x1="0" x2="{width - right}" y1="{y}" y2="{y}"/>')
        parts.append(_text(left - 14, y + row_height / 2 + 4, row.label, "label", "end"))
        for place, dot in enumerate(row.dots):
            parts.append(_dot(dot, at, y + 7 + gap * place + gap / 2))
    return _svg(width, height, title, title, parts)


def _dot(dot: Dot, at: Callable[[float], float], y: float) -> str:
    if dot.mean is None or not math.isfinite(dot.mean):
        return ""
    whisker = ""
    if dot.low is not None and dot.high is not None:
        whisker = f'<line class="whisker {dot.css}" x1="{at(dot.low)}" x2="{at(dot.high)}" y1="{y}" y2="{y}"/>'
    return (
        f"<g><title>{escape(dot.text)}</title>{whisker}"
        f'<circle class="dot {dot.css}" cx="{at(dot.mean)}" cy="{y}" r="4.6"/></g>'
    )


def _y_axis(values: Sequence[float], at: Callable[[float], float], left: float, right: float) -> str:
    lines = [f'<line class="grid" x1="{left}" x2="{right}" y1="{at(y)}" y2="{at(y)}"/>' for y in values]
    return "".join([*lines, *(_text(left - 6, at(y) + 3.5, number(y), "tick", "end") for y in values)])


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = max(1, math.ceil(len(points) / _MAX_POINTS))
    kept = points[::step]
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _path(points: Sequence[tuple[float, float]], css: str) -> str:
    return f'<path class="{escape(css)}" d="M{" L".join(f"{x} {y}" for x, y in points)}"/>'


def _text(x: float, y: float, text: str, css: str, anchor: str) -> str:
    return f'<text class="{css}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: float, height: float, title: str, description: str, parts: Sequence[str]) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(description)}">'
        f"{''.join(parts)}</svg>"
    )
