"""Citations in free text: a table of hand-worked rows, context, and input made to break the reader."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_server.citations import MAX_TEXT_CHARS, resolve_citations

Row = tuple[str, int, int, int | None, int | None]

MARRIAGE = "最高人民法院关于适用《民法典》婚姻家庭编的解释（一）"
LENDING = "最高人民法院关于审理民间借贷案件适用法律若干问题的规定"


def plain(key: str, *numbers: int) -> list[Row]:
    return [(key, number, 0, None, None) for number in numbers]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("刑法第264条", plain("刑法", 264)),
        ("《刑法》第二百六十四条", plain("刑法", 264)),
        ("《中华人民共和国刑法》第二百六十四条", plain("刑法", 264)),
        ("中华人民共和国刑法第一百零三条的内容是:", plain("刑法", 103)),
        ("《中华人民共和国刑法》（2020修正）第一百三十三条之一", [("刑法", 133, 1, None, None)]),
        ("《刑法(2017年修正)》第133条之1", [("刑法", 133, 1, None, None)]),
        ("刑法第133之一条", [("刑法", 133, 1, None, None)]),
        ("刑法第133-1条", [("刑法", 133, 1, None, None)]),
        ("刑法第１３３条之一第二款", [("刑法", 133, 1, 2, None)]),
        ("刑法 第 264 条", plain("刑法", 264)),
        ("刑法264条", plain("刑法", 264)),
        ("刑法二百六十四条", plain("刑法", 264)),
        ("民法典1254条", plain("民法典", 1254)),
        ("民法典一千二百五十四条怎么规定", plain("民法典", 1254)),
        ("《民法典》的第五百条", plain("民法典", 500)),
        ("中华人民共和国民法第三百五十三条", plain("民法典", 353)),
        ("民诉法第一百二十二条第一款第（三）项", [("民事诉讼法", 122, 0, 1, 3)]),
        ("民诉法第122条第3项", [("民事诉讼法", 122, 0, None, 3)]),
        ("刑诉法第十五条", plain("刑事诉讼法", 15)),
        ("行诉法第十二条", plain("行政诉讼法", 12)),
        ("治安处罚法第43条", plain("治安管理处罚法", 43)),
        ("道交法第七十六条", plain("道路交通安全法", 76)),
        ("消法第五十五条", plain("消费者权益保护法", 55)),
        ("香港基本法第一百五十八条", plain("香港特别行政区基本法", 158)),
        ("劳动合同法第六十条", plain("劳动合同法", 60)),
        ("社会法劳动合同法第六十条的内容是什么？", plain("劳动合同法", 60)),
        ("民法商法农民专业合作社法第六十五条的内容是什么？", plain("农民专业合作社法", 65)),
        ("海上交通安全法第3条", plain("海上交通安全法", 3)),
        ("《职业教育法》第三条", plain("职业教育法", 3)),
        ("公司法（2023）第四条", plain("公司法", 4)),
        ("刑法总则第三条", plain("刑法", 3)),
        ("刑法修正案（十一）第三条", plain("刑法修正案（十一）", 3)),
        ("《宪法修正案（1993年）》第五条", plain("宪法修正案（1993年）", 5)),
        ("违反道路交通安全法实施条例第六十二条", plain("道路交通安全法实施条例", 62)),
        ("依据《某某省条例》第2条", plain("某某省条例", 2)),
        ("依照某某市管理办法第九条", plain("某某市管理办法", 9)),
        ("最高人民法院关于适用《中华人民共和国民法典》婚姻家庭编的解释（一）第五条", plain(MARRIAGE, 5)),
        ("《民法典婚姻家庭编解释（一）》第五条", plain(MARRIAGE, 5)),
        ("民法典婚姻家庭编解释一第五条", plain(MARRIAGE, 5)),
        ("《最高人民法院关于审理民间借贷案件适用法律若干问题的规定》第二十五条", plain(LENDING, 25)),
        ("民间借贷司法解释第二十五条", plain(LENDING, 25)),
        ("刑法第264条、第266条、第274条", plain("刑法", 264, 266, 274)),
        ("刑法第二百六十四条和第二百六十六条", plain("刑法", 264, 266)),
        ("《劳动合同法》第39、40条", plain("劳动合同法", 39, 40)),
        ("刑法第三、四、五条", plain("刑法", 3, 4, 5)),
        ("民法典第三条至第五条", plain("民法典", 3, 4, 5)),
        ("民法典第三至五条", plain("民法典", 3, 4, 5)),
        ("民法典第三条到第五条、第七条", plain("民法典", 3, 4, 5, 7)),
        ("民法典第1条至第1000条", plain("民法典", 1, 1000)),
        ("刑法第二十条第一款、第三款", [("刑法", 20, 0, 1, None), ("刑法", 20, 0, 3, None)]),
        ("第三、四条", plain("", 3, 4)),
        ("第133条之1", [("", 133, 1, None, None)]),
        ("有三条规定", []),
        ("根据《刑法》第三条规定，处理办法共有五条", plain("刑法", 3)),
        ("有1、2、3点", []),
        ("前款规定", []),
        ("第零条", []),
        ("盗窃罪怎么判", []),
        ("", []),
    ],
)
def test_table(text: str, expected: list[Row]) -> None:
    found = resolve_citations(text)
    assert [(c.law_key, c.article_no, c.article_sub, c.paragraph, c.item) for c in found] == expected


def test_several_laws_in_one_text() -> None:
    text = "根据《刑法》第二百六十四条、第五十二条以及《刑事诉讼法》第十五条第一款，参照民法典第1165条"
    assert [(c.law_key, c.article_no, c.paragraph) for c in resolve_citations(text)] == [
        ("刑法", 264, None),
        ("刑法", 52, None),
        ("刑事诉讼法", 15, 1),
        ("民法典", 1165, None),
    ]


def test_context_words_stand_for_the_law_and_article_before() -> None:
    text = "《刑法》第二百三十四条第二款规定……前款；本条第三款；前条；本法第三条；同法第五条；第九条。"
    text += "《民法典》第七条，该法第八条"
    assert [(c.law_key, c.article_no, c.paragraph) for c in resolve_citations(text)] == [
        ("刑法", 234, 2),
        ("刑法", 234, 1),
        ("刑法", 234, 3),
        ("刑法", 233, None),
        ("刑法", 3, None),
        ("刑法", 5, None),
        ("刑法", 9, None),
        ("民法典", 7, None),
        ("民法典", 8, None),
    ]


def test_title_and_span_are_those_of_the_text_given() -> None:
    text = "依照《中华人民共和国刑法》（2020修正）第一百三十三条之一第二款处罚"
    (citation,) = resolve_citations(text)
    assert citation.law_title == "刑法"
    assert text[slice(*citation.span)] == "《中华人民共和国刑法》（2020修正）第一百三十三条之一第二款"


def test_titles_of_an_index_are_known_too() -> None:
    titles = {"滨海市养犬条例": "滨海市养犬条例", "养犬条例": "滨海市养犬条例"}
    (citation,) = resolve_citations("请问养犬条例5条", titles)
    assert (citation.law_title, citation.law_key, citation.article_no) == ("养犬条例", "滨海市养犬条例", 5)


PIECES = [
    *("第", "条", "之", "款", "项", "、", "至", "和", "二百", "264", "《", "》"),
    *("刑法", "本法", "前款", "前条", "（", "）", "(2020修正)"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_laws_hold_for_any_arrangement_of_pieces(text: str) -> None:
    for citation in resolve_citations(text):
        start, end = citation.span
        assert 0 <= start < end <= len(text)
        assert citation.article_no >= 1
        assert citation.article_sub >= 0


@given(st.text(max_size=200))
def test_no_text_makes_the_resolver_fail(text: str) -> None:
    resolve_citations(text)


@pytest.mark.parametrize(
    "piece", ["第一条", "第三、", "《", "前款", "一、", "刑法第三条至第五条", "第九百九十九条之", "》第一条", "("]
)
def test_long_hostile_text_takes_seconds_at_most(piece: str) -> None:
    text = piece * (MAX_TEXT_CHARS // len(piece))
    started = time.perf_counter()
    resolve_citations(text)
    assert time.perf_counter() - started < 10
