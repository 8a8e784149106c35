"""Graders: hand-worked scores, bounds, and that a right answer always earns 1."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.errors import RewardConfigError
from rewards.graders import GRADERS, f1, grade, harmonic

FIVE_ONE = 1 - abs(math.log(61) - math.log(13)) / math.log(216)
"""Five years for one: months 60 against 12."""


@pytest.mark.parametrize(
    ("name", "answer", "reference", "score"),
    [
        ("exact", "答：《刑法》第264条。", "刑法第二百六十四条", 1.0),
        ("exact", "刑法第265条", "刑法第264条", 0.0),
        ("contains", "应处三年以下有期徒刑。", "3年以下有期徒刑", 1.0),
        ("contains", "管制", "三年", 0.0),
        ("contains", "任何答案", "。", 0.0),
        ("choice", "B", "B", 1.0),
        ("choice", "选 Ｂ。", "B", 1.0),
        ("choice", "答案：A，因为 B 不对", "A", 1.0),
        ("choice", "A 或 B", "A", 0.0),
        ("choice", "DNA 鉴定", "A", 0.0),
        ("choice", "没有", "A", 0.0),
        ("multi_choice", "A、B、D", "ABD", 1.0),
        ("multi_choice", "AB", "ABD", 0.0),
        ("multi_choice", "ABCD", "ABD", 0.0),
        ("multi_choice", "都不对", "都不对", 0.0),
        ("set_f1", "盗窃罪、诈骗罪", "盗窃罪", 2 / 3),
        ("set_f1", "诈骗罪；盗窃罪", "盗窃罪、诈骗罪", 1.0),
        ("articles", "《中华人民共和国刑法》第264条", "刑法第二百六十四条", 1.0),
        ("articles", "刑法第264条、第265条", "刑法第264条", 2 / 3),
        ("articles", "第264条", "刑法第264条", 0.0),
        ("prison_term", "一年", "刑期：12个月", 1.0),
        ("prison_term", "有期徒刑五年", "有期徒刑一年", FIVE_ONE),
        ("prison_term", "1年6个月", "18", 1.0),
        ("prison_term", "无期徒刑", "无期徒刑", 1.0),
        ("prison_term", "死刑，缓期二年执行", "死刑", 0.0),
        ("prison_term", "死缓", "死刑缓期执行", 1.0),
        ("prison_term", "三年", "无期徒刑", 0.0),
        ("prison_term", "2020年判决有期徒刑三年", "三年", 1.0),
        ("prison_term", "不知道", "三年", 0.0),
        ("amount", "共计1.5万元", "15000元", 1.0),
        ("amount", "15,100元", "15000元", 1.0),
        ("amount", "15200元", "15000元", 0.0),
        ("amount", "先后盗窃100元，总额三千元", "3000元", 1.0),
        ("amount", "3000", "3000元", 1.0),
        ("amount", "没有金额", "3000元", 0.0),
        ("rouge_l", "盗窃公私财物", "盗窃公私财物", 1.0),
        ("rouge_l", "公私财物", "盗窃公私财物", 0.8),
        ("rouge_l", "。", "盗窃", 0.0),
        ("rouge_l", "。", "。", 1.0),
        ("rouge_l", "x", " ", 0.0),
        ("span_f1", "公私财物", "盗窃公私财物", 0.8),
        ("span_f1", "管制", "盗窃", 0.0),
        ("judge", "盗窃公私财物", "盗窃公私财物", 1.0),
    ],
)
def test_hand_worked_scores(name: str, answer: str, reference: str, score: float) -> None:
    assert grade(name, answer, reference) == pytest.approx(score)


def test_a_far_term_is_bounded_below() -> None:
    assert grade("prison_term", "0个月", "二十五年") == 0.0


def test_rouge_agrees_with_an_independent_longest_common_subsequence() -> None:
    from rewards.text import words

    said, meant = words("处三年以下有期徒刑或者管制"), words("处三年以上十年以下有期徒刑")
    table = [[0] * (len(meant) + 1) for _ in range(len(said) + 1)]
    for i, a in enumerate(said):
        for j, b in enumerate(meant):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    lcs = table[-1][-1]
    expected = harmonic(lcs / len(said), lcs / len(meant))
    assert grade("rouge_l", "".join(said), "".join(meant)) == pytest.approx(expected)


def test_unknown_grader_and_empty_answer() -> None:
    with pytest.raises(RewardConfigError, match=r"unknown grader 'bleu'; known: amount, "):
        grade("bleu", "x", "x")
    assert all(grade(name, "  ", "盗窃") == 0.0 for name in GRADERS)


def test_f1_of_sets() -> None:
    assert f1(frozenset(), frozenset()) == 1.0
    assert f1(frozenset("ab"), frozenset()) == 0.0
    assert f1(frozenset("ab"), frozenset("bc")) == 0.5


@given(st.sampled_from(sorted(GRADERS)), st.text(max_size=30), st.text(max_size=30))
def test_always_within_bounds(name: str, answer: str, reference: str) -> None:
    assert 0.0 <= grade(name, answer, reference) <= 1.0


REFERENCES = {
    "exact": "甲",
    "contains": "从重",
    "choice": "C",
    "multi_choice": "ACD",
    "set_f1": "抢劫罪、诈骗罪",
    "articles": "民法典第1254条",
    "prison_term": "七年",
    "amount": "三万五千元",
    "rouge_l": "依法从重处罚",
    "span_f1": "从重",
    "judge": "依法从重处罚",
}


@pytest.mark.parametrize(("name", "reference"), REFERENCES.items())
def test_the_reference_itself_earns_one(name: str, reference: str) -> None:
    assert grade(name, reference, reference) == pytest.approx(1.0)


def test_every_grader_has_such_a_reference() -> None:
    assert set(REFERENCES) == set(GRADERS)
