"""The charge table: mined from interpretations, shipped for corpora without them, and found in queries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_server.ranking.charges import ChargeTable, builtin_charges, mine_charges, offence_cues
from retrieval_server.types import Article

TABLE_OF_ALL = ChargeTable(builtin_charges(), offence_cues())


def interpretation(text: str, version: str = "2020-01-01") -> Article:
    key = f"关于确定罪名的规定{version}"
    return Article(id=key, kind="interpretation", law_title=key, law_key=key, version_date=version, text=text)


def criminal(number: int, text: str) -> Article:
    return Article(
        id=f"刑法#{number}", kind="law", law_title="刑法", law_key="刑法", version_date="", article_no=number,
        text=text,
    )  # fmt: skip


LIST = "1．背叛国家罪（第102条） 2．破坏电力设备罪（第118条、第119条第1款） 3．投毒罪（第114条）"
TABLE = """如下：
| 刑法条文 |罪名 |
|-----|-----|
| 第一百三十三条之一 （《刑法修正案（八）》第二十二条） |危险驾驶罪 |
| 第114条、第115条第1款（《修正案（三）》第1、2条） |投放危险物质罪（取消投毒罪罪名） |
| 第291条之一（《修正案（三）》第8条） |投放虚假危险物质罪 |
| |编造、故意传播虚假恐怖信息罪 |
| 第312条 |掩饰、隐瞒犯罪所得、犯罪所得收益罪 |"""
RENAMED = "将《中华人民共和国刑法》第一百六十九条（《刑法修正案（十二）》第三条）的罪名由“甲资产罪”修改为“乙资产罪”。"


def test_lists_tables_and_renamings_are_mined() -> None:
    mined = mine_charges(
        [interpretation(RENAMED, "2024-01-01"), interpretation(TABLE, "2010-01-01"), interpretation(LIST)]
    )
    assert {name: sorted(refs) for name, refs in mined.items()} == {
        "背叛国家罪": [(102, 0)],
        "破坏电力设备罪": [(118, 0), (119, 0)],
        "投毒罪": [(114, 0)],  # the list is later than the table here
        "危险驾驶罪": [(133, 1)],
        "投放危险物质罪": [(114, 0), (115, 0)],
        "投放虚假危险物质罪": [(291, 1)],
        "编造、故意传播虚假恐怖信息罪": [(291, 1)],
        "掩饰、隐瞒犯罪所得、犯罪所得收益罪": [(312, 0)],
        "甲资产罪": [(169, 0)],
        "乙资产罪": [(169, 0)],
    }


def test_articles_that_punish_a_charge_by_name_are_related() -> None:
    articles = [
        interpretation("1．贪污罪（第382条）"),
        criminal(382, "是贪污罪。"),
        criminal(383, "对犯贪污罪的，处罚："),
    ]
    assert ChargeTable.of(articles).named("罪名:贪污。") == {(382, 0): 1.0, (383, 0): 0.4}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("事实:…。\n罪名:盗窃。", (264, 0)),
        ("被告人的行为构成贩卖毒品罪", (347, 0)),
        ("罪名：引诱、容留、介绍卖淫", (359, 0)),
        ("危险驾驶罪怎么判", (133, 1)),
        ("罪名:伪造公司印章罪。", (280, 0)),
    ],
)
def test_charges_named_in_a_query(text: str, number: tuple[int, int]) -> None:
    named = ChargeTable(builtin_charges(), {}).named(text)
    assert [ref for ref, weight in named.items() if weight == 1.0] == [number]


def test_facts_without_a_charge_are_read_by_their_cues() -> None:
    table = ChargeTable(builtin_charges(), offence_cues())
    cued = table.cued("张某酒后驾驶小型轿车，血液中乙醇含量为180mg/100ml")
    assert max(cued, key=cued.__getitem__) == (133, 1) and cued[133, 1] == 1.0
    assert table.cued("你好") == {} and table.named("你好") == {}


def test_the_shipped_table_knows_every_cued_charge() -> None:
    table = ChargeTable(builtin_charges(), {})
    assert [charge for charge in offence_cues() if table.resolve(charge) is None] == []
    assert len(builtin_charges()) > 480


@settings(deadline=None, max_examples=30)
@given(st.text(alphabet="罪名:犯、（）构成盗窃被告人x\n😀", max_size=60))
def test_odd_text_is_no_error(text: str) -> None:
    table = TABLE_OF_ALL
    assert all(0 < weight <= 1 for weight in (*table.named(text).values(), *table.cued(text).values()))
