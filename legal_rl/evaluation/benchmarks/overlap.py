"""Overlap measures of two texts: ROUGE-L as each benchmark computes it, and F1 over characters.

Both benchmarks segment with jieba; the words decide the score, so the exact segmenter is used and not a fast relative.
"""

from __future__ import annotations

import logging
import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from legal_rl.evaluation.benchmarks.subsequence import lcs_length, lcs_trace

ROUGE_EPSILON = 1e-8
PLACEHOLDER = "无内容"
"""LawBench's stand-in for a blank prediction; one word."""
RECURSION_STEPS = 985
"""LexEval traces the subsequence back by recursion: Python's limit stops texts with more steps than about this."""

CHINESE_PUNCTUATION = (
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》"
    "「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."
)
"""What LexEval removes before it segments; the opening 《 and the middle dot are not in it."""
_DROPPED = str.maketrans("", "", CHINESE_PUNCTUATION + string.punctuation)
_BLANKED = dict.fromkeys(map(ord, CHINESE_PUNCTUATION + string.punctuation + "《·"), " ")


@lru_cache(maxsize=4_096)
def jieba_words(text: str) -> tuple[str, ...]:
    """Words of jieba's default mode, blanks and line breaks included."""
    return tuple(_jieba().lcut(text))


@lru_cache(maxsize=1)
def _jieba() -> Any:
    import jieba

    jieba.setLogLevel(logging.WARNING)
    return jieba


@lru_cache(maxsize=1)
def _rouge() -> Any:
    from rouge_chinese import Rouge

    return Rouge(metrics=["rouge-l"])


def harmonic(precision: float, recall: float, epsilon: float = 0.0) -> float:
    """F1 with the benchmarks' guard against zero; 0 when both are 0."""
    total = precision + recall + epsilon
    return 2.0 * (precision * recall / total) if total else 0.0


def lawbench_rouge(prediction: str, reference: str) -> float:
    """ROUGE-L F as LawBench takes it from `rouge-chinese`; equal texts give a little less than 1.

    Raises:
        ValueError: the reference is blank.
    """
    spaced = " ".join(jieba_words(prediction))
    said = _package_words(spaced if spaced.strip() else PLACEHOLDER)
    meant = _package_words(" ".join(jieba_words(reference)))
    if not meant:
        raise ValueError("the reference is empty")
    shared = lcs_length(meant, said)
    return harmonic(shared / len(said), shared / len(meant), ROUGE_EPSILON)


def _package_words(spaced: str) -> list[str]:
    """The words that the package counts: a blank line is one more, empty, word."""
    sentences = [" ".join(part.split()) for part in _rouge().cut_sent(spaced) if part]
    return [word for sentence in sentences for word in sentence.split(" ")]


def lexeval_rouge(prediction: str, reference: str) -> tuple[float, bool]:
    """ROUGE-L F as LexEval computes it, without the recursion limit, and whether that limit would have made it 0.

    Distinct words are compared: those of the traced subsequence with those of either text.
    """
    said, meant = _lexeval_words(prediction), _lexeval_words(reference)
    if not said or not meant:
        return 0.0, False
    common, steps = lcs_trace(meant, said)
    shared = len(set(common))
    score = harmonic(shared / len(set(said)), shared / len(set(meant)), ROUGE_EPSILON)
    return score, steps > RECURSION_STEPS


def _lexeval_words(text: str) -> list[str]:
    cleaned = "".join(text.lower().translate(_DROPPED).split())
    return list(jieba_words(cleaned))


def plain_rouge(prediction: str, reference: str, drop_signs: bool = False) -> float:
    """ROUGE-L F1 without either benchmark's slips: blanks are no words, repeats count, equal texts give 1.

    Args:
        drop_signs: leave out case and punctuation, as LexEval does.
    """
    if drop_signs:
        prediction, reference = (text.lower().translate(_BLANKED) for text in (prediction, reference))
    said = [word for word in jieba_words(prediction) if word.strip()]
    meant = [word for word in jieba_words(reference) if word.strip()]
    if not said or not meant:
        return float(said == meant)
    shared = lcs_length(meant, said)
    return harmonic(shared / len(said), shared / len(meant))


def character_f1(prediction: str, reference: str) -> float:
    """F1 over the bag of letters and digits, lower-cased; 1 when both have none, 0 when one has none."""
    said, meant = _kept(prediction), _kept(reference)
    if not said or not meant:
        return float(not said and not meant)
    shared = sum((Counter(said) & Counter(meant)).values())
    return harmonic(shared / len(said), shared / len(meant))


def _kept(text: str) -> list[str]:
    return [ch for ch in text.lower() if ch.isdigit() or ch.isalpha()]


def aligned_f1(prediction: Sequence[str], reference: Sequence[str], epsilon: float = 1e-10) -> float:
    """F1 of two lists paired by position, each pair worth its character F1."""
    total = sum(character_f1(a, b) for a, b in zip(prediction, reference, strict=False))
    if not prediction or not reference:
        return 0.0
    return harmonic(total / len(prediction), total / len(reference), epsilon)


def split_items(text: str) -> list[str]:
    """Items of a list, separated by either semicolon, the enumeration comma, a comma or a line break."""
    return [item.strip() for item in re.split(r"[;；、,，\n]", text) if item.strip()]
