"""What the teacher reads out of briefs."""

from __future__ import annotations

from envs.types import Question
from legal_rl.data.families.compare import sentence_parts
from legal_rl.data.playbooks import PLAYBOOKS, severity_of
from legal_rl.data.reading import Unit


def test_a_suspended_sentence_counts_a_fifth() -> None:
    assert severity_of(["有期徒刑二年六个月"]) == 900.0
    assert severity_of(["有期徒刑二年六个月（缓刑）"]) == 180.0


def test_sentence_parts_need_a_main_penalty() -> None:
    assert sentence_parts("甲市中级人民法院 盗窃罪 有期徒刑八个月 罚金2000元") == ["有期徒刑八个月", "罚金2000元"]
    assert sentence_parts("甲市中级人民法院 盗窃罪 罚金2000元") == []


def test_the_served_sentence_is_heavier_than_the_suspended_one() -> None:
    facts = {"court_a": "甲法院", "court_b": "乙法院", "charge": "盗窃罪", "kind": "compare_precedents"}
    question = Question("q", "甲法院和乙法院谁判得更重？", "甲法院", family="compare_precedents", metadata=facts)
    units = [
        Unit(1, "", "甲法院 盗窃罪", "基层法院", "甲法院 盗窃罪 有期徒刑二年六个月 罚金3.8万元"),
        Unit(2, "", "乙法院 盗窃罪", "基层法院", "乙法院 盗窃罪 有期徒刑二年六个月（缓刑） 罚金4万元"),
    ]
    read = PLAYBOOKS["compare_precedents"].read
    finding = read(question, units)
    assert finding is not None and finding.answer == "甲法院"
    assert read(question, units[:1]) is None
