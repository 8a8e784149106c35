"""The rules that read statutes: hand-worked articles, and laws that hold for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.data.clauses import clips, definition, first_clause, lead_in, paraphrase, provisos, sentencing_tiers

THEFT = (
    "盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金；"
    "数额巨大或者有其他严重情节的，处三年以上十年以下有期徒刑，并处罚金；"
    "数额特别巨大或者有其他特别严重情节的，处十年以上有期徒刑或者无期徒刑，并处罚金或者没收财产。"
)
TEXTS = st.text(
    alphabet="盗窃处三年以上下有期徒刑但是除外本法所称指国家应当不得可以，。；：、\n“”《》（）", max_size=60
)


def test_first_clause() -> None:
    assert first_clause(THEFT) == "盗窃公私财物"
    assert first_clause("下列财产：（一）房屋") == "下列财产"
    assert first_clause("公民、法人的权利，受保护") == "", "an enumeration is no clause"
    assert first_clause("没有标点") == ""


def test_sentencing_tiers_in_order() -> None:
    tiers = sentencing_tiers(THEFT)
    assert [(t.condition, t.penalty.value, t.first) for t in tiers] == [
        ("盗窃公私财物，数额较大的", "三年以下有期徒刑、拘役或者管制", True),
        ("数额巨大或者有其他严重情节的", "三年以上十年以下有期徒刑", False),
        ("数额特别巨大或者有其他特别严重情节的", "十年以上有期徒刑或者无期徒刑", False),
    ]


def test_a_fine_alone_is_no_tier() -> None:
    assert sentencing_tiers("情节较轻的，处罚金。") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("保密期限届满，自行解密；但是，法律另有规定的除外。", ["法律另有规定的除外"]),
        ("可以转让，但不得损害国家利益。", ["不得损害国家利益"]),
        ("但是，本法另有规定的除外。", ["本法另有规定的除外"]),
        ("不但自己遵守，还要宣传。", []),
        ("担保物权随之转让，债权人与债务人另有约定的除外。", []),
    ],
)
def test_provisos(text: str, expected: list[str]) -> None:
    assert [span.value for span in provisos(text)] == expected


def test_lead_in_starts_at_a_clause() -> None:
    text = "保密期限届满，自行解密；但是，法律另有规定的除外。"
    assert lead_in(text, text.index("法律")) == "自行解密；但是，"


def test_definition() -> None:
    assert definition("本法所称船舶，是指海船和其他海上移动式装置。") == ("船舶", "海船和其他海上移动式装置")
    assert definition("船舶应当登记。") is None


def test_clips_are_whole_clauses_without_their_last_mark() -> None:
    text = "有下列情形之一的：\n可能影响定罪量刑的；\n证据不足的"
    assert [clip.value for clip in clips(text, 5, 12)] == ["有下列情形之一的", "可能影响定罪量刑的", "证据不足的"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("任何人不得侵犯", "所有人不可以侵犯"),
        ("国家安全机关应当保密", "国家安全机关必须保密"),
        ("国家鼓励创新", "我国鼓励创新"),
        ("不应当公开", "不应当公开"),
        ("可以从轻", "有权从轻"),
    ],
)
def test_paraphrase_never_replaces_what_it_put_in(text: str, expected: str) -> None:
    assert paraphrase(text) == expected


@given(TEXTS)
def test_spans_stand_where_they_say(text: str) -> None:
    spans = [*provisos(text), *clips(text, 3, 20), *(tier.penalty for tier in sentencing_tiers(text))]
    assert all(text[span.start : span.end] == span.value for span in spans)


@given(TEXTS, st.integers(1, 6), st.integers(6, 20))
def test_clips_keep_their_bounds_and_lines(text: str, low: int, high: int) -> None:
    found = [clip.value for clip in clips(text, low, high)]
    assert all(low <= len(value) <= high for value in found)
    assert not any(set(value) & set("\n“”《》（）") or value[-1] in "，；。：、" for value in found)


@given(TEXTS)
def test_first_clause_opens_the_text(text: str) -> None:
    assert text.startswith(first_clause(text))


@given(TEXTS, st.integers(0, 60))
def test_lead_in_ends_at_the_position(text: str, start: int) -> None:
    start = min(start, len(text))
    words = lead_in(text, start)
    assert text[:start].endswith(words) and len(words) <= 16
