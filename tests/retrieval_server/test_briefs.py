"""Extractive briefs of precedents."""

from __future__ import annotations

import pytest

from retrieval_server.briefs import brief_case, compact_brief, describe_sentence, key_facts, outcome_text
from retrieval_server.generated_cases import iter_generated_cases
from retrieval_server.severity import parse_sentence
from retrieval_server.types import Case, CourtLevel

FACTS = (
    "公诉机关指控：2019年3月2日，被告人王某至云州市某商场，窃得被害人李某手机一部，价值人民币4200元。"
    "被告人王某主动到公安机关投案。上述事实，有证人证言等证据证实。"
)
CASE = Case(
    id="c",
    court="云州市中级人民法院",
    court_level=CourtLevel.INTERMEDIATE,
    charges=("盗窃罪",),
    facts=FACTS,
    result="被告人王某犯盗窃罪，判处有期徒刑八个月，并处罚金人民币二千元。",
    psi=306.0249,
)


def test_brief() -> None:
    assert brief_case(CASE) == (
        "云州市中级人民法院（中级） 盗窃罪｜事实：2019年3月2日，被告人王某至云州市某商场，窃得被害人李某手机一部，"
        "价值人民币4200元。被告人王某主动到公安机关投案｜判决：有期徒刑八个月、罚金2000元｜PSI 306.0"
    )
    assert compact_brief(CASE) == "云州市中级人民法院 盗窃罪 有期徒刑八个月 罚金2000元"


def test_brief_shows_the_facts_closest_to_the_query() -> None:
    assert "主动到公安机关投案" in brief_case(CASE, max_chars=90, query="自首 主动投案")
    assert "价值人民币4200元" in brief_case(CASE, max_chars=105, query="盗窃手机价值")


def test_brief_without_result_or_court() -> None:
    bare = Case(id="c", court="", court_level=CourtLevel.UNKNOWN, facts="无")
    assert brief_case(bare) == "未知法院｜事实：无｜判决：来源没有判决结果"


@pytest.mark.parametrize("max_chars", [10, 40, 80, 150, 300])
def test_briefs_keep_their_length_and_are_the_same_each_time(max_chars: int) -> None:
    for case in iter_generated_cases(count=60):
        brief = brief_case(case, max_chars=max_chars)
        assert len(brief) <= max_chars
        assert brief == brief_case(case, max_chars=max_chars)
        assert "上述事实" not in brief and "程序生成" not in brief


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("有期徒刑三年六个月，缓刑四年，并处罚金人民币三万元", "有期徒刑三年六个月（缓刑）、罚金3万元"),
        (
            "死刑，缓期二年执行，剥夺政治权利终身，并处没收个人全部财产",
            "死刑缓期二年执行、剥夺政治权利终身、没收个人全部财产",
        ),
        ("拘役一个月十天", "拘役一个月十天"),
        (
            "判处有期徒刑十五年，剥夺政治权利二年，没收财产5000元，驱逐出境",
            "有期徒刑十五年、剥夺政治权利二年、没收财产5000元、驱逐出境",
        ),
        ("免予刑事处罚", "免予刑事处罚"),
        ("有待查明", "判决结果无法识别"),
        ("", "来源没有判决结果"),
    ],
)
def test_outcome_in_standard_words(result: str, text: str) -> None:
    assert outcome_text(result) == text


def test_outcome_of_several_defendants_is_heaviest_first() -> None:
    result = (
        "一、被告人甲某犯盗窃罪，判处拘役三个月。二、被告人乙某犯盗窃罪，判处有期徒刑一年。"
        "三、被告人丙某犯盗窃罪，判处管制一年。"
    )
    assert outcome_text(result) == "乙某有期徒刑一年；丙某管制一年等三人"
    assert describe_sentence(parse_sentence(result)[0]) == "拘役三个月"


def test_long_facts_lose_their_middle_not_the_amount() -> None:
    facts = "2020年1月1日，被告人王某" + "在某地，" * 40 + "骗得共计人民币50万元。"
    short = key_facts(facts, 60)
    assert len(short) <= 60
    assert short.startswith("2020年1月1日") and short.endswith("骗得共计人民币50万元")
