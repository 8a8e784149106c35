"""Distractors: hand-labelled candidates, options by hand, and the spread of the answer's letter."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.data.pipeline.distractors import (
    add_choices,
    answer_index,
    kind_of,
    main_value,
    make_choices,
    months_text,
    reject,
)

LABELLED = Path(__file__).parent / "labelled"
JUDGMENT = (
    "被告人张某犯抢劫罪，判处有期徒刑六年，罚金人民币一万元；被告人李某判处有期徒刑三年，罚金五千元；"
    "被告人王某判处有期徒刑二年；被告人赵某判处有期徒刑一年六个月，罚金二千元。"
)


def labelled(name: str) -> list[tuple[bool, str, str, str]]:
    rows = [line.split("\t") for line in (LABELLED / name).read_text(encoding="utf-8").splitlines()]
    return [(label == "1", source, answer, candidate) for label, source, answer, candidate in rows]


@pytest.mark.parametrize(
    ("name", "least", "floor"), [("distractors.tsv", 150, 0.95), ("distractors_held_out.tsv", 24, 0.85)]
)
def test_precision_and_recall_on_the_labelled_sets(name: str, least: int, floor: float) -> None:
    """Positive = a candidate that may be used; no rule was changed for a case of the held-out set."""
    cases = labelled(name)
    assert len(cases) >= least and len({case[1:] for case in cases}) == len(cases)
    outcome = [(truth, reject(candidate, answer, source)) for truth, source, answer, candidate in cases]
    right = sum(truth and not why for truth, why in outcome)
    wrong = [(*case, why) for case, (truth, why) in zip(cases, outcome, strict=True) if truth == bool(why)]
    precision, recall = right / sum(not why for _, why in outcome), right / sum(truth for truth, _ in outcome)
    assert precision >= floor and recall >= floor, (precision, recall, wrong)


def test_values_are_swapped_between_people() -> None:
    made = make_choices(JUDGMENT, "有期徒刑六年", "x", 0)
    assert made is not None
    assert set(made.options) == {"有期徒刑六年", "有期徒刑三年", "有期徒刑二年", "有期徒刑一年六个月"}
    assert made.options[made.index] == "有期徒刑六年" and made.letter == "ABCD"[made.index]
    assert sorted(made.origins) == ["answer", "swap", "swap", "swap"]


def test_labels_come_from_the_answers_group() -> None:
    made = make_choices("张某在共同犯罪中起次要作用。", "从犯", "x", 3)
    assert made is not None and set(made.options) == {"从犯", "主犯", "胁从犯", "教唆犯"}


def test_too_few_distractors_give_no_options() -> None:
    assert make_choices("没有任何数值的材料。", "由国家档案馆保管", "x", 0) is None
    assert make_choices("张某与李某的财产。", "张某", "x", 0) is None


@pytest.mark.parametrize("seed", range(5))
def test_letters_are_spread_within_two_per_cent(seed: int) -> None:
    letters = Counter(answer_index(n, 4, seed) for n in range(1_000))
    assert all(abs(letters[i] / 1_000 - 0.25) <= 0.02 for i in range(4))


def test_letters_of_real_items_are_spread_and_not_predictable() -> None:
    rows = [
        {"id": f"q{n}", "question": "主刑？", "source_text": JUDGMENT, "answer": "有期徒刑六年"} for n in range(1_000)
    ]
    made = [record for record, why in add_choices(rows) if not why]
    letters = [record["answer"] for record in made]
    assert len(made) == 1_000
    assert all(abs(letters.count(letter) / 1_000 - 0.25) <= 0.02 for letter in "ABCD")
    assert len(set(pairwise(letters))) == 16, "every letter follows every letter"
    assert all(record["choices"]["ABCD".index(record["answer"])] == "有期徒刑六年" for record in made)


def test_the_same_options_every_time() -> None:
    rows = [{"id": f"q{n}", "question": JUDGMENT, "answer": "罚金五千元"} for n in range(20)]
    assert list(add_choices(rows)) == list(add_choices(rows))
    assert len({tuple(record["choices"]) for record, _ in add_choices(rows)}) > 5


def test_amounts_are_written_out_and_neighbours_are_told_apart() -> None:
    made = make_choices("赃款共2479000元。", "2479000元", "x", 0)
    assert made is not None and "3718500元" in made.options and not any("e+" in option for option in made.options)
    options = make_choices("甲欠乙1000元，丙欠丁3000元。", "1000元", "x", 0, extra=["7000元", "9000元"])
    assert options is not None
    assert dict(zip(options.options, options.origins, strict=True)) == {
        "1000元": "answer", "3000元": "swap", "7000元": "neighbour", "9000元": "neighbour"
    }  # fmt: skip


def test_by_hand() -> None:
    assert [months_text(n) for n in (6, 12, 42)] == ["六个月", "一年", "三年六个月"]
    assert [kind_of(t) for t in ("盗窃", "从犯", "5000元", "由档案馆保管")] == [
        "charge",
        "accomplice",
        "amount",
        "text",
    ]
    value = main_value("判处有期徒刑三年")
    assert value is not None and value.key == ("有期徒刑", 36.0)
    assert main_value("判处有期徒刑三年，并处罚金五千元") is None


@given(st.text(max_size=40), st.text(max_size=20), st.integers(0, 50))
def test_options_differ_whatever_the_text(source: str, answer: str, ordinal: int) -> None:
    made = make_choices(source, answer, "k", ordinal)
    assert made is None or (len(set(made.options)) == 4 and made.options[made.index] == answer)
