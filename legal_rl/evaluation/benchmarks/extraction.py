"""What the upstream scorers read from an answer: letters, labels, articles, terms, amounts, slots.

Written from the description of their behaviour, slips included; `mended` holds the readers of the fixed mode.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache

NO_ANSWER = ("无", "未提及")
SLOT_TAIL = 3
"""A slot name must end at least this many characters before the end of the text."""

_PARAGRAPH = re.compile(r"第.*?款")
_ARTICLE = re.compile(r"第(.*?)条")
_INTEGER = re.compile(r"\d+")
_DECIMAL = re.compile(r"\d+(?:\.\d+)?")
_MONTHS = (re.compile(r"(\d+)个月"), re.compile(r"(\d+)月"))
_YEARS = re.compile(r"(\d+)年")
_CHOICE_SIGNS = re.compile(r"[、.,;，和]")
_CHOICE_RUN = re.compile(r"[A-E]{1,5}")


def letters_in(text: str, options: str) -> list[str]:
    """Option letters that stand anywhere in the text: 依CPL应选B -> [B, C]."""
    return [letter for letter in options if letter in text]


def choice_string(text: str) -> str:
    """LexEval's reading of a choice answer: A、B和D。解析：… -> ABD; a run with a repeated letter is thrown away."""
    head = text.split("解析")[0].split("分析")[0]
    runs = _CHOICE_RUN.findall(_CHOICE_SIGNS.sub("", head))
    kept = "".join(run for run in runs if len(set(run)) == len(run))
    return "".join(dict.fromkeys(kept))


def labels_in(text: str, labels: Sequence[str]) -> list[str]:
    """Label names that stand anywhere in the text, also inside longer ones."""
    return [label for label in labels if label in text]


def article_numbers(text: str) -> set[int]:
    """First number of every chunk between enumeration commas, after everything from 第 to 款 is deleted."""
    found = set()
    for chunk in text.split("、"):
        bare = _ARTICLE.sub(r"\1", _PARAGRAPH.sub("", chunk.replace("万元", "元")))
        numbers = _INTEGER.findall(in_digits(bare))
        if numbers:
            found.add(int(numbers[0]))
    return found


def term_months(text: str) -> int | None:
    """Months of the first number before 个月, else 月; else the first number before 年, times twelve."""
    digits = in_digits(text)
    for pattern in _MONTHS:
        if found := pattern.findall(digits):
            return int(found[0])
    years = _YEARS.findall(digits)
    return 12 * int(years[0]) if years else None


def amounts(text: str) -> list[float]:
    """All numbers as they stand; no unit is read."""
    return [float(number) for number in _DECIMAL.findall(text)]


def slots(text: str, names: Sequence[str]) -> dict[str, str]:
    """`name:value` pairs: the value ends at a line break or a blank, the last mention wins, 无 is no value."""
    found: dict[str, str] = {}
    for name in names:
        for match in re.finditer(re.escape(name), text):
            if match.end() + SLOT_TAIL > len(text) or text[match.end()] not in ":：":
                continue
            value = re.split(r"[\n ]", text[match.end() + 1 :].lstrip())[0]
            if value not in NO_ANSWER:
                found[name] = value
    return found


@lru_cache(maxsize=16_384)
def in_digits(text: str) -> str:
    """Chinese numerals as digits, as `cn2an.transform` writes them; text that it cannot read stays as it is."""
    import cn2an

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The package warns of every numeral that it leaves alone.
        try:
            return str(cn2an.transform(text, "cn2an"))
        except (ValueError, TypeError, KeyError, IndexError):
            return text
