"""The evaluation's summary as rows and cells: headline cards, one row per metric, one per family, one per seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from legal_rl.traces.metrics import BY_KEY, MISSING, Metric, difference_label, direction, model_label

HEADLINE = "correct"
_CARD_FACTS = ("reward", "gain", "searches", "malformed_share")
_SEED_METRICS = ("correct", "reward")
_DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True)
class Cell:
    """One number with its interval; `trend` is better, worse or unclear for differences."""

    text: str
    bounds: str = ""
    trend: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    label: str
    cells: list[Cell]
    help: str = ""
    main: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """One model's headline: the share of correct answers in percent, and what changed since the model before."""

    name: str
    value: str
    bounds: str
    mean: float
    low: float
    high: float
    facts: list[tuple[str, str]]
    delta: Cell | None = None
    delta_label: str = ""
    dropped: int = 0
    n: int = 0


def hero_cards(evaluation: Mapping[str, Any]) -> list[Card]:
    """One card per model, in order; a model without a valid rollout has no card."""
    cards = []
    metric = BY_KEY[HEADLINE]
    for name, model in evaluation["models"].items():
        interval = (model.get("metrics") or {}).get(HEADLINE)
        if interval is None or interval.get("mean") is None:
            continue
        key = next((k for k in evaluation.get("differences", {}) if k.startswith(f"{name} - ")), None)
        cards.append(
            Card(
                name=name,
                value=metric.text(interval["mean"]).removesuffix(" %"),
                bounds=metric.bounds(interval),
                **{side: _percent(interval[side]) for side in ("mean", "low", "high")},
                facts=[(_short(k), BY_KEY[k].text(_mean(model["metrics"].get(k)))) for k in _CARD_FACTS],
                delta=_difference(metric, evaluation["differences"][key].get(HEADLINE)) if key else None,
                delta_label=difference_label(key) if key else "",
                dropped=model.get("dropped", 0),
                n=model.get("n", 0),
            )
        )
    return cards


def metric_table(evaluation: Mapping[str, Any], metrics: Sequence[Metric]) -> list[Row]:
    """Models, then paired differences, by metric; metrics that no model has are left out."""
    rows = []
    models = evaluation["models"].values()
    for metric in metrics:
        intervals = [(model.get("metrics") or {}).get(metric.key) for model in models]
        if not any(intervals):
            continue
        cells = [Cell(metric.text(_mean(i)), metric.bounds(i)) for i in intervals]
        cells += [_difference(metric, d.get(metric.key)) for d in evaluation.get("differences", {}).values()]
        rows.append(Row(metric.label, cells, metric.help, main=metric.key in ("correct", "reward")))
    return rows


def family_table(evaluation: Mapping[str, Any]) -> list[Row]:
    """Correct answers by family (rows) and model (columns); the family's size stands in its label."""
    metric = BY_KEY[HEADLINE]
    rows = []
    for family in family_names(evaluation):
        found = [model["by_family"].get(family, {}).get(HEADLINE) for model in evaluation["models"].values()]
        size = max((interval.get("n", 0) for interval in found if interval), default=0)
        rows.append(
            Row(
                family.replace("_", " "),
                [Cell(metric.text(_mean(i)), metric.bounds(i)) for i in found],
                help=f"{size} questions",
            )
        )
    return rows


def family_names(evaluation: Mapping[str, Any]) -> list[str]:
    """All families that any model has, in alphabetical order."""
    return sorted({family for model in evaluation["models"].values() for family in model.get("by_family", {})})


@dataclass(frozen=True, slots=True)
class SeedTable:
    """One row per seed and a last one over all of them."""

    columns: list[str]
    rows: list[Row] = field(default_factory=list)
    note: str = ""


def seed_table(seeds: Mapping[str, Any]) -> SeedTable:
    """Correct answers and reward by seed, as `compare_seeds` or a list of summaries gives them.

    Values may be numbers or intervals (objects with `mean`). The last row has the mean ± standard deviation, and for
    the difference the interval over seeds and questions when there is one.
    """
    rows, before, after = seeds["seeds"], seeds["before"], seeds["after"]
    names = [name for name in dict.fromkeys(("untrained", before, after)) if any(name in row for row in rows)]
    columns = [(name, BY_KEY[key]) for key in _SEED_METRICS for name in [*names, _DIFFERENCE]]
    found = [[_seed_value(row, name, metric, before, after) for name, metric in columns] for row in rows]
    table = [
        Row(f"seed {row['seed']}", [_seed_cell(v, *c) for v, c in zip(values, columns, strict=True)])
        for row, values in zip(rows, found, strict=True)
    ]
    if len(rows) > 1:
        pooled = seeds["difference"]
        last = [_pooled(list(v), *c, pooled) for v, c in zip(zip(*found, strict=True), columns, strict=True)]
        table.append(Row("all seeds", last, main=True))
    labels = {_DIFFERENCE: f"{model_label(after)} − {model_label(before)}"}
    titles = [f"{metric.label}: {labels.get(name, model_label(name))}" for name, metric in columns]
    note = "The last row: mean ± standard deviation over seeds"
    crossed = " and, for the difference, the interval that resamples both seeds and questions"
    return SeedTable(titles, table, f"{note}{crossed if seeds['difference'] else ''}.")


def _seed_value(row: Mapping[str, Any], name: str, metric: Metric, before: str, after: str) -> Any:
    """A model's value or interval; the difference of the means where the seed has no interval of its own."""
    if name == _DIFFERENCE and name not in row:
        first, second = (_mean(_inner(row, model).get(metric.key)) for model in (before, after))
        return None if first is None or second is None else second - first
    return _inner(row, name).get(metric.key)


def _seed_cell(value: Any, name: str, metric: Metric) -> Cell:
    interval = value if isinstance(value, Mapping) else None
    signed = name == _DIFFERENCE
    trend = direction(metric, interval) if signed else ""
    return Cell(metric.text(_mean(value), signed), metric.bounds(interval, signed), trend)


def _inner(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The metrics of one model of one seed; a summary of `evaluate_models` holds them under `metrics`."""
    value = row.get(name) or {}
    return value.get("metrics", value)


def _pooled(values: Sequence[Any], name: str, metric: Metric, difference: Mapping[str, Any]) -> Cell:
    interval = difference.get(metric.key) if name == _DIFFERENCE else None
    if interval:
        return _seed_cell(interval, name, metric)
    known = [mean for value in values if (mean := _mean(value)) is not None and math.isfinite(mean)]
    if len(known) < 2:
        return Cell(MISSING)
    spread = metric.text(statistics.stdev(known)).removesuffix(" %")
    return Cell(f"{metric.text(statistics.fmean(known), name == _DIFFERENCE)}", f"± {spread}")


def _difference(metric: Metric, interval: Mapping[str, Any] | None) -> Cell:
    mean = _mean(interval)
    return Cell(metric.text(mean, signed=True), metric.bounds(interval, signed=True), direction(metric, interval))


def _mean(value: Any) -> float | None:
    return value.get("mean") if isinstance(value, Mapping) else value


def _percent(value: float | None) -> float:
    return round(100 * (value or 0.0), 2)


def _short(key: str) -> str:
    names = {"reward": "Reward", "gain": "R_gain", "searches": "Searches", "malformed_share": "Malformed"}
    return names[key]
