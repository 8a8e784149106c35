"""The Lawyer's actions as text (paper, sections 3.1 and 3.2.1): the one parser and its inverse.

    parse_action('<think>缺条文</think><search>{"source": "statute", "query": "刑法第264条"}</search>')
    -> Statute(query="刑法第264条", thought="缺条文")

A turn is one optional think block and exactly one action. Harmless slips of form are forgiven, doubts about meaning
are not: what cannot be read becomes `Malformed` with the reason that the correction tells the policy. `parse_action`
raises on no text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from envs.lenient_json import read_object, strip_fence
from envs.types import Action, Malformed, Precedent, Statute, Stop
from retrieval_server.types import MAX_QUERY_CHARS, Source

Dialect = Literal["tags", "tool_call"]
"""`tags`: the paper's XML-like tags. `tool_call`: Qwen3's function calls for searches; answers keep their tag."""

_TAG = re.compile(r"[<＜]\s{0,3}(/?)\s{0,3}(think|search|answer|information|tool_call|tool_response)\s{0,3}[>＞]", re.I)
_FIELDS = ("source", "query", "intent", "circumstances", "charge")
_SEARCH_TAG: dict[str, str] = {"tags": "search", "tool_call": "tool_call"}
_TOOL_NAMES = {"search_statute": Source.STATUTE, "search_precedent": Source.PRECEDENT}
_MAX_CHARGE_CHARS = 200


def _function(name: str, description: str, **fields: str) -> dict[str, Any]:
    properties = {field: {"type": "string", "description": text} for field, text in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS: tuple[dict[str, Any], ...] = (
    _function(
        "search_statute", "检索法律法规与司法解释", query="检索词，可含法律名称与条号", intent="想用条文解决什么问题"
    ),
    _function("search_precedent", "检索类案", query="案件事实", circumstances="量刑情节", charge="罪名"),
)
"""Function specifications of the `tool_call` dialect, for the chat template's tools block."""


class _BadTurn(ValueError):
    """Why a turn cannot be read; becomes `Malformed.reason`."""


def parse_action(text: str, dialect: Dialect = "tags") -> Action:
    """Read one turn of the policy.

    Args:
        text: the completion, without the end-of-turn token.
        dialect: which rendering of a search is expected.

    Returns:
        The action; `Malformed` with a reason for everything that is not exactly one readable action.
    """
    try:
        thought, body = _split_thought(strip_fence(text))
        tag, content = _single_action(body, dialect)
        return _stop(content, thought) if tag == "answer" else _search(content, thought, dialect)
    except _BadTurn as error:
        return Malformed(reason=str(error))


def is_closed(text: str) -> bool:
    """True when the turn's last tag closes an action: a completion cut by the token limit after that lost nothing."""
    tags = [(tag.group(1), tag.group(2).lower()) for tag in _TAG.finditer(text)]
    return bool(tags) and tags[-1] in (("/", "search"), ("/", "answer"), ("/", "tool_call"))


def render_action(action: Statute | Precedent | Stop, dialect: Dialect = "tags") -> str:
    """Write an action as the policy would: the inverse of `parse_action`.

    Raises:
        ValueError: a thought or an answer holds one of the protocol's tags and would not be read back.
    """
    if isinstance(action, Stop):
        return f"{_render_thought(action.thought)}<answer>{_tagless(action.answer, '答案')}</answer>"
    fields = {"query": action.query}
    if isinstance(action, Statute):
        fields |= {"intent": action.intent} if action.intent else {}
    else:
        optional = {"circumstances": action.circumstances, "charge": action.charge}
        fields |= {key: value for key, value in optional.items() if value}
    if dialect == "tags":
        return f"{_render_thought(action.thought)}<search>{_dump({'source': action.kind} | fields)}</search>"
    call = _dump({"name": f"search_{action.kind}", "arguments": fields})
    return f"{_render_thought(action.thought)}<tool_call>\n{call}\n</tool_call>"


def _split_thought(text: str) -> tuple[str, str]:
    """(thought, rest). A template that opens the think block in the prompt leaves only its closing tag here."""
    first = _TAG.search(text)
    if first is None or first.group(2).lower() != "think":
        return "", text
    opening = not first.group(1)
    if opening and text[: first.start()].strip():
        raise _BadTurn("<think> 之前有多余文字")
    if not opening:
        return text[: first.start()].strip(), text[first.end() :]
    for tag in _TAG.finditer(text, first.end()):
        if tag.group(1) and tag.group(2).lower() == "think":
            return text[first.end() : tag.start()].strip(), text[tag.end() :]
    raise _BadTurn("<think> 没有闭合")


def _single_action(body: str, dialect: Dialect) -> tuple[str, str]:
    """(tag, content) of the only action in `body`."""
    body = strip_fence(body)
    tags = [(tag.group(2).lower(), bool(tag.group(1)), tag) for tag in _TAG.finditer(body)]
    search_tag = _SEARCH_TAG[dialect]
    foreign = next((name for name, _, _ in tags if name not in (search_tag, "answer")), None)
    if foreign is not None:
        raise _BadTurn(
            "不得自己写检索结果" if foreign in ("information", "tool_response") else f"多余的 <{foreign}> 标签"
        )
    openings = [item for item in tags if not item[1]]
    if len(openings) != 1:
        raise _BadTurn("没有行动" if not openings else "一轮只能有一个行动")
    name, _, opening = openings[0]
    closings = [tag for _, closing, tag in tags if closing]
    if len(closings) > 1 or any(tag.group(2).lower() != name or tag.start() < opening.end() for tag in closings):
        raise _BadTurn("标签不配对")
    end, tail = (closings[0].start(), body[closings[0].end() :]) if closings else (len(body), "")
    if body[: opening.start()].strip() or tail.strip():
        raise _BadTurn("行动之外有多余文字")
    return name, body[opening.end() : end]


def _stop(content: str, thought: str) -> Stop:
    answer = content.strip()
    if not answer:
        raise _BadTurn("答案为空")
    return Stop(answer=answer, thought=thought)


def _search(content: str, thought: str, dialect: Dialect) -> Statute | Precedent:
    try:
        raw = read_object(content)
    except ValueError as error:
        raise _BadTurn(f"检索内容不是 JSON：{error}") from None
    fields = _fields(_flatten_call(raw) if dialect == "tool_call" else raw)
    source, query = fields.get("source", "").lower(), fields.get("query", "")
    if source not in tuple(Source):
        raise _BadTurn("source 只能是 statute 或 precedent")
    if not query:
        raise _BadTurn("query 为空")
    if source == Source.STATUTE:
        return Statute(query=query, intent=fields.get("intent", ""), thought=thought)
    return Precedent(
        query=query,
        circumstances=fields.get("circumstances", ""),
        charge=fields.get("charge", ""),
        thought=thought,
    )


def _flatten_call(raw: dict[str, object]) -> dict[str, object]:
    name, arguments = raw.get("name"), raw.get("arguments", {})
    if isinstance(arguments, str):  # some models write the arguments as a string of JSON
        try:
            arguments = read_object(arguments)
        except ValueError as error:
            raise _BadTurn(f"arguments 不是 JSON：{error}") from None
    if name not in _TOOL_NAMES or not isinstance(arguments, dict):
        raise _BadTurn("工具只有 search_statute 与 search_precedent")
    return {"source": _TOOL_NAMES[str(name)].value, **arguments}


def _fields(raw: dict[str, object]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, value in raw.items():
        name = key.strip().lower()
        if name not in _FIELDS:
            raise _BadTurn(f"未知字段 {name[:20]}")
        fields[name] = _as_text(name, value)
        limit = _MAX_CHARGE_CHARS if name == "charge" else MAX_QUERY_CHARS
        if len(fields[name]) > limit:
            raise _BadTurn(f"{name} 过长（至多 {limit} 字）")
    return fields


def _as_text(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "、".join(value).strip()
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value).strip()
    raise _BadTurn(f"{name} 应为字符串")


def _dump(fields: dict[str, object] | dict[str, str]) -> str:
    text = json.dumps(fields, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("＜", "\\uff1c")  # so that no value can look like a tag


def _tagless(text: str, what: str) -> str:
    if _TAG.search(text):
        raise ValueError(f"{what}中不得含有协议标签")
    return text


def _render_thought(thought: str) -> str:
    return f"<think>{_tagless(thought, '思考')}</think>" if thought else ""
