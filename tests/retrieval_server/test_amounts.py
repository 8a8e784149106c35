"""Numbers in every script, against `cn2an` as an independent writer."""

from __future__ import annotations

import re

import cn2an
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_server.amounts import normalise, parse_number, term_days, term_pattern


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("壹仟", 1000),
        ("贰拾万", 200_000),
        ("1.5万", 15_000),
        ("3万5千", 35_000),
        ("三千五", 3500),
        ("一万五", 15_000),
        ("一百零五", 105),
        ("十二", 12),
        ("5000.00", 5000),
        ("二〇一七", 2017),
        ("一亿二千万", 120_000_000),
        ("两万", 20_000),
        ("二三十", None),
        ("", None),
        ("元", None),
    ],
)
def test_parse_number(text: str, value: float | None) -> None:
    assert parse_number(text) == value


@given(st.integers(1, 999_999_999))
def test_reads_what_cn2an_writes(value: int) -> None:
    assert parse_number(cn2an.an2cn(value, "low")) == value
    assert parse_number(cn2an.an2cn(value, "up")) == value
    assert parse_number(str(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("三年零六个月", (42, 0)),
        ("一年又六个月", (18, 0)),
        ("一年半", (18, 0)),
        ("半年", (6, 0)),
        ("一个月十天", (1, 10)),
        ("二个月零十五日", (2, 15)),
        ("六个", (6, 0)),
        ("45天", (0, 45)),
        ("以下", None),
    ],
)
def test_terms(text: str, expected: tuple[int, int] | None) -> None:
    match = re.match(term_pattern("x_"), text)
    assert match
    assert term_days(match.groupdict(), "x_") == expected


def test_normalise_keeps_what_separates() -> None:
    assert normalise("２，０００元\u3000 （已缴纳）") == "2000元(已缴纳)"
    assert normalise("罚金5000 2、被告人") == "罚金5000\n2、被告人"
