"""ROUGE-L and character F1 against hand-worked numbers, the packages, and a plain recursion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_chinese import Rouge

from legal_rl.evaluation.benchmarks.overlap import (
    PLACEHOLDER,
    character_f1,
    jieba_words,
    lawbench_rouge,
    lexeval_rouge,
    plain_rouge,
)
from legal_rl.evaluation.benchmarks.subsequence import lcs_length, lcs_trace

WORDS = st.lists(st.sampled_from("甲乙丙丁"), max_size=9)


def slow_length(a: list[str], b: list[str]) -> int:
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return 1 + slow_length(a[:-1], b[:-1])
    return max(slow_length(a[:-1], b), slow_length(a, b[:-1]))


@given(WORDS, WORDS)
def test_the_subsequence_is_a_longest_one(a: list[str], b: list[str]) -> None:
    common, steps = lcs_trace(a, b)
    assert lcs_length(a, b) == len(common) == slow_length(a, b)
    assert steps <= len(a) + len(b)
    rest = iter(a)
    assert all(word in rest for word in common)


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("被告应当赔偿。\n原告胜诉。", "被告应当赔偿原告。"),
        ("一、二。\n\n\n三！四？五", "一二三四五。"),
        ("根据《民法典》第五百七十七条，违约方应当承担责任", "违约方承担继续履行等责任。"),
    ],
)
def test_lawbench_equals_the_package(prediction: str, reference: str) -> None:
    said, meant = " ".join(jieba_words(prediction)), " ".join(jieba_words(reference))
    scores = Rouge(metrics=["rouge-l"]).get_scores(said, meant)
    assert lawbench_rouge(prediction, reference) == pytest.approx(scores[0]["rouge-l"]["f"], abs=1e-12)


def test_blank_predictions_become_one_word() -> None:
    assert lawbench_rouge(" \n", PLACEHOLDER) == 0.0  # the reference is segmented, the placeholder is not
    assert plain_rouge("", "甲") == 0.0 and plain_rouge("甲", "甲") == 1.0


def test_lexeval_compares_distinct_words() -> None:
    assert lexeval_rouge("被告、被告！", "被告") == (pytest.approx(1.0, abs=1e-7), False)
    long = "".join(f"第{i}项" for i in range(600))
    assert lexeval_rouge(long, long)[1]


def test_character_f1_counts_repeats() -> None:
    assert character_f1("甲甲乙", "甲乙丙丙") == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert character_f1("。", "，") == 1.0 and character_f1("", "甲") == 0.0
