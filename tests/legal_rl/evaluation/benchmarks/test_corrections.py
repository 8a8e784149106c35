"""Edits of corrected sentences: hand-worked lists, and laws that every alignment obeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.evaluation.benchmarks.corrections import (
    compare_correction,
    f_half,
    sentence_edits,
    shorten,
    simplified,
    without_chat_end,
)

SENTENCE = st.text(alphabet="甲乙丙，。a", max_size=8)


@pytest.mark.parametrize(
    ("source", "target", "edits"),
    [
        ("自首到岸", "自首到案", {(3, 4, "案"): 1}),
        ("承担责责任", "承担责任", {(2, 3, ""): 1}),
        ("承担责", "承担责任", {(3, 3, "任"): 1}),
        ("承任担责", "承担责任", {(1, 4, "担责任"): 1, (1, 2, ""): 1, (4, 4, "任"): 1}),
        ("甲乙", "乙甲", {(0, 2, "乙甲"): 1}),
        ("甲", "甲", {}),
        ("", "甲", {(0, 0, "甲"): 1}),
    ],
)
def test_edits_worked_by_hand(source: str, target: str, edits: dict) -> None:
    assert dict(sentence_edits(source, target)) == edits


@given(SENTENCE, SENTENCE)
def test_equal_texts_have_no_edits_and_others_have(source: str, target: str) -> None:
    edits = sentence_edits(source, target)
    assert bool(edits) == (source != target)
    assert all(0 <= start <= end <= len(source) and weight > 0 for (start, end, _), weight in edits.items())
    one_list = [edit for edit, weight in edits.items() if weight == max(edits.values())]
    if len(one_list) == len(edits) == 1:
        start, end, new = one_list[0]
        assert source[:start] + new + source[end:] == target


def test_all_cheapest_edit_lists_count() -> None:
    """A shuffle of three characters costs as much as a deletion and an insertion: three edits in two lists."""
    assert compare_correction("承任担责", "承担责任", "承担责任") == (3, 0, 0)
    assert compare_correction("承任担责", "承任担责", "承担责任") == (0, 0, 3)


def test_f_half_prefers_precision() -> None:
    assert f_half(1, 1, 0) == 0.5556 and f_half(1, 0, 1) == 0.8333
    assert f_half(0, 0, 0) == 1.0 and f_half(0, 0, 1) == 0.0


def test_predictions_are_cut_and_simplified() -> None:
    assert shorten("甲乙丙丁戊己庚辛", "甲") == "甲乙丙丁戊己"
    assert shorten("\n", "甲") == "无内容"
    assert simplified("張某 到案") == "张某到案"
    assert without_chat_end("甲。<|im_end|>") == "甲。"
