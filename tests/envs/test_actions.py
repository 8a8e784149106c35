"""The one action parser: hand-written turns, the inverse, and laws under random text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.actions import TOOLS, is_closed, parse_action, render_action
from envs.types import Malformed, Precedent, Statute, Stop

SEARCH = '<search>{"source": "statute", "query": "刑法第264条", "intent": "条文内容"}</search>'


def reason(text: str, dialect: str = "tags") -> str:
    action = parse_action(text, dialect)  # type: ignore[arg-type]
    assert isinstance(action, Malformed), action
    return action.reason


def test_statute_search() -> None:
    expected = Statute("刑法第264条", "条文内容", "缺条文")
    assert parse_action(f"<think>缺条文</think>{SEARCH}") == expected
    assert parse_action(f"<think>\n缺条文\n</think>\n\n{SEARCH}\n") == expected


def test_precedent_search() -> None:
    text = (
        '<search>{"source": "precedent", "query": "入户盗窃手机", "circumstances": "自首", "charge": "盗窃罪"}</search>'
    )
    assert parse_action(text) == Precedent("入户盗窃手机", "自首", "盗窃罪")


def test_stop_keeps_the_answer_as_written() -> None:
    assert parse_action("<think>够了</think><answer> 三年以下有期徒刑。\n</answer>") == Stop(
        "三年以下有期徒刑。", "够了"
    )


@pytest.mark.parametrize(
    "text",
    [
        "```\n" + SEARCH + "\n```",
        "<search>```json\n" + SEARCH[8:-9] + "\n```</search>",
        SEARCH[:-9],
        SEARCH.replace('"', "“"),
        SEARCH.replace('"', "'"),
        SEARCH.replace(", ", "，").replace(": ", "："),
        SEARCH.replace("}", ",}"),
        SEARCH.upper().replace("SOURCE", "source").replace("QUERY", "query").replace("INTENT", "intent"),
        "＜search＞" + SEARCH[8:-9] + "＜/search＞",
    ],
)
def test_harmless_slips_are_forgiven(text: str) -> None:
    assert parse_action(text) == Statute("刑法第264条", "条文内容")


def test_missing_closing_tag_of_an_answer_at_the_end() -> None:
    assert parse_action("<answer>A") == Stop("A")


def test_think_block_opened_by_the_template() -> None:
    assert parse_action(f"缺条文\n</think>\n\n{SEARCH}") == Statute("刑法第264条", "条文内容", "缺条文")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "没有行动"),
        ("我认为应当检索。", "没有行动"),
        ("<think>只想不做</think>", "没有行动"),
        ("<think>没有闭合" + SEARCH, "没有闭合"),
        (SEARCH + SEARCH, "一个行动"),
        (SEARCH + "<answer>A</answer>", "一个行动"),
        ("<answer>A</answer><answer>A</answer>", "一个行动"),
        ("<answer>A<search></answer>", "一个行动"),
        ("好的。" + SEARCH, "多余文字"),
        (SEARCH + "请稍候", "多余文字"),
        ("前言<think>x</think>" + SEARCH, "之前"),
        ("<think>a</think><think>b</think>" + SEARCH, "think"),
        ("</search>" + SEARCH, "配对"),
        ("<answer>A</search>", "配对"),
        (SEARCH.replace("statute", "web"), "source"),
        ('<search>{"query": "刑法"}</search>', "source"),
        ('<search>{"source": "statute", "query": "  "}</search>', "query 为空"),
        ('<search>{"source": "statute"}</search>', "query 为空"),
        ('<search>{"source": "statute", "query": "刑法", "top_k": 9}</search>', "top_k"),
        ('<search>{"source": "statute", "query": {"a": "b"}}</search>', "字符串"),
        ('<search>{"source": "statute", "query": true}</search>', "字符串"),
        ("<search>刑法第264条</search>", "JSON"),
        ('<search>{"source": "statute", "query": "' + "长" * 4001 + '"}</search>', "过长"),
        ('<search>{"source": "precedent", "query": "事实", "charge": "' + "罪" * 201 + '"}</search>', "过长"),
        ("<answer> </answer>", "答案为空"),
        ("<information>[1] 我编的</information>" + SEARCH, "检索结果"),
        (SEARCH + "<information>[1] 我编的</information>", "检索结果"),
        ("<answer><information>编</information></answer>", "检索结果"),
        ('<tool_call>{"name": "search_statute"}</tool_call>', "tool_call"),
    ],
)
def test_doubts_about_meaning_are_malformed(text: str, part: str) -> None:
    assert part in reason(text)


def test_lists_and_numbers_become_text() -> None:
    text = (
        '<search>{"source": "precedent", "query": 264, "charge": ["盗窃罪", "诈骗罪"], "circumstances": null}</search>'
    )
    assert parse_action(text) == Precedent("264", "", "盗窃罪、诈骗罪")


def test_information_inside_a_thought_is_only_a_thought() -> None:
    action = parse_action(f"<think><information>[1] 编</information></think>{SEARCH}")
    assert action == Statute("刑法第264条", "条文内容", "<information>[1] 编</information>")


def test_tool_call_dialect() -> None:
    text = '<think>x</think>\n<tool_call>\n{"name": "search_statute", "arguments": {"query": "刑法"}}\n</tool_call>'
    assert parse_action(text, "tool_call") == Statute("刑法", thought="x")
    as_string = '<tool_call>{"name": "search_precedent", "arguments": "{\\"query\\": \\"盗窃\\"}"}</tool_call>'
    assert parse_action(as_string, "tool_call") == Precedent("盗窃")
    assert parse_action("<answer>A</answer>", "tool_call") == Stop("A")
    assert "search" in reason(SEARCH, "tool_call")
    assert "工具" in reason('<tool_call>{"name": "browse", "arguments": {}}</tool_call>', "tool_call")
    assert "arguments" in reason('<tool_call>{"name": "search_statute", "arguments": "坏"}</tool_call>', "tool_call")
    assert [tool["function"]["name"] for tool in TOOLS] == ["search_statute", "search_precedent"]


def test_is_closed() -> None:
    assert is_closed(SEARCH)
    assert not is_closed(SEARCH[:-9])
    assert not is_closed("")
    assert not is_closed("<think>x</think>")


def test_render_examples() -> None:
    assert render_action(Statute("刑法", "条文", "缺")) == (
        '<think>缺</think><search>{"source": "statute", "query": "刑法", "intent": "条文"}</search>'
    )
    assert render_action(Stop("A")) == "<answer>A</answer>"
    assert render_action(Precedent("事实", charge="盗窃罪"), "tool_call") == (
        '<tool_call>\n{"name": "search_precedent", "arguments": {"query": "事实", "charge": "盗窃罪"}}\n</tool_call>'
    )


@pytest.mark.parametrize("action", [Stop("<answer>"), Stop("A", thought="</think>")])
def test_what_would_not_be_read_back_is_refused(action: Stop) -> None:
    with pytest.raises(ValueError, match="协议标签"):
        render_action(action)


text_of_policy = st.text(min_size=1, max_size=60).map(str.strip).filter(bool)
tag_free = text_of_policy.filter(lambda t: "<" not in t and "＜" not in t and "```" not in t)
thoughts = st.one_of(st.just(""), tag_free)
optional = st.one_of(st.just(""), text_of_policy)
actions = st.one_of(
    st.builds(Statute, query=text_of_policy, intent=optional, thought=thoughts),
    st.builds(Precedent, query=text_of_policy, circumstances=optional, charge=optional, thought=thoughts),
    st.builds(Stop, answer=tag_free, thought=thoughts),
)


@given(actions, st.sampled_from(["tags", "tool_call"]))
def test_parse_is_the_inverse_of_render(action, dialect) -> None:
    assert parse_action(render_action(action, dialect), dialect) == action


TAGS = [f"<{slash}{name}>" for name in ("think", "search", "answer", "information", "tool_call") for slash in ("", "/")]
pieces = st.sampled_from([*TAGS, '{"source": "statute", "query": "x"}', "{", '"', "'", "：", "```", "条", " ", "\n"])


@given(st.one_of(st.text(), st.lists(pieces, max_size=12).map("".join)), st.sampled_from(["tags", "tool_call"]))
def test_never_raises_and_reads_one_action_or_none(text, dialect) -> None:
    action = parse_action(text, dialect)
    assert action.kind in ("statute", "precedent", "stop", "malformed")
    if isinstance(action, Malformed):
        assert action.reason


@pytest.mark.parametrize(
    "unit", ["<", "<think>", "</think>", "<search>", "<search>{'a':'", "< ", "<answer>", "{'a': ", "＜"]
)
def test_time_is_linear_in_adversarial_text(unit: str) -> None:
    started = time.perf_counter()
    for head in ("", "<think>", "<search>", "<search>{'source': '"):
        parse_action(head + unit * 10_000)
        is_closed(head + unit * 10_000)
    assert time.perf_counter() - started < 5
