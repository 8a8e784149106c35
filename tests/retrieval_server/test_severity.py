"""Punishment Severity Index: Table 8, hand-labelled results, forms of wording, and laws of the measure."""

from __future__ import annotations

import gzip
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_server.sentencing import MainPenalty
from retrieval_server.severity import case_severity, parse_sentence, punishment_severity_index

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="data folder (LEGAL_RL_DATA) is absent")


def L(amount: float) -> float:
    """Fine or forfeiture of Table 8: 20·lg(amount + 1)."""
    return 20 * math.log10(amount + 1)


# (text, value by hand; None where nothing may be read)
WORDINGS = [
    ("死刑", 100000),
    ("无期徒刑，剥夺政治权利终身", 17000),
    ("有期徒刑十五年", 5400),
    ("有期徒刑三年，缓刑四年", 216),
    ("拘役六个月，并处罚金一万元", 144 + L(10000)),
    ("管制一年", 108),
    ("驱逐出境", 1000),
    ("免予刑事处罚", 0),
    ("被告人张某犯故意杀人罪，判处死刑，缓期二年执行，剥夺政治权利终身。", 52000),
    (
        "被告人张某犯受贿罪，判处死刑，缓期二年执行，剥夺政治权利终身，并处没收个人全部财产；在其死刑缓期执"
        "行二年期满依法减为无期徒刑后，终身监禁，不得减刑、假释。",
        52200,
    ),
    (
        "被告人张某犯故意杀人罪，判处死刑，剥夺政治权利终身；犯抢劫罪，判处有期徒刑十二年，并处罚金人民币二"
        "万元；决定执行死刑，剥夺政治权利终身，并处罚金人民币二万元。",
        102000 + L(20000),
    ),
    ("被告人李某犯贩卖毒品罪，判处无期徒刑，剥夺政治权利终身，并处没收个人全部财产。", 17200),
    ("被告人李某无罪。", 0),
    (
        "一、被告人李某无罪。\n二、被告人王某犯诈骗罪，判处有期徒刑１年，并处罚金人民币壹万伍仟元整。",
        360 + L(15000),
    ),
    ("被告人A某犯盗窃罪，单处罚金人民币贰仟元。", L(2000)),
    ("被告人甲某、乙某犯赌博罪，均判处拘役三个月，并处罚金人民币三千元。", 72 + L(3000)),
    ("被告人甲某犯盗窃罪，判处有期徒刑一年半，并处罚金人民币1.2万元。", 540 + L(12000)),
    ("驳回上诉，维持原判。", None),
    ("", None),
    ("判决如下", None),
    ("被告人甲某犯盗窃罪，判处有期徒刑□年。", None),
    ("被告人甲某犯盗窃罪，判处有期徒刑一年，并处罚金人民币×万元。", None),
    ("撤销原判，发回重审。", None),
    (
        "一、驳回上诉人甲某的上诉，维持云州市人民法院（2019）云01刑初1号刑事判决第一项，即被告人乙某犯盗窃"
        "罪，判处有期徒刑三年，并处罚金人民币五千元；\n二、撤销同判决第二项，即被告人甲某犯盗窃罪，判处有期"
        "徒刑五年；\n三、上诉人甲某犯盗窃罪，判处有期徒刑二年，并处罚金人民币三千元。",
        1080 + L(5000),
    ),
    (
        "撤销云州市人民法院（2019）云01刑初1号刑事判决中对上诉人甲某的量刑部分，即判处有期徒刑五年，改判有"
        "期徒刑三年，缓刑四年。",
        216,
    ),
    (
        "撤销云州法院（2018）云刑初3号刑事判决中对被告人甲某宣告缓刑三年的执行部分；被告人甲某犯盗窃罪，判"
        "处有期徒刑六个月，与前罪判处的有期徒刑二年并罚，决定执行有期徒刑二年三个月。",
        810,
    ),
    (
        "被告人甲某犯盗窃罪，判处有期徒刑六个月，并处罚金人民币一千元；撤销云州法院（2018）刑事判决对其宣告"
        "的缓刑，与前罪判处有期徒刑一年实行并罚，决定执行有期徒刑一年三个月，并处罚金人民币一千元。",
        450 + L(1000),
    ),
    ("被告人甲某犯走私罪，判处有期徒刑三年，并处罚金人民币50,000元，附加驱逐出境。", 1080 + L(50000) + 1000),
    (
        "被告人甲某犯抢劫罪，判处有期徒刑十二年，剥夺政治权利三年，并处罚金人民币一万元（已缴纳）。",
        4320 + 300 + L(10000),
    ),
    ("被告人甲某犯抢劫罪，判处有期徒刑12年6个月，剥夺政治权利2年，罚金10000元。", 4500 + 200 + L(10000)),
    (
        "被告单位某公司犯非法经营罪，判处罚金人民币一百万元。\n二、被告人甲某犯非法经营罪，判处有期徒刑二年"
        "，缓刑二年，并处罚金人民币十万元。",
        144 + L(100000),
    ),
    (
        "被告人甲某犯盗窃罪，判处有期徒刑一年，缓刑一年，并处罚金人民币2000元。罚金人民币2000元于判决生效后"
        "三十日内缴纳。",
        72 + L(2000),
    ),
    ("对被告人甲某免予刑事处罚。", 0),
    ("宣告被告人甲某无罪。", 0),
    (
        "被告人甲某犯贪污罪，判处有期徒刑十年，并处没收个人财产人民币二十万元；犯受贿罪，判处有期徒刑六年，"
        "并处罚金人民币三十万元；数罪并罚，总和刑期有期徒刑十六年，决定执行有期徒刑十三年，并处没收个人财产"
        "人民币二十万元、罚金人民币三十万元。",
        4680 + L(200000) + L(300000),
    ),
    ("被告人甲某犯诈骗罪，判处有期徒刑三年；犯盗窃罪，判处有期徒刑一年。", None),
    ("被告人甲某犯诈骗罪，判处有期徒刑三年；犯危险驾驶罪，判处拘役二个月，并处罚金2000元。", 1080 + L(2000)),
    ("上诉人（原审被告人）甲某犯诈骗罪，判处有期徒刑三年（缓刑四年）。", 216),
    (
        "被告人甲某犯交通肇事罪，判处有期徒刑二年(刑期自判决执行之日起计算，即自2019年1月1日起至2020年12月31日止",
        720,
    ),
    (
        "1、被告人甲某犯盗窃罪，判处有期徒刑八个月，并处罚金5000\n2、被告人乙某犯盗窃罪，判处拘役四个月，并"
        "处罚金3000元",
        240 + L(5000),
    ),
    ("被告人甲某犯盗窃罪，判处有期徒刑八个月，宣告缓刑，缓刑考验期一年。", 48),
    ("被告人甲某有期徒刑三年，并处罚金一万元。", 1080 + L(10000)),
    ("被告人甲某犯掩饰、隐瞒犯罪所得、犯罪所得收益罪，判处管制六个月，并处罚金人民币1千元。", 54 + L(1000)),
    ("被告人甲某不负刑事责任，对其强制医疗。", 0),
    ("被告人甲某犯故意伤害罪，判处有期徒刑36个月。", 1080),
    ("有期徒刑三十六个月", 1080),
    ("张某被判处有期徒刑三年，缓刑四年", 216),
    (
        "被告人甲某犯盗窃罪，判处有期徒刑一年，并处罚金人民币一万元，与前罪尚未执行完毕的刑罚有期徒刑一年三"
        "个月十二天、罚金人民币三千元并罚，决定执行有期徒刑二年，并处罚金人民币一万三千元。",
        720 + L(13000),
    ),
    (
        "被告人甲某犯抢劫罪，判处有期徒刑五年，并处罚金人民币五千元;犯强奸罪，判处有期徒刑四年，合并刑期九"
        "年，决定执行有期徒刑八年，罚金五千元。",
        2880 + L(5000),
    ),
    (
        "一、被告人张某甲犯抢劫罪，判处有期徒刑三年。二、被告人于某犯抢劫罪，判处有期徒刑二年六个月。三、被"
        "告人向某某犯抢劫罪，免予刑事处罚。",
        1080,
    ),
    ("被告人甲某、乙某犯盗窃罪，分别判处有期徒刑三年、二年。", 1080),
    ("被告人甲某犯非法行医罪，判处有期徒刑十个月，并处罚金人民币叁仟圆整。", 300 + L(3000)),
    (
        "三、维持云州市法院刑事判决第三项对被告人丙某的定罪量刑部分；\n四、上诉人甲某犯诈骗罪，判处有期徒刑二年。",
        720,
    ),
    (
        "一、维持一审判决中对上诉人甲某的定罪及主刑部分，即上诉人甲某犯盗窃罪，判处有期徒刑一年；\n二、撤销"
        "一审判决中对上诉人甲某的罚金部分，即并处罚金人民币五万元；\n三、上诉人甲某犯盗窃罪，并处罚金人民币"
        "一万元。",
        360 + L(10000),
    ),
    (
        "一、维持一审判决第一项，即“一、被告人乙某犯诈骗罪，判处有期徒刑四年，并处罚金四万元”；\n二、撤销"
        "一审判决第二项，即“二、被告人甲某犯诈骗罪，判处有期徒刑九年”；\n三、上诉人甲某犯诈骗罪，判处有期"
        "徒刑三年，缓刑五年，并处罚金三万元。",
        1440 + L(40000),
    ),
    ("对罪犯甲某撤销缓刑，收监执行原判有期徒刑一年六个月。", 540),
    ("将罪犯甲某的刑罚减为有期徒刑二十二年。", 7920),
    ("对罪犯甲某减去有期徒刑六个月。", None),
    ("被告人甲某犯故意杀人罪，判处死刑，缓期二年执行，剥夺政治权利终身，限制减刑。", 52000),
    (
        "被告人甲某犯绑架罪，判处无期徒刑，剥夺政治权利终身，并处没收个人财产人民币五万元；犯盗窃罪，判处有"
        "期徒刑二年，并处罚金人民币二千元，决定执行无期徒刑，剥夺政治权利终身，并处没收个人财产人民币五万元"
        "，罚金人民币二千元。",
        17000 + L(50000) + L(2000),
    ),
    (
        "被告人甲某犯寻衅滋事罪，判处有期徒刑一年二个月；被告人乙某犯寻衅滋事罪，判处拘役五个月，缓刑六个月"
        "；被告人丙某犯寻衅滋事罪，判处管制一年六个月。",
        420,
    ),
    ("被告人甲某犯洗钱罪，判处有期徒刑二年，并处罚金人民币３万５千元。", 720 + L(35000)),
    (
        "被告人甲某犯危险驾驶罪，判处拘役一个月零五日，缓刑二个月，罚金人民币贰仟伍佰元整。",
        35 * 0.8 * 0.2 + L(2500),
    ),
    ("被告人甲某犯盗窃罪，判处有期徒刑三年以下", None),
    ("处三年以下有期徒刑、拘役或者管制，并处或者单处罚金", None),
    (
        "一、维持A市人民法院刑事判决中对上诉人甲某的定罪和主刑部分；二、撤销同判决的罚金部分；三、上诉人甲"
        "某犯盗窃罪，并处罚金人民币一万元。",
        None,
    ),
    (
        "一、维持一审判决对上诉人甲某的定罪部分及附加刑部分，即甲某犯盗窃罪，并处罚金五千元；二、撤销一审判"
        "决对上诉人甲某的主刑部分，即有期徒刑一年；三、上诉人甲某判处有期徒刑一年，缓刑一年。",
        72 + L(5000),
    ),
    (
        "甲市人民法院刑事判决书 公诉机关指控被告人甲某曾因犯盗窃罪被判处有期徒刑三年。本院认为……依照刑法"
        "第二百六十四条，判决如下：被告人甲某犯盗窃罪，判处有期徒刑八个月，并处罚金人民币二千元。如不服本判"
        "决，可在接到判决书的第二日起十日内上诉。",
        240 + L(2000),
    ),
    (
        "被告人甲某犯贩卖毒品罪，判处有期徒刑六个月，并处罚金人民币0.6万元。决定执行有期徒刑六个，并处罚金0.6万元",
        180 + L(6000),
    ),
    ("被告人甲某犯盗窃罪，判处有期徒刑 1 年 6 个月，并处罚金人民币 5 000 元。", 540 + L(5000)),
    (
        "一、撤销A法院（2019）刑初1号刑事判决第一项、第二项，即：被告人甲某犯诈骗罪，判处有期徒刑四年；被告"
        "人乙某犯诈骗罪，判处有期徒刑三年。二、上诉人甲某犯诈骗罪，判处有期徒刑三年，缓刑五年。三、上诉人乙"
        "某犯诈骗罪，判处有期徒刑二年，缓刑三年。",
        216,
    ),
    (
        "一、撤销A法院（2019）刑初1号刑事判决第二项，维持第一项，即被告人甲某犯诈骗罪，判处有期徒刑四年。二"
        "、上诉人乙某犯诈骗罪，判处有期徒刑二年。",
        1440,
    ),
    (
        "原审被告人甲某犯挪用公款罪，免予刑事处罚；犯受贿罪，判处有期徒刑三年，缓刑四年，并处罚金人民币贰拾万元。",
        216 + L(200000),
    ),
    (
        "被告人甲某犯故意伤害罪，判处有期徒刑十一个月，撤销前罪的缓刑，前罪判处有期徒刑一年，数罪并罚，决定"
        "执行有期徒刑一年八个月。",
        600,
    ),
    (
        "被告人甲某犯非法经营罪，判处有期徒刑一年，缓刑二年（缓刑考验期限，从判决确定之日起计算），并处罚金"
        "人民币一十二万元（已缴纳）。",
        72 + L(120000),
    ),
    (
        "被告人甲某犯危险驾驶罪，判处拘役一个月，缓刑二个月，并处罚金人民币二千五百元整。（缓刑考验期限，从"
        "判决确定之日起计算",
        30 * 0.8 * 0.2 + L(2500),
    ),
    (
        "一、被告人甲某犯敲诈勒索罪,判处有期徒刑二年二个月,并处罚金人民币3000元(刑期从判决执行之日起计算)."
        "二、被告人乙某犯敲诈勒索罪,判处有期徒刑一年.",
        780 + L(3000),
    ),
    (
        "被告人甲某犯盗窃罪，判处拘役四个月，并处罚金人民币一千元；犯诈骗罪，判处拘役三个月，并处罚金人民币"
        "一千元；决定执行拘役六个月，并处罚金人民币二千元。",
        144 + L(2000),
    ),
    (
        "被告人甲犯抢劫罪，判处有期徒刑四年，并处罚金人民币五千元，连同原判抢夺罪有期徒刑二年，并处罚金三千"
        "元，决定执行有期徒刑五年，并处罚金八千元。",
        1800 + L(8000),
    ),
    (
        "被告人甲某犯盗窃罪，判处有期徒刑七个月，与前罪余刑一年二个月十天并罚，决定执行有期徒刑一年七个月，"
        "并处罚金一千元",
        570 + L(1000),
    ),
    ("被告人甲某、乙某、丙某犯寻衅滋事罪，分别判处有期徒刑二年、一年六个月、一年。", 720),
    ("判处被告人甲某有期徒刑三年，并处罚金一万元。", 1080 + L(10000)),
    ("以盗窃罪判处被告人甲某有期徒刑三年，并处罚金人民币一万元", 1080 + L(10000)),
    ("被告人甲某犯诈骗罪，判处有期徒刑三年，并处罚金10,000.00元。", 1080 + L(10000)),
    ("被告人甲某犯诈骗罪，判处有期徒刑三年，罚金１０，０００元。", 1080 + L(10000)),
    (
        "被告人甲某犯诈骗罪，判处有期徒刑拾年零陆个月，剥夺政治权利贰年，并处罚金人民币伍拾万圆整。",
        3780 + 200 + L(500000),
    ),
    ("被告人甲某犯盗窃罪，判处有期徒刑二十年。", 7200),
    ("被告人甲某犯诈骗罪，判处有期徒刑六个月，并处罚金美元5000元。", None),
    (
        "被告人甲某犯敲诈勒索罪，判处有期徒刑八个月，并处罚金人民币三千元（未缴纳）；被告人乙某犯敲诈勒索罪"
        "，判处罚金有期徒刑。",
        None,
    ),
    ("驳回抗诉、上诉，维持原判。", None),
    ("被告人甲某的行为不构成犯罪，宣告无罪。", 0),
    ("准许自诉人撤回自诉。", None),
    ("被告人甲某犯强奸罪，判处有期徒刑三年四个月二十天", 1220),
    ("被告人甲某犯盗窃罪，判处单处罚金3000元", L(3000)),
    ("被告人甲某犯盗窃罪，处罚金三千元", L(3000)),
    ("被告人甲某独立适用剥夺政治权利一年。", 100),
    ("被告人甲某犯故意伤害罪，判处有期徒刑七个月，被告人乙某犯故意伤害罪，判处有期徒刑八个月。", 240),
    ("一、被告人甲某无期徒刑，剥夺政治权利终身，并处没收个人财产人民币50万元", 17000 + L(500000)),
]


@pytest.mark.parametrize(("text", "expected"), WORDINGS)
def test_wording(text: str, expected: float | None) -> None:
    severity = case_severity(text)
    if expected is None:
        assert severity.psi is None
        assert severity.note
        assert math.isnan(punishment_severity_index(text))
    else:
        assert severity.psi == pytest.approx(expected)


@needs_data
def test_hand_labelled_results_are_exact_for_every_defendant() -> None:
    lines = (DATA / "psi_examples.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 20
    for example in map(json.loads, lines):
        assert punishment_severity_index(example["text"]) == pytest.approx(example["psi"], abs=6e-5), example["id"]
        found = [("被告单位" if d.is_unit else d.name, d.psi) for d in parse_sentence(example["text"])]
        wanted = [(d["defendant"], pytest.approx(d["psi"], abs=6e-5)) for d in example["psi_per_defendant"]]
        assert found == wanted, example["id"]


@needs_data
def test_real_results_have_a_value_or_a_reason() -> None:
    with gzip.open(DATA / "judgments.jsonl.gz", "rt", encoding="utf-8") as lines:
        results = [r["result"] for r in map(json.loads, lines) if r["has_result"]]
    severities = [case_severity(result) for result in results]
    assert all(s.psi is not None or s.note for s in severities)
    assert sum(s.psi is None for s in severities) < 0.02 * len(results)


def test_record_holds_the_parts() -> None:
    (found,) = parse_sentence("被告人张某犯诈骗罪，判处有期徒刑三年零二个月，剥夺政治权利一年，并处罚金人民币壹万元。")
    assert (found.name, found.charges, found.penalty) == ("张某", ("诈骗罪",), MainPenalty.FIXED_TERM)
    assert (found.months, found.days, found.suspended) == (38, 0, False)
    assert (found.fine, found.forfeiture, found.rights_months) == (10_000, None, 12)
    assert found.psi == pytest.approx(1140 + 100 + L(10_000))


def test_case_is_the_maximum_and_each_defendant_has_his_own() -> None:
    text = "一、被告人甲某犯盗窃罪，判处有期徒刑一年。二、被告人乙某犯盗窃罪，判处拘役三个月，缓刑六个月。"
    assert [(d.name, d.psi) for d in parse_sentence(text)] == [("甲某", 360.0), ("乙某", pytest.approx(14.4))]
    assert punishment_severity_index(text) == 360.0


def test_divided_sentences_go_to_their_persons() -> None:
    found = parse_sentence("被告人甲某、乙某、丙某犯寻衅滋事罪，分别判处有期徒刑二年、一年六个月、一年。")
    assert [(d.name, d.months) for d in found] == [("甲某", 24), ("乙某", 18), ("丙某", 12)]


def test_one_unreadable_defendant_leaves_the_case_without_a_number() -> None:
    text = "一、被告人甲某犯盗窃罪，判处有期徒刑一年。二、被告人乙某犯盗窃罪，判处有期徒刑□年。"
    severity = case_severity(text)
    assert severity.psi is None
    assert "乙某" in severity.note
    assert [d.psi for d in severity.defendants] == [360.0, None]


def test_fine_left_out_of_the_executed_sentence_is_remarked() -> None:
    text = (
        "被告人甲某犯诈骗罪，判处有期徒刑二年，并处罚金五千元；犯伪证罪，判处有期徒刑一年。决定执行有期徒刑二年六个月。"
    )
    severity = case_severity(text)
    assert severity.psi == 900.0
    assert "决定执行" in severity.note


@pytest.mark.parametrize("same", ["三年", "36个月", "３年", "三十六个月", "叁年", "3 年"])
def test_wording_of_a_term_does_not_matter(same: str) -> None:
    assert punishment_severity_index(f"有期徒刑{same}") == 1080.0


@given(months=st.integers(6, 240), other=st.integers(6, 240))
def test_longer_terms_are_more_severe(months: int, other: int) -> None:
    first, second = (
        punishment_severity_index(f"有期徒刑{m // 12}年{m % 12}个月" if m >= 12 else f"有期徒刑{m}个月")
        for m in (months, other)
    )
    assert (first < second) == (months < other)


@given(fine=st.integers(1_000, 9_999_999), more=st.integers(1, 10_000))
def test_larger_fines_are_more_severe(fine: int, more: int) -> None:
    low, high = (punishment_severity_index(f"拘役三个月，并处罚金人民币{a}元") for a in (fine, fine + more))
    assert 72 < low < high


@given(years=st.integers(1, 15), months=st.integers(0, 11))
def test_kinds_keep_their_order(years: int, months: int) -> None:
    term = f"{years}年" + (f"{months}个月" if months else "")
    fixed, suspended = (
        punishment_severity_index(f"有期徒刑{term}"),
        punishment_severity_index(f"有期徒刑{term}，缓刑五年"),
    )
    assert suspended == pytest.approx(0.2 * fixed)
    assert punishment_severity_index(f"管制{term}") < punishment_severity_index(f"拘役{term}") < fixed
    assert fixed < punishment_severity_index("无期徒刑") < punishment_severity_index("死刑，缓期二年执行")


@given(fine=st.integers(1_000, 99_999_999))
def test_formatting_of_an_amount_does_not_matter(fine: int) -> None:
    full_width = str(fine).translate(str.maketrans("0123456789", "０１２３４５６７８９"))
    texts = (f"{fine}元", f"{fine:,}元", f"{fine:,}元".replace(",", "，"), f"{full_width}元", f"{fine}.00元")
    assert {punishment_severity_index(f"判处罚金人民币{text}") for text in texts} == {L(fine)}


@given(
    st.text(
        alphabet="被告人张某犯罪判处有期徒刑拘役罚金一二三年个月万元，。；、（）“”撤销维持即决定执行0123 \n",
        max_size=80,
    )
)
def test_any_text_gives_a_number_or_a_reason(text: str) -> None:
    severity = case_severity(text)
    assert (severity.psi is None and severity.note) or (severity.psi is not None and severity.psi >= 0)
