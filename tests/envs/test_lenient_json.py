"""The forgiving JSON reader: each harmless slip, each doubt about meaning, and laws under random text."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.lenient_json import read_object, strip_fence

EXPECTED = {"source": "statute", "query": "刑法第264条"}


@pytest.mark.parametrize(
    "text",
    [
        '{"source": "statute", "query": "刑法第264条"}',
        "{'source': 'statute', 'query': '刑法第264条'}",
        "{“source”：“statute”，“query”：“刑法第264条”}",
        "｛＂source＂：＂statute＂，＂query＂：＂刑法第264条＂｝",
        '{"source": "statute", "query": "刑法第264条",}',
        '{"source": "statute", "query": "刑法第264条"',
        '```json\n{"source": "statute", "query": "刑法第264条"}\n```',
        "```\n{'source': 'statute', 'query': '刑法第264条',}\n```",
        "{‘source’: ‘statute’, ‘query’: ‘刑法第264条’}",
    ],
)
def test_harmless_slips_are_forgiven(text: str) -> None:
    assert read_object(text) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "刑法第264条",
        '["statute"]',
        '{"source": statute}',
        '{"source": "statute"} {"source": "precedent"}',
        '{"source" "statute"}',
        '{"source": "statute" "query": "x"}',
        "{source: 'statute'}",
        '{"a": "未闭合',
        "{'a': '\\u12'}",
        "{",
        "[" * 5000,
        "{'a':" * 50,
        "1" * 5000,
    ],
)
def test_doubts_about_meaning_are_errors(text: str) -> None:
    with pytest.raises(ValueError):
        read_object(text)


def test_quotes_inside_a_string_survive() -> None:
    assert read_object("{'query': '什么是“多次盗窃”的标准', 'n': 3}") == {"query": "什么是“多次盗窃”的标准", "n": 3}
    assert read_object('{"query": "所谓"入户"如何认定"}') == {"query": '所谓"入户"如何认定'}


def test_escapes_in_the_forgiving_reader() -> None:
    assert read_object(r"{'q': 'a\n\u6761\'b\q'}") == {"q": "a\n条'bq"}


def test_nested_call_is_read_in_the_forgiving_reader() -> None:
    text = "{'name': 'search_statute', 'arguments': {'query': '刑法'},}"
    assert read_object(text) == {"name": "search_statute", "arguments": {"query": "刑法"}}


def test_strip_fence_leaves_other_text_alone() -> None:
    assert strip_fence("  ```json\nx\n``` ") == "x"
    assert strip_fence("```") == "```"
    assert strip_fence("a ```b```") == "a ```b```"


@given(st.text())
def test_reads_or_raises_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(read_object(text), dict)


@given(st.text(alphabet="{}\"'“”‘’:：,，\\u0a \n［[1"))
def test_reads_or_raises_value_error_on_json_like_text(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(read_object(text), dict)


@given(st.dictionaries(st.text(), st.text()))
def test_agrees_with_json_on_json(value: dict[str, str]) -> None:
    assert read_object(json.dumps(value)) == value


@pytest.mark.parametrize("unit", ["{'a':", "'", "' ", "{", "\\", "“", ",", "'a':'b',", "```", " "])
def test_time_is_linear_in_adversarial_text(unit: str) -> None:
    started = time.perf_counter()
    for text in (unit * 20_000, "{'a': '" + unit * 20_000, "```" + unit * 20_000 + "```"):
        with contextlib.suppress(ValueError):
            read_object(text)
    assert time.perf_counter() - started < 5
