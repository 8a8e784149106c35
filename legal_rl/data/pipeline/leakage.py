"""Answer-leakage suppression (paper, appendix G.5): does the question give its answer away?

Two layers: the normalised answer stands in the question; or a sentencing term, penalty, fine, probation, amount,
duration, article, charge or date of the question equals one of the answer in another spelling.

    find_leak("被告人犯盗窃罪被判处3年有期徒刑，刑期多长？", "有期徒刑三年") -> Leak("term", "3年有期徒刑")
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from legal_rl.data.pipeline.values import Value, find_values, fold
from rewards.text import normalise

MAX_VALUE_ANSWER = 60
"""An answer of more normalised characters is an argument that repeats facts of the question: only a copy of all of it
leaks."""
_CLOSED = """
是 否 对 错 有 无 能 不能 可以 不可以 会 不会 应当 不应当 构成 不构成 有效 无效 正确 错误 成立 不成立 合法 不合法 违法
属于 不属于 支持 不支持 同意 不同意 需要 不需要
"""
CLOSED_ANSWERS = frozenset(_CLOSED.split())
"""Answers of yes-no questions: every such question names them."""
_LETTERS = re.compile(r"[A-H](?:[\s、,，]*[A-H])*")
_LABEL = re.compile(r"^(?:罪名|法条|刑期|刑罚|罚金|答案|结论|金额|期限|案由|主体|依据)[:：]")
_ACCUSED = re.compile(r"(?:涉嫌|构成|触犯|犯有?|因|以|涉|成立|定性为|认定为|指控|系|属于)$")
_CRIME_AFTER = re.compile(r"罪|一案|案件|案(?:中|的|,|被告|嫌疑)|犯罪|的罪名|案发|被(?:起诉|提起公诉|刑事拘留|逮捕|判)")


@dataclass(frozen=True, slots=True)
class Leak:
    """What gives the answer away: `kind` is `copy` or the kind of a value, `text` the place in the question."""

    kind: str
    text: str


def find_leak(question: str, answer: str, choices: Sequence[str] = ()) -> Leak | None:
    """The first leak, or None.

    Args:
        question: what the Lawyer reads, without the options of a choice question.
        answer: the reference answer; a letter when there are `choices`.
        choices: option texts; the right one is looked for in place of its letter.
    """
    answers = list(_right_options(answer, choices)) if choices else [answer]
    return next((leak for text in answers for leak in _leaks(question, text)), None)


def _right_options(answer: str, choices: Sequence[str]) -> Iterator[str]:
    letters = [ch for ch in answer.upper() if "A" <= ch <= "H"]
    yield from (choices[ord(ch) - 65] for ch in letters if ord(ch) - 65 < len(choices))


def _leaks(question: str, answer: str) -> Iterator[Leak]:
    bare = normalise(answer)
    if not bare or answer.strip() in CLOSED_ANSWERS or _LETTERS.fullmatch(answer.strip().upper()):
        return
    parts = [part for part in map(_unlabelled, re.split(r"[；;\n]", answer)) if part]
    if len(bare) > MAX_VALUE_ANSWER:
        if bare in normalise(question):
            yield Leak("copy", answer)
        return
    asked = find_values(question)
    for part in dict.fromkeys([_unlabelled(answer), *parts]):
        values = find_values(part)
        if not values or not _only_values(part, values):
            yield from _copies(question, part)
        yield from _same_values(question, asked, values)


def _unlabelled(text: str) -> str:
    return _LABEL.sub("", text.strip()).strip()


def _only_values(text: str, values: Sequence[Value]) -> bool:
    """True for an answer that is nothing but values, such as 判处有期徒刑三年，并处罚金五千元."""
    rest = fold(text)
    for start, end in sorted({(value.start, value.end) for value in values}, reverse=True):
        rest = rest[:start] + rest[end:]
    rest = re.sub(
        r"[^\w]|判处|并处|处|元|应|被告人|依照|根据|规定|罪|以上|以下|之规定|法|的|为|是|约|共|和|及|内|人民币|计",
        "",
        rest,
    )
    return len(rest) <= 1


def _copies(question: str, answer: str) -> Iterator[Leak]:
    """The answer as a substring, not inside a longer number: 3年 does not stand in 2013年."""
    inner, outer = normalise(answer), normalise(question)
    start = outer.find(inner) if len(inner) >= 2 else -1
    while start >= 0:
        before, after = outer[start - 1 : start], outer[start + len(inner) : start + len(inner) + 1]
        cut = (inner[0].isdigit() and (before.isdigit() or before == ".")) or (inner[-1].isdigit() and after.isdigit())
        if not cut:
            yield Leak("copy", answer)
            return
        start = outer.find(inner, start + 1)


def _same_values(question: str, asked: Sequence[Value], values: Sequence[Value]) -> Iterator[Leak]:
    folded = fold(question)
    for value in values:
        for other in asked:
            if value.kind == "charge" and other.kind == "charge":
                leaks = value.key == other.key and _accused_of(folded, other)
            else:
                leaks = _equal(value, other)
            if leaks:
                yield Leak(value.kind, other.text)


def _equal(answer: Value, asked: Value) -> bool:
    """The same value in any spelling; a bare duration as an answer also equals a term or probation of that length."""
    if answer.kind == "article" and asked.kind == "article":
        (law, *place), (other_law, *other_place) = _as_tuple(answer), _as_tuple(asked)
        return place == other_place and (not law or not other_law or law == other_law)
    if answer.kind == "duration" and asked.kind in ("term", "probation"):
        return _as_tuple(asked)[-1:] == _as_tuple(answer) and len(_as_tuple(asked)) <= 2
    if {answer.kind, asked.kind} == {"fine", "amount"}:
        return answer.kind == "amount" and answer.key == asked.key
    if answer.kind == "person":
        return False  # who did it is asked of people whom the question has to name
    return answer.kind == asked.kind and answer.key == asked.key


def _as_tuple(value: Value) -> tuple[Any, ...]:
    return value.key if isinstance(value.key, tuple) else (value.key,)


def _accused_of(folded: str, charge: Value) -> bool:
    """盗窃罪, 涉嫌盗窃, 盗窃一案 name the charge; 盗窃了三部手机 tells the deed."""
    before = folded[max(0, charge.start - 4) : charge.start]
    after = folded[charge.end : charge.end + 6]
    return charge.text.endswith("罪") or bool(_ACCUSED.search(before)) or bool(_CRIME_AFTER.match(after))


def suppress_leaks(records: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Leak | None]]:
    """Yields (record, its leak or None); records have `question`, `answer` and perhaps `choices`."""
    for record in records:
        choices = [str(choice) for choice in record.get("choices") or ()]
        yield record, find_leak(str(record.get("question", "")), str(record.get("answer", "")), choices)
