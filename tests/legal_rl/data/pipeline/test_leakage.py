"""Leakage: hand-labelled questions, two layers by hand, and laws that hold for any text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.data.pipeline.leakage import Leak, find_leak, suppress_leaks
from legal_rl.data.pipeline.values import find_values

LABELLED = Path(__file__).parent / "labelled"


def labelled(name: str = "leakage.tsv") -> list[tuple[bool, str, str]]:
    lines = (LABELLED / name).read_text(encoding="utf-8").splitlines()
    return [(label == "1", question, answer) for label, question, answer in (line.split("\t") for line in lines)]


@pytest.mark.parametrize(("name", "least", "floor"), [("leakage.tsv", 150, 0.95), ("leakage_held_out.tsv", 24, 0.85)])
def test_precision_and_recall_on_the_labelled_sets(name: str, least: int, floor: float) -> None:
    """No rule was changed for a case of the held-out set."""
    cases = labelled(name)
    assert len(cases) >= least and len({(q, a) for _, q, a in cases}) == len(cases)
    outcome = [(leaks, find_leak(question, answer) is not None) for leaks, question, answer in cases]
    right = sum(truth and said for truth, said in outcome)
    wrong = [case[1:] for case, (truth, said) in zip(cases, outcome, strict=True) if truth != said]
    precision, recall = right / sum(said for _, said in outcome), right / sum(truth for truth, _ in outcome)
    assert precision >= floor and recall >= floor, (precision, recall, wrong)


def kinds(text: str) -> list[tuple[str, object]]:
    return [(value.kind, value.key) for value in find_values(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("判处有期徒刑三年六个月", [("term", ("有期徒刑", 42.0))]),
        ("三年以上十年以下有期徒刑", [("term", ("有期徒刑", 36.0, 120.0))]),
        ("缓刑四年，并处罚金１.５万元", [("probation", 48.0), ("fine", 15000.0)]),
        ("死刑，缓期二年执行", [("penalty", "死缓")]),
        ("死刑并缓期两年执行", [("penalty", "死缓")]),
        ("一年半有期徒刑，试用期半年", [("term", ("有期徒刑", 18.0)), ("duration", 6.0)]),
        ("下半年起计算", []),
        ("刑法第234条、第67条", [("article", ("刑法", 234, 0)), ("article", ("刑法", 67, 0))]),
        ("2016年3月28日盗走3,723元", [("date", (2016, 3, 28)), ("amount", 3723.0)]),
        ("刑法第133条之一", [("article", ("刑法", 133, 1))]),
        ("六十日内", [("duration", 2.0)]),
        ("百分之三十与30%", [("percent", 30.0), ("percent", 30.0)]),
        ("张某与李某甲", [("person", "张某"), ("person", "李某甲")]),
    ],
)
def test_values_by_hand(text: str, expected: list[tuple[str, object]]) -> None:
    assert kinds(text) == expected


def test_options_are_not_the_question() -> None:
    options = ("抢劫罪", "盗窃罪", "诈骗罪", "抢夺罪")
    assert find_leak("甲窃取手机，应定何罪？", "B", options) is None
    assert find_leak("甲犯盗窃罪，应定何罪？", "B", options) == Leak("charge", "盗窃罪")


def test_a_stream_keeps_its_order() -> None:
    rows = [
        {"question": "罚金5000元，多少？", "answer": "罚金五千元"},
        {"question": "何谓要约？", "answer": "意思表示"},
    ]
    assert [leak and leak.kind for _, leak in suppress_leaks(rows)] == ["fine", None]


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_text_is_read(question: str, answer: str) -> None:
    find_leak(question, answer)


@given(st.integers(1, 15), st.sampled_from(["有期徒刑", "拘役", "管制"]))
def test_a_term_in_any_script_leaks(years: int, kind: str) -> None:
    from retrieval_server.numerals import chinese_number

    spelled = f"{kind}{chinese_number(years)}年"
    assert find_leak(f"被告人被判处{kind}{years}年，主刑为何？", spelled) is not None
    assert find_leak(f"被告人被判处{kind}{years + 1}年，主刑为何？", spelled) is None
