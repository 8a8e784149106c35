"""Numbers and article labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_server.numerals import article_label, chinese_number, parse_label, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("264", 264),
        ("２６４", 264),
        ("二百六十四", 264),
        ("贰佰陆拾肆", 264),
        ("十", 10),
        ("十七", 17),
        ("一百零三", 103),
        ("一百〇三", 103),
        ("一千二百六十", 1260),
        ("一二三", 123),
        ("两百", 200),
        ("3百", 300),
        ("0", 0),
        ("", None),
        ("百十条", None),
        ("甲", None),
        ("9" * 13, None),
        ("100000", None),
    ],
)
def test_parse_number(text: str, value: int | None) -> None:
    assert parse_number(text) == value


@given(st.integers(min_value=1, max_value=9999))
def test_numbers_survive_writing_and_reading(value: int) -> None:
    assert parse_number(chinese_number(value)) == value


@given(st.text(max_size=20))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    number = parse_number(text)
    assert number is None or 0 <= number <= 99_999


def test_labels() -> None:
    assert article_label(264) == "第二百六十四条"
    assert article_label(133, 1) == "第一百三十三条之一"
    assert article_label(17) == "第十七条"
    assert parse_label("第一百三十三条之一") == (133, 1)
    assert parse_label("第 17 条") == (17, 0)
    assert parse_label("条目三") is None


@given(st.integers(1, 1500), st.integers(0, 12))
def test_labels_survive_writing_and_reading(number: int, sub: int) -> None:
    assert parse_label(article_label(number, sub)) == (number, sub)
