"""Charts, ticks and number formats."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.traces.metrics import BY_KEY, difference_label, direction
from legal_rl.traces.pages import duration, subscript
from legal_rl.traces.svg import Dot, DotRow, Series, dot_plot, line_chart, number, smooth, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 0.93, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (1.0, 40.0, [0.0, 10.0, 20.0, 30.0, 40.0]),
        (-0.3, 0.2, [-0.4, -0.2, 0.0, 0.2]),
    ],
)
def test_ticks_by_hand(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected


@given(st.floats(-1e6, 1e6, allow_subnormal=False), st.floats(0, 1e6, allow_subnormal=False))
def test_ticks_cover_the_range_evenly(low: float, width: float) -> None:
    found = ticks(low, low + width)
    slack = 1e-6 * max(1.0, abs(low), abs(low + width), width)  # a step's billionth, and float addition
    assert found[0] <= low + slack and found[-1] >= low + width - slack
    assert 2 <= len(found) <= 7
    assert found == sorted(set(found))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (-1, "−1"), (1200, "1.2k"), (15000, "15k"), (0.0002, "2e−4"), (123.4, "123")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_smoothing_corrects_its_start() -> None:
    # by hand, weight 0.5: 4; (0.5·0.5·4 + 0.5·2) / 0.75 = 8/3
    assert smooth([4.0, 2.0], 0.5) == pytest.approx([4.0, 8 / 3])
    assert smooth([3.0] * 5, 0.9) == pytest.approx([3.0] * 5)
    assert smooth([1.0, 5.0, 2.0], 0.0) == [1.0, 5.0, 2.0]


def test_a_line_chart_is_xml_with_its_ends_in_the_right_place() -> None:
    root = ET.fromstring(line_chart("Loss", [Series("", [(0.0, 0.0), (10.0, 1.0)])]))
    path = next(element for element in root.iter("path"))
    # 400 x 190 with margins 44, 14, 12, 26: (44, 164) to (386, 12)
    assert path.attrib["d"] == "M44.0 164.0 L386.0 12.0"
    assert root.attrib["role"] == "img" and "0 to 1" in root.attrib["aria-label"]


def test_one_point_and_equal_values_are_drawn() -> None:
    assert "<circle" in line_chart("Loss", [Series("", [(1.0, 2.0)])])
    assert "nan" not in line_chart("Loss", [Series("", [(1.0, 2.0), (2.0, 2.0)])])
    assert line_chart("Loss", [Series("", [])]) == ""


def test_texts_in_charts_are_escaped() -> None:
    hostile = '"><script>alert(1)</script>'
    row = DotRow(hostile, [Dot(0.5, 0.4, 0.6, "m0", hostile)])
    for chart in (dot_plot(hostile, [row]), line_chart(hostile, [Series(hostile, [(0, 0), (1, 1)])])):
        assert "<script>" not in chart
        ET.fromstring(chart)


def test_a_dot_without_a_mean_is_left_out() -> None:
    assert "circle" not in dot_plot("t", [DotRow("a", [Dot(None, None, None, "m0", "")])])


def test_metric_texts() -> None:
    correct, reward = BY_KEY["correct"], BY_KEY["reward"]
    assert correct.text(0.125) == "12.5 %" and correct.text(-0.05, signed=True) == "−5.0 pt"
    assert reward.text(None) == "–" and reward.text(float("nan")) == "–"
    assert correct.bounds({"low": 0.1, "high": 0.2}) == "10.0 … 20.0"
    assert correct.bounds({"low": None, "high": None}) == ""
    assert difference_label("grpo - sft") == "GRPO − SFT"


def test_direction_needs_an_interval_without_zero() -> None:
    reward, malformed, searches = BY_KEY["reward"], BY_KEY["malformed_share"], BY_KEY["searches"]
    assert direction(reward, {"low": 0.1, "high": 0.2}) == "better"
    assert direction(malformed, {"low": 0.1, "high": 0.2}) == "worse"
    assert direction(reward, {"low": -0.1, "high": 0.2}) == "unclear"
    assert direction(searches, {"low": 0.1, "high": 0.2}) == "unclear"
    assert direction(reward, None) == "unclear"


def test_durations_and_subscripts() -> None:
    assert [duration(s) for s in (None, 3.24, 42.0, 75.0, 3720.0)] == ["–", "3.2 s", "42 s", "1 min 15 s", "1 h 02 min"]
    assert subscript("R_acc <b>") == "R<sub>acc</sub> &lt;b&gt;"
