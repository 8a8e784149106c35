"""Numbers as Chinese law writes them: 二百六十四, 264, ２６４, 贰佰陆拾肆, and article labels made of them.

`cn2an` does the reading; this module adds the scripts it refuses, a cache, and the rule that nonsense is None, never an
exception.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import cn2an

NUMERAL_CHARS = "0-9零〇一二三四五六七八九十百千两壹贰叁肆伍陆柒捌玖拾佰仟"
"""Body of a regular-expression class for one numeral character, after NFKC normalisation."""

MAX_NUMBER = 99_999

_CAPITALS = str.maketrans("〇壹贰叁肆伍陆柒捌玖拾佰仟", "零一二三四五六七八九十百千")
_LABEL = re.compile(rf"第([{NUMERAL_CHARS}]+)条(?:之([{NUMERAL_CHARS}]+))?")


@lru_cache(maxsize=65_536)
def parse_number(text: str) -> int | None:
    """Reads a number in digits, Chinese numerals or a mix; None when it is none or larger than `MAX_NUMBER`.

    Example: "二百六十四" -> 264, "１２" -> 12, "一二三" -> 123, "3百" -> 300, "百十条" -> None.
    """
    plain = unicodedata.normalize("NFKC", text).strip().translate(_CAPITALS)
    if not plain or len(plain) > 12:
        return None
    if plain.isascii() and plain.isdigit():
        value = int(plain)
    else:
        try:
            value = int(cn2an.cn2an(plain, "smart"))
        except (ValueError, TypeError, KeyError, IndexError):
            return None
    return value if 0 <= value <= MAX_NUMBER else None


@lru_cache(maxsize=16_384)
def chinese_number(value: int) -> str:
    """Writes `value` as a statute does: 10 -> 十, 17 -> 十七, 103 -> 一百零三, 1260 -> 一千二百六十."""
    text = cn2an.an2cn(value, "low")
    return text.removeprefix("一") if 10 <= value < 20 else text


def article_label(article_no: int, article_sub: int = 0) -> str:
    """(133, 1) -> 第一百三十三条之一."""
    suffix = f"之{chinese_number(article_sub)}" if article_sub else ""
    return f"第{chinese_number(article_no)}条{suffix}"


def parse_label(label: str) -> tuple[int, int] | None:
    """第一百三十三条之一 -> (133, 1); None when the label names no article."""
    match = _LABEL.fullmatch(unicodedata.normalize("NFKC", label).replace(" ", ""))
    if not match:
        return None
    number, sub = parse_number(match[1]), parse_number(match[2]) if match[2] else 0
    return None if number is None or sub is None else (number, sub)
