"""Old names of merged laws, cited paragraphs, and the names interpretations go by."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval_server.assistant import LegalAssistant
from retrieval_server.citations import resolve_citations
from retrieval_server.index import build_index
from retrieval_server.law_names import interpretation_aliases
from retrieval_server.merged_laws import MERGED, merger_note, replaced_laws, with_successors
from retrieval_server.passages import cited_passage
from retrieval_server.types import Article, SearchQuery, Source


def unknown(_: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("合同法第52条", ["合同法"]),
        ("《中华人民共和国合同法》和《婚姻法》", ["合同法", "婚姻法"]),
        ("劳动合同法第47条", []),
        ("民法典合同编", []),
        ("担保法司法解释", ["担保法"]),
    ],
)
def test_old_names_are_seen(query: str, names: list[str]) -> None:
    assert list(replaced_laws(query, unknown)) == names


def test_a_law_that_is_here_is_not_replaced() -> None:
    assert replaced_laws("合同法第52条", lambda key: key == "合同法") == {}


def test_the_successor_takes_the_place_of_the_old_name() -> None:
    replaced = {"合同法": MERGED["合同法"]}
    assert with_successors("依《合同法》合同何时无效", replaced) == "依民法典 合同编 合同何时无效"
    assert merger_note("合同法", MERGED["合同法"]) == "《合同法》已被取代，2021-01-01起见《民法典》合同编"


TEXT = "甲：\n（一）乙；\n（二）丙。\n丁。"


@pytest.mark.parametrize(
    ("paragraph", "item", "passage"),
    [
        (None, None, None),
        (1, None, "甲：\n（一）乙；\n（二）丙。"),
        (2, None, "丁。"),
        (3, None, None),
        (1, 2, "（二）丙。"),
        (None, 1, "（一）乙；"),
        (2, 1, None),
        (0, 1, None),
        (-1, None, None),
    ],
)
def test_cited_passages(paragraph: int | None, item: int | None, passage: str | None) -> None:
    assert cited_passage(TEXT, paragraph, item) == passage


@pytest.mark.parametrize(
    ("key", "alias"),
    [
        ("最高人民法院关于适用《公司法》若干问题的规定（三）", "公司法司法解释三"),
        ("最高人民法院关于适用《民法典》有关担保制度的解释", "担保制度解释"),
        ("最高人民法院关于审理建设工程施工合同纠纷案件适用法律问题的解释（一）", "建设工程施工合同司法解释一"),
        ("最高人民法院关于适用《民事诉讼法》的解释", "民事诉讼法司法解释"),
    ],
)
def test_names_of_interpretations(key: str, alias: str) -> None:
    assert alias in interpretation_aliases(key)
    assert interpretation_aliases("民法典") == []


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("刑法264", [(264, 0)]),
        ("刑法§133之一", [(133, 1)]),
        ("道交法91的处罚", [(91, 0)]),
        ("民法典第1000-1002条", [(1000, 0), (1001, 0), (1002, 0)]),
        ("刑法第133-1条", [(133, 1)]),
        ("民法典2020年通过", []),
        ("劳动法40万元", []),
    ],
)
def test_articles_without_their_tiao(text: str, places: list[tuple[int, int]]) -> None:
    assert [(c.article_no, c.article_sub) for c in resolve_citations(text)] == places


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory) -> LegalAssistant:
    def row(law: str, number: int, text: str, version: str, **more: object) -> Article:
        return Article(
            id=f"law/{law}@{version}#{number}", kind="law", law_title=law, law_key=law, version_date=version,
            article_no=number, text=text, **more,
        )  # fmt: skip

    articles = [
        row("民法典", 153, "违反法律强制性规定的民事法律行为无效。", "2020-05-28"),
        row("公司法", 16, "旧：公司为他人提供担保。", "2018-10-26", in_force_until="2024-07-01"),
        row("公司法", 16, TEXT, "2023-12-29"),
    ]
    folder: Path = tmp_path_factory.mktemp("merged")
    (folder / "norms.jsonl").write_text("".join(a.model_dump_json() + "\n" for a in articles), encoding="utf-8")
    return LegalAssistant(build_index(folder / "index", [str(folder / "norms.jsonl")], (), "none"))


def test_evidence_says_what_replaced_the_old_law(assistant: LegalAssistant) -> None:
    unit = assistant.search_sync([SearchQuery(source=Source.STATUTE, query="合同法 违反强制性规定 无效")])[0].evidence[
        0
    ]
    assert unit.id == "law/民法典@2020-05-28#153" and "《合同法》已被取代，2021-01-01起见《民法典》合同编" in unit.notes


def test_the_cited_paragraph_is_pointed_out(assistant: LegalAssistant) -> None:
    unit = assistant.search_sync([SearchQuery(source=Source.STATUTE, query="公司法第十六条第一款第（二）项")])[
        0
    ].evidence[0]
    assert unit.id == "law/公司法@2023-12-29#16" and "所引第一款第二项：（二）丙。" in unit.notes


def test_a_year_in_the_citation_chooses_the_version(assistant: LegalAssistant) -> None:
    found = assistant.search_sync(
        [
            SearchQuery(source=Source.STATUTE, query=q)
            for q in ("公司法（2018年修正）第16条", "公司法（2023修订）第16条")
        ]
    )
    assert [r.evidence[0].id for r in found] == ["law/公司法@2018-10-26#16", "law/公司法@2023-12-29#16"]
    assert "已不再有效" in found[0].evidence[0].notes[0]
