"""Graders of final answers: one name, one pure function (answer, reference) -> [0, 1]; shared with the benchmarks.

grade("choice", "选 B。", "B") == 1.0
grade("prison_term", "一年", "刑期：12个月") == 1.0
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

from retrieval_server.amounts import NUMERAL, parse_number, term_days, term_pattern
from retrieval_server.amounts import normalise as fold_amounts
from retrieval_server.citations import resolve_citations
from rewards.errors import RewardConfigError
from rewards.text import items, normalise, words

Grader = Callable[[str, str], float]

LOG_TERM_SCALE = math.log(216)
"""LawBench's normaliser of the log-distance: a term of 216 months off by everything."""
AMOUNT_TOLERANCE = 0.01
"""Relative difference up to which two amounts are one."""
MAX_TERM_YEARS = 30
MAX_ROUGE_WORDS = 2_000

_LETTER = re.compile(r"(?<![A-Z])([A-H])(?![A-Z])")
_LETTERS = re.compile(r"(?<![A-Z])([A-H](?:[\s、,，和及]*[A-H])*)(?![A-Z])")
_STATED = re.compile(r"(?:答案|选项?|应选|故选)(?:是|为)?[:：]?\s*([A-H])(?![A-Z])")
_TERM = re.compile(term_pattern("t_"))
_AMOUNT = re.compile(rf"({NUMERAL})\s*(?:元|块)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[万亿])?|" + NUMERAL)
_ABSOLUTE = (("死缓", -3), ("死刑缓期", -3), ("死刑,缓期", -3), ("死刑", -2), ("无期", -1))


def grade(name: str, answer: str, reference: str) -> float:
    """Compare an answer with the reference answer.

    Args:
        name: a key of `GRADERS`.
        answer: the policy's answer; an empty one is always 0.
        reference: the reference answer.

    Raises:
        RewardConfigError: no grader of this name.
    """
    grader = GRADERS.get(name)
    if grader is None:
        raise RewardConfigError(f"unknown grader {name!r}; known: {', '.join(sorted(GRADERS))}")
    if not answer.strip():
        return 0.0
    return min(max(grader(answer, reference), 0.0), 1.0)


def exact(answer: str, reference: str) -> float:
    """1 for the same normalised text."""
    return float(normalise(answer) == normalise(reference))


def contains(answer: str, reference: str) -> float:
    """1 when the normalised reference stands in the answer."""
    return float(bool(normalise(reference)) and normalise(reference) in normalise(answer))


def choice(answer: str, reference: str) -> float:
    """1 for the reference's option letter and no other."""
    picked = _single_letter(answer)
    return float(picked is not None and picked == _single_letter(reference))


def multi_choice(answer: str, reference: str) -> float:
    """1 for exactly the reference's set of option letters, as the bar examination marks it."""
    picked = _letter_set(answer)
    return float(bool(picked) and picked == _letter_set(reference))


def set_f1(answer: str, reference: str) -> float:
    """F1 of two lists without order, such as charges or causes of action."""
    return f1(items(answer), items(reference))


def articles(answer: str, reference: str) -> float:
    """F1 of the cited articles, law and number; a number without its law does not match one with it."""
    return f1(_cited(answer), _cited(reference))


def prison_term(answer: str, reference: str) -> float:
    """Log-distance of two prison terms in months, as LawBench scores it; life and death must be named as such."""
    said, meant = _months(answer), _months(reference)
    if said is None or meant is None:
        return 0.0
    if said < 0 or meant < 0:
        return float(said == meant)
    return 1.0 - abs(math.log(said + 1) - math.log(meant + 1)) / LOG_TERM_SCALE


def amount(answer: str, reference: str) -> float:
    """1 for an amount of money within one per cent of the reference's."""
    said, meant = _yuan(answer), _yuan(reference)
    if said is None or meant is None:
        return 0.0
    return float(abs(said - meant) <= AMOUNT_TOLERANCE * abs(meant) + 1e-9)


def rouge_l(answer: str, reference: str) -> float:
    """ROUGE-L F1 over segmented words (rouge-chinese); 1 for equal texts."""
    from rouge_chinese import Rouge

    said, meant = words(answer)[:MAX_ROUGE_WORDS], words(reference)[:MAX_ROUGE_WORDS]
    if not said or not meant:
        return 0.0
    # The package splits sentences at 。 and refuses a text that has nothing else.
    if not any(word.strip("。") for word in said) or not any(word.strip("。") for word in meant):
        return float(said == meant)
    scores: Any = Rouge(metrics=["rouge-l"]).get_scores(" ".join(said), " ".join(meant))
    return harmonic(scores[0]["rouge-l"]["p"], scores[0]["rouge-l"]["r"])


def span_f1(answer: str, reference: str) -> float:
    """F1 over the characters of the normalised texts, repeats counted."""
    said, meant = Counter(normalise(answer)), Counter(normalise(reference))
    shared = sum((said & meant).values())
    return harmonic(shared / max(said.total(), 1), shared / max(meant.total(), 1))


GRADERS: dict[str, Grader] = {
    "exact": exact,
    "contains": contains,
    "choice": choice,
    "multi_choice": multi_choice,
    "set_f1": set_f1,
    "articles": articles,
    "prison_term": prison_term,
    "amount": amount,
    "rouge_l": rouge_l,
    "span_f1": span_f1,
    "judge": rouge_l,
}
"""`judge` marks open answers: the reward judge scores them where one is configured, else ROUGE-L does."""


def harmonic(precision: float, recall: float) -> float:
    """F1 of a precision and a recall."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def f1(said: frozenset, meant: frozenset) -> float:
    """F1 of two sets; two empty sets agree."""
    if not said and not meant:
        return 1.0
    shared = len(said & meant)
    return harmonic(shared / max(len(said), 1), shared / max(len(meant), 1))


def _upper(text: str) -> str:
    return unicodedata.normalize("NFKC", text).upper()


def _single_letter(text: str) -> str | None:
    text = _upper(text)
    found = set(_LETTER.findall(text))
    if len(found) == 1:
        return found.pop()
    stated = set(_STATED.findall(text))
    return stated.pop() if len(stated) == 1 else None


def _letter_set(text: str) -> frozenset[str]:
    return frozenset(ch for run in _LETTERS.findall(_upper(text)) for ch in run if "A" <= ch <= "H")


def _cited(text: str) -> frozenset[tuple[str, int, int]]:
    return frozenset((c.law_key, c.article_no, c.article_sub) for c in resolve_citations(text))


def _months(text: str) -> float | None:
    """Months of the first prison term in the text; negative codes for life and death; None without any."""
    folded = fold_amounts(text)
    for word, code in _ABSOLUTE:
        if word in folded:
            return code
    for match in _TERM.finditer(folded):
        term = term_days(match.groupdict(), "t_")
        if term and term[0] <= 12 * MAX_TERM_YEARS:  # longer is a date such as 2020年
            return term[0] + term[1] / 30
    bare = normalise(text)
    return float(bare) if bare.isdecimal() else None


def _yuan(text: str) -> float | None:
    """The last amount with its unit, else the only number."""
    folded = fold_amounts(text)
    stated = [parse_number(found) for found in _AMOUNT.findall(folded)]
    values = [value for value in stated if value is not None]
    if values:
        return values[-1]
    bare = [value for found in _NUMBER.findall(folded) if (value := parse_number(found)) is not None]
    return bare[0] if len(bare) == 1 else None
