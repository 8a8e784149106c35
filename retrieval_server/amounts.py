"""Numbers as courts write them: digits, Chinese and capital numerals, 万, full-width forms, terms of imprisonment.

    parse_number("壹仟") == 1000      parse_number("1.5万") == 15000      parse_number("三千五") == 3500

`parse_number` and the pattern sources below expect text that went through `normalise` (full-width digits folded,
thousands commas removed).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

DAYS_PER_MONTH = 30
DAYS_PER_YEAR = 360

_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {c: i for i, c in enumerate("〇壹贰叁肆伍陆柒捌玖")}
_DIGITS |= {"两": 2, "貳": 2, "弍": 2, "參": 3, "叄": 3, "陸": 6, "○": 0, "O": 0}
_SMALL_UNITS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_LARGE_UNITS = {"万": 10_000, "萬": 10_000, "亿": 100_000_000, "億": 100_000_000}

_DIGIT_CHARS = "".join(c for c in _DIGITS if c != "O")
NUMERAL = rf"[\d.{_DIGIT_CHARS}{''.join(_SMALL_UNITS)}{''.join(_LARGE_UNITS)}]+"
"""Pattern of one number in any script; `parse_number` decides whether it is a readable one."""
_TERM_NUMERAL = r"[\d一二三四五六七八九十两壹贰叁肆伍陆柒捌玖拾]+"
_AND = "[零又另〇○0及和]{0,2}"
_TOKEN = re.compile(r"\d+(?:\.\d+)?|.")
_THOUSANDS = re.compile(r"(?<=\d)[,' ](?=\d{3}(?!\d))")


def term_pattern(prefix: str) -> str:
    """Pattern of a term such as 三年零六个月 or 一个月十天, its group names prefixed; it also matches nothing."""
    return (
        rf"(?:(?P<{prefix}years>{_TERM_NUMERAL})年(?P<{prefix}half>半(?!个))?|(?P<{prefix}half_year>半年))?"
        rf"(?:{_AND}(?P<{prefix}months>{_TERM_NUMERAL})(?:个月|个|月))?"
        rf"(?:月?{_AND}(?P<{prefix}days>{_TERM_NUMERAL})[天日])?"
    )


def normalise(text: str) -> str:
    """Fold full-width forms (NFKC), drop thousands separators and blanks; line breaks stay, as `\\n`.

    A blank between two digits or before an item number is kept, because it separates: `罚金5000 2、被告人`.
    """
    folded = unicodedata.normalize("NFKC", text).replace("\r\n", "\n").replace("\r", "\n")
    folded = _THOUSANDS.sub("", folded)
    folded = re.sub(r"(?<=\d)[ \t]+(?=\d)|[ \t]+(?=[一二三四五六七八九十]{1,3}、)", "\n", folded)
    return re.sub(r"[^\S\n]+", "", folded)


def parse_number(text: str) -> float | None:
    """The value of a number in digits, Chinese or capital numerals, or mixed (3万5千); None when it is not one.

    A last digit without its unit takes the next lower unit, as in speech: 一万五 is 15,000.
    """
    text = text.strip(".,")
    if not text or not re.fullmatch(NUMERAL, text):
        return None
    if all(c in _DIGITS for c in text) and len(text) > 1:
        return float("".join(str(_DIGITS[c]) for c in text))
    return _sum_of_sections(_TOKEN.findall(text))


def _sum_of_sections(tokens: list[str]) -> float | None:
    """Add up 亿, 万 and unit sections; None for a digit without a place, such as 二三十."""
    total = section = 0.0
    digit: float | None = None
    last_unit, after_zero = 1, False
    for token in tokens:
        if token in _SMALL_UNITS:
            last_unit = _SMALL_UNITS[token]
            section += (1.0 if digit is None else digit) * last_unit
            digit, after_zero = None, False
        elif token in _LARGE_UNITS:
            last_unit = _LARGE_UNITS[token]
            total = (
                (total + section + (digit or 0.0)) * last_unit
                if last_unit > 10_000
                else total + (section + (digit or 0.0)) * last_unit
            )
            section, digit, after_zero = 0.0, None, False
        elif digit is not None or token == ".":
            return None
        elif _DIGITS.get(token) == 0:
            after_zero = True
        else:
            digit = float(_DIGITS[token]) if token in _DIGITS else float(token)
    if digit is not None:
        spoken = last_unit > 1 and not after_zero and tokens[-1] in _DIGITS and last_unit != 10
        section += digit * (last_unit / 10 if spoken else 1)
    return total + section


def term_days(groups: dict[str, str | Any], prefix: str) -> tuple[int, int] | None:
    """(months, days) of a match of `term_pattern`; None where the term is empty or a number cannot be read."""
    found = {k: groups.get(prefix + k) for k in ("years", "half", "half_year", "months", "days")}
    if not any(found.values()):
        return None
    numbers = {k: parse_number(found[k] or "零") for k in ("years", "months", "days")}
    if any(v is None for v in numbers.values()):
        return None
    years, months, days = (int(numbers[k] or 0) for k in ("years", "months", "days"))
    return 12 * years + months + 6 * bool(found["half"] or found["half_year"]), days
