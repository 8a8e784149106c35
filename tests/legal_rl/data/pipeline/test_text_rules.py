"""Rules over texts: what they ask, what they must not ask, and that the teacher's reading gives the rule's answer."""

from __future__ import annotations

import pytest

from envs.types import Question
from legal_rl.data.pipeline.leakage import find_leak
from legal_rl.data.pipeline.record_teacher import PLAYS
from legal_rl.data.pipeline.text_rules import CONFUSED, EVENTS, TEXT_RULES, events_of
from legal_rl.data.pipeline.values import find_values
from legal_rl.data.readers.sources import SourceText

FACTS = "2019年3月5日，被告人赵某甲驾驶轿车撞伤行人后逃逸，次日主动投案，如实供述，并赔偿被害人损失取得谅解。"


def judgment(text: str = FACTS) -> SourceText:
    facts = f"公诉机关指控：{text}"
    return SourceText("g-1", "judgment", f"{facts}\n依照刑法判决。", metadata={"facts": facts})


def statute(text: str) -> SourceText:
    return SourceText("l-1", "statute", text, metadata={"law": "试行法", "label": "第五条"})


def test_events_come_in_the_order_of_the_text() -> None:
    assert list(events_of(FACTS)) == ["逃逸", "投案", "供述", "赔偿", "谅解"]
    assert events_of("天气晴朗。") == {}
    asked = TEXT_RULES["event_detection"](judgment())
    assert asked is not None and asked["answer"] == "逃逸、投案、供述、赔偿、谅解"
    assert set(asked["answer"].split("、")) <= set(EVENTS)
    assert TEXT_RULES["trigger_extraction"](judgment())["answer"] == "逃逸、主动投案、如实供述、赔偿、谅解"


def test_a_wrong_word_is_put_right() -> None:
    asked = TEXT_RULES["document_correction"](judgment())
    assert asked["question"] != asked["answer"] and asked["answer"] == f"公诉机关指控：{FACTS}"
    assert len(asked["question"]) == len(asked["answer"])
    assert TEXT_RULES["document_correction"](judgment("短句。")) is None
    assert all(right != wrong for right, wrong in CONFUSED) and len({wrong for _, wrong in CONFUSED}) == len(CONFUSED)


def test_a_day_is_asked_only_where_there_is_one() -> None:
    assert TEXT_RULES["reading_comprehension"](judgment())["answer"] == "2019年3月5日"
    assert TEXT_RULES["reading_comprehension"](judgment(FACTS + "2020年1月1日抓获。")) is None


@pytest.mark.parametrize(
    ("text", "times", "least"),
    [
        ("没收违法所得，并处违法所得一倍以上五倍以下罚款。", 5, 0),
        ("没收违法所得；违法所得五十万元以上的，并处违法所得二倍以上十倍以下的罚款。", 10, 500_000),
        ("处违法所得一倍以上三倍以下罚款，没有违法所得或者违法所得不足五万元的，处五十万元以下罚款。", 3, 50_000),
    ],
)
def test_a_fine_is_computed_for_gains_to_which_the_multiple_applies(text: str, times: int, least: int) -> None:
    asked = TEXT_RULES["legal_calculation"](statute(text))
    gains = next(value.key for value in find_values(asked["question"]) if value.kind == "amount")
    assert gains > least and asked["answer"] == f"{gains * times:.0f}元"


def test_two_multiples_are_too_many() -> None:
    text = "并处违法所得一倍以上五倍以下罚款；情节严重的，并处违法所得五倍以上十倍以下罚款。"
    assert TEXT_RULES["legal_calculation"](statute(text)) is None


@pytest.mark.parametrize("task", ["event_detection", "trigger_extraction", "document_correction", "plaintiff_opinion"])
def test_what_the_text_tells_the_teacher_reads_without_the_answer(task: str) -> None:
    asked = TEXT_RULES[task](judgment())
    question = Question("q", f"任务说明。\n{asked['question']}", answer="", grader="exact", family=task, split="train")
    assert PLAYS[task].searches(question) == [] and PLAYS[task].read(question, ()) == asked["answer"]


def test_export_controls_are_no_penalty() -> None:
    assert find_leak("《出口管制法》第十三条写了什么？", "国家出口管制管理部门综合考虑下列因素") is None
    assert find_leak("被告人被判处管制，刑罚种类是？", "管制") is not None
