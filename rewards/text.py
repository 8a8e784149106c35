"""One spelling for Chinese legal answers, so that graders compare meaning and not typing.

normalise("答：《刑法》 第二百六十四条。") == normalise("刑法第264条") == "刑法第264条"
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from retrieval_server.numerals import NUMERAL_CHARS, parse_number

_NUMBERED = re.compile(rf"([{NUMERAL_CHARS}]{{1,12}})(?=条|款|项|编|章|节|年|个月|月|日|天|元|周|倍|人|名|次|岁)")
_SUB_ARTICLE = re.compile(rf"条之([{NUMERAL_CHARS}]{{1,4}})")
_LEAD_IN = re.compile(r"\A(?:(?:正确|最终)?答案?(?:是|为)?[:：]|(?:正确|最终)?答案(?:是|为))")
_INNER_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_MAX_PASSES = 8
_POINT = "\ue000"  # a private character that stands for a decimal point while punctuation is dropped


@lru_cache(maxsize=65_536)
def normalise(text: str) -> str:
    """Fold width and case, write numerals before a unit as digits, drop lead-ins, blanks, punctuation. Idempotent."""
    for _ in range(_MAX_PASSES):  # dropping a character can make a new lead-in or a new composed letter
        folded = _fold(text)
        if folded == text:
            break
        text = folded
    return text


def _fold(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().strip()
    folded = _LEAD_IN.sub("", folded)
    folded = "".join(ch for ch in _INNER_POINT.sub(_POINT, folded) if ch == _POINT or _kept(ch))
    folded = _SUB_ARTICLE.sub(lambda m: f"条之{_digits(m[1])}", _NUMBERED.sub(lambda m: _digits(m[1]), folded))
    return folded.replace(_POINT, ".")


def items(text: str) -> frozenset[str]:
    """The normalised members of a list such as 盗窃罪、诈骗罪；抢劫罪."""
    parts = re.split(r"[、，,;；\n|]|(?<=罪)[和与及]", unicodedata.normalize("NFC", text))
    return frozenset(item for item in map(normalise, parts) if item)


@lru_cache(maxsize=16_384)
def words(text: str) -> tuple[str, ...]:
    """Segmented words of the width-folded text, blanks dropped."""
    import rjieba

    return tuple(word for word in rjieba.cut(unicodedata.normalize("NFKC", text)) if word.strip())


def _kept(ch: str) -> bool:
    return ch in "%-+" or unicodedata.category(ch)[0] not in "PZCS"


def _digits(numeral: str) -> str:
    value = parse_number(numeral)
    return numeral if value is None else str(value)
