"""Rules that read a statute's text: first clause, sentencing tiers, provisos, definitions and clips.

Every function returns spans of the text as it is written: an answer made here stands in its article letter by letter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CLAUSE = re.compile(r"([^，。；：、\s（）“”《》\"]+)[，。；：]")
_NUMERAL = "[一二三四五六七八九十]+"
_TERM = rf"(?:{_NUMERAL}(?:年|个月)以上)?(?:{_NUMERAL}(?:年|个月)以下)?有期徒刑|无期徒刑|死刑|拘役|管制|剥夺政治权利"
_RANGE = rf"(?:{_TERM})(?:(?:、|或者)(?:{_TERM}))*"
_TIER = re.compile(rf"(?:^|(?<=[。；\n]))(?P<condition>[^。；：\n]+?)，处(?P<range>{_RANGE})(?=[，；。：\n]|$)")
_PROVISO = re.compile(r"(?:^|[，；。])但是?，?(?P<proviso>[^。；\n“”《》]+)[。；]")
_DEFINITION = re.compile(r"(?:^|\n)本法所称的?(?P<term>[^，。；\n《》“”]{2,12})，是指(?P<meaning>[^。；：\n“”《》]+)。")
_PARAPHRASES: tuple[tuple[str, str], ...] = (
    ("(?<!不)应当", "必须"),
    ("不得", "不可以"),
    ("或者", "或"),
    ("以及", "和"),
    ("依照", "按照"),
    ("未经", "没有经过"),
    ("(?<!不)可以", "有权"),
    ("予以", "给予"),
    ("应予", "应该给予"),
    ("并且", "而且"),
    ("与其", "同其"),
    ("任何", "所有"),
    ("^国家(?=鼓励|支持|建立|保障|实行|保护|加强)", "我国"),
    ("有关", "相关"),
)
_LEGAL_WORD = re.compile("|".join(f"({legal})" for legal, _ in _PARAPHRASES))


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of an article: `text[start:end] == value`."""

    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SentencingTier:
    """One step of an offence's punishment.

    Example: 数额巨大或者有其他严重情节的，处三年以上十年以下有期徒刑 -> condition 数额巨大或者有其他严重情节的,
    penalty.value 三年以上十年以下有期徒刑, first False (it is not the article's opening sentence).
    """

    condition: str
    penalty: Span
    first: bool


def first_clause(text: str) -> str:
    """The text up to its first punctuation mark, if that is ，。； or ：; else empty (an enumeration, a quotation)."""
    match = _CLAUSE.match(text)
    return match[1] if match else ""


def sentencing_tiers(text: str) -> list[SentencingTier]:
    """All tiers 条件，处刑罚 of an article in order; tiers that only name a fine are left out."""
    return [
        SentencingTier(m["condition"], Span(m["range"], m.start("range"), m.end("range")), m.start() == 0)
        for m in _TIER.finditer(text)
    ]


def provisos(text: str) -> list[Span]:
    """What follows 但 or 但是 up to the end of its sentence (但书), marks at the ends removed."""
    return [Span(m["proviso"], m.start("proviso"), m.end("proviso")) for m in _PROVISO.finditer(text)]


def lead_in(text: str, start: int, max_chars: int = 16) -> str:
    """The words right before a position, from the last clause boundary that leaves a few of them.

    Example: 保密期限届满，自行解密；但是，法律另有规定的除外。 at 法律 -> 自行解密；但是，
    """
    before = text[max(0, start - max_chars) : start]
    edges = [m.end() for m in re.finditer(r"[，；。：\n]", before[:-4])]
    return before[edges[-1] :] if edges else before


def definition(text: str) -> tuple[str, str] | None:
    """(term, meaning) of the first 本法所称X，是指Y。, or None."""
    match = _DEFINITION.search(text)
    return (match["term"], match["meaning"]) if match else None


def clips(text: str, min_chars: int, max_chars: int) -> list[Span]:
    """Runs of one or more whole clauses (cut at ，；。) with a length between the two bounds, in order.

    A clip never crosses a line, never holds a quotation mark or a book-title mark, and ends before its last mark.
    """
    edges = [0, *(m.end() for m in re.finditer(r"[，；。：\n]", text))]
    if edges[-1] < len(text):
        edges.append(len(text) + 1)
    found = []
    for i, start in enumerate(edges[:-1]):
        for end in edges[i + 1 :]:
            piece = text[start : end - 1]
            if len(piece) > max_chars:
                break
            if len(piece) >= min_chars and not re.search(r"[\n“”《》（）\"]|[，；。：、]$", piece):
                found.append(Span(piece, start, end - 1))
    return found


def paraphrase(text: str) -> str:
    """The clip with everyday words for legal ones, from a fixed table; unchanged when no word of the table occurs.

    One pass: what was put in is never replaced again (不得 -> 不可以, and stays so).
    """
    return _LEGAL_WORD.sub(lambda match: _PARAPHRASES[(match.lastindex or 1) - 1][1], text)
