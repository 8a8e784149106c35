"""How the evaluation's metrics are named, formatted and explained, in one place for page and console."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MISSING = "–"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the tables. `better` is +1 when more is better, -1 when less is, 0 when neither."""

    key: str
    label: str
    better: int = 1
    digits: int = 3
    percent: bool = False
    unit: str = ""
    help: str = ""

    def text(self, value: float | None, signed: bool = False) -> str:
        """A value as it is printed; missing values are a dash, never a zero."""
        if value is None or not math.isfinite(value):
            return MISSING
        shown = 100 * value if self.percent else value
        digits = 1 if self.percent else self.digits
        sign = "+" if signed and shown >= 0 else ""
        unit = (" pt" if signed else " %") if self.percent else f" {self.unit}" if self.unit else ""
        return f"{sign}{shown:.{digits}f}{unit}".replace("-", "−")

    def bounds(self, interval: Mapping[str, Any] | None, signed: bool = False) -> str:
        """The interval as `low … high`, without units; empty when there is none."""
        if not interval or interval.get("low") is None or interval.get("high") is None:
            return ""
        scale, digits = (100, 1) if self.percent else (1, self.digits)
        sign = "+" if signed else ""
        low, high = (f"{scale * interval[side]:{sign}.{digits}f}".replace("-", "−") for side in ("low", "high"))
        return f"{low} … {high}"


METRICS: tuple[Metric, ...] = (
    Metric("correct", "Correct answers", percent=True, help="answers with full marks of the task's grader"),
    Metric("reward", "Reward", help="R = w1·acc + w2·align + w3·gain + w4·query + fmt + bonus − ρ"),
    Metric("acc", "R_acc: answer grade", help="mean grade of the answer, 0 to 1"),
    Metric("align", "R_align: follows the reference", help="action sequence and evidence of the reference"),
    Metric("gain", "R_gain: evidence supports answer", help="share of the needed evidence that was retrieved"),
    Metric("query", "R_query: quality of queries", help="readable, right source, no repeat, brings something new"),
    Metric("fmt", "R_fmt: well-formed", help="0.1 with only well-formed turns and one answer"),
    Metric("bonus", "Search-count bonus", help="0.05 within ±1 of the reference's number of searches"),
    Metric("rho", "ρ: penalty", better=-1, help="tokens and turns beyond budget, repeated queries"),
    Metric("searches", "Searches per question", better=0, digits=2),
    Metric("malformed_share", "Malformed turns", better=-1, percent=True),
    Metric("policy_tokens", "Policy tokens", better=0, digits=0, help="tokens the Lawyer wrote per question"),
    Metric("evidence_tokens", "Evidence tokens", better=0, digits=0, help="tokens the Assistant inserted per question"),
    Metric("seconds", "Seconds per question", better=0, digits=1, unit="s", help="all questions run at the same time"),
)

BY_KEY = {metric.key: metric for metric in METRICS}

REWARD_TERMS = ("acc", "align", "gain", "query", "fmt", "bonus", "rho")

_LABELS = {"untrained": "Untrained", "sft": "SFT", "grpo": "GRPO"}


def model_label(name: str) -> str:
    """`sft` -> `SFT`; other names as they are."""
    return _LABELS.get(name, name)


def difference_label(name: str) -> str:
    """`grpo - sft` -> `GRPO − SFT`."""
    after, _, before = name.partition(" - ")
    return f"{model_label(after)} − {model_label(before)}" if before else name


def direction(metric: Metric, difference: Mapping[str, Any] | None) -> str:
    """`better` or `worse` when the interval of a difference leaves out 0, else `unclear`."""
    if not difference or difference.get("low") is None or difference.get("high") is None or not metric.better:
        return "unclear"
    if difference["low"] <= 0 <= difference["high"]:
        return "unclear"
    return "better" if (difference["low"] > 0) == (metric.better > 0) else "worse"
