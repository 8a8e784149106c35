"""Statute search: citations first, in force on the day, reranked by the intent, many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.index import build_index
from retrieval_server.legal_index import LegalIndex
from retrieval_server.statutes import StatuteSearcher
from retrieval_server.types import SearchQuery, Source


class PenaltyEncoder:
    """Two dimensions: talk of penalties, and everything else."""

    spec = "penalty"
    version = "1"
    dim = 2

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.array([[t.count("徒刑") + t.count("量刑") + 0.01, 0.5] for t in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


HEAD = "# 中华人民共和国{}\n<!-- INFO END -->\n"
MARKDOWN = {
    "刑法/刑法(2021-03-01).md": HEAD.format("刑法")
    + "第二百六十三条 以暴力抢劫公私财物的，处三年以上有期徒刑。\n"
    + "第二百六十四条 盗窃公私财物的，处三年以下有期徒刑。\n"
    + "第二百六十五条 盗窃，是指秘密窃取公私财物的行为。\n",
    "经济法/公司法(2018-10-26).md": HEAD.format("公司法") + "第十六条 公司投资与担保，依照章程。\n",
    "经济法/公司法(2024-07-01).md": HEAD.format("公司法") + "第十六条 公司保护职工权益与担保。\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> LegalIndex:
    root: Path = tmp_path_factory.mktemp("statutes")
    for name, text in MARKDOWN.items():
        (root / "laws" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "laws" / name).write_text(text, encoding="utf-8")
    return build_index(root / "index", root / "laws", (), PenaltyEncoder())


def query(text: str, intent: str = "", as_of: date = date(2025, 1, 1), top_k: int = 5) -> SearchQuery:
    return SearchQuery(source=Source.STATUTE, query=text, intent=intent, as_of=as_of, top_k=top_k)


def test_cited_articles_lead_in_the_order_cited(index: LegalIndex) -> None:
    (found,) = index.searcher.search([query("抢劫：刑法第264条、《公司法》第十六条", intent="量刑")])
    assert [e.id for e in found[:2]] == ["law/刑法@2021-03-01#264", "law/公司法@2024-07-01#16"]
    assert [(e.rank, e.score, e.provenance) for e in found[:2]] == [(1, 1.0, ("citation",)), (2, 1.0, ("citation",))]
    assert len({e.id for e in found}) == len(found)
    assert all("citation" not in e.provenance for e in found[2:])


def test_the_day_of_the_facts_picks_the_version(index: LegalIndex) -> None:
    for day, version in ((date(2024, 6, 30), "2018-10-26"), (date(2024, 7, 1), "2024-07-01")):
        for text in ("公司法第16条", "公司担保"):
            (found,) = index.searcher.search([query(text, as_of=day)])
            company = [e for e in found if e.title.endswith("公司法")]
            assert [e.version_date for e in company] == [version]
            assert company[0].notes == (f"{version}版本，{day}有效",)


def test_only_citations_reach_what_is_not_in_force(index: LegalIndex) -> None:
    day = date(2010, 1, 1)
    cited, free = index.searcher.search([query("公司法第16条", as_of=day), query("公司担保", as_of=day)])
    assert [e.id for e in cited] == ["law/公司法@2018-10-26#16"] and "尚未生效" in cited[0].notes[0]
    assert free == []


def test_intent_reorders_and_says_so(index: LegalIndex) -> None:
    searcher = StatuteSearcher(index, intent_weight=2.0)
    plain, definition, penalty = searcher.search([query("盗窃"), query("盗窃", "概念"), query("盗窃", "量刑 徒刑")])
    assert all("intent" not in e.provenance for e in plain)
    assert definition[0].label == "第二百六十五条"
    assert penalty[0].label == "第二百六十四条"
    assert all("intent" in e.provenance for e in penalty)
    assert [e.rank for e in penalty] == list(range(1, len(penalty) + 1))
    assert all(0 < e.score <= 1 for e in penalty)


def test_intent_weight_zero_turns_the_rerank_off(index: LegalIndex) -> None:
    searcher = StatuteSearcher(index, intent_weight=0.0)
    assert searcher.search([query("盗窃", "量刑")]) == searcher.search([query("盗窃")])


def test_many_queries_at_once_equal_one_by_one(index: LegalIndex) -> None:
    queries = [query("盗窃", "量刑"), query("公司担保", as_of=date(2020, 1, 1)), query("刑法第263条"), query("？？？")]
    assert index.searcher.search(queries) == [index.searcher.search([q])[0] for q in queries]


def test_top_k_is_kept(index: LegalIndex) -> None:
    assert [len(found) for found in index.searcher.search([query("公私财物", top_k=k) for k in (1, 2)])] == [1, 2]


def test_without_a_day_today_counts(index: LegalIndex) -> None:
    (found,) = index.searcher.search([SearchQuery(source=Source.STATUTE, query="公司法第16条", top_k=1)])
    assert date.today().isoformat() in found[0].notes[0]
