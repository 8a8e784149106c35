"""The learned ranking over all shared norms: laws and their interpretations together, only what governs that day."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from retrieval_server.assistant import LegalAssistant
from retrieval_server.config import AssistantConfig
from retrieval_server.index import build_index
from retrieval_server.types import SearchQuery, Source
from retrieval_server.validity import is_in_force

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[4] / "shared" / "data"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "norms.jsonl.gz").is_file(), reason="data folder (LEGAL_RL_DATA) is absent"),
]


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory) -> LegalAssistant:
    index = build_index(tmp_path_factory.mktemp("norms") / "index", [str(DATA / "norms.jsonl.gz")], (), "none")
    return LegalAssistant(index, AssistantConfig(ranking="learned"))


@pytest.mark.parametrize(
    ("query", "law"),
    [
        ("盗窃公私财物数额较大的标准", "刑法"),
        ("民间借贷利率的上限是多少", "民法典"),
        ("离婚时夫妻共同财产如何分割", "民法典"),
        ("交通肇事后逃逸致人死亡如何量刑", "刑法"),
    ],
)
def test_law_and_interpretation_come_together(assistant: LegalAssistant, query: str, law: str) -> None:
    (result,) = assistant.search_sync([SearchQuery(source=Source.STATUTE, query=query, top_k=10)])
    found = [assistant.index.by_id(unit.id) for unit in result.evidence]
    assert {"law", "interpretation"} <= {article.kind for article in found if article}
    assert any(article and article.law_key == law for article in found)


@pytest.mark.parametrize("day", [date(2005, 6, 1), date(2015, 6, 1), date(2026, 6, 1)])
def test_nothing_but_the_versions_of_that_day(assistant: LegalAssistant, day: date) -> None:
    texts = ("盗窃", "公司股东会的职权", "劳动合同的解除", "交通肇事", "离婚", "民间借贷", "行政处罚的种类")
    asked = [SearchQuery(source=Source.STATUTE, query=text, as_of=day, top_k=10) for text in texts]
    for result in assistant.search_sync(asked):
        for unit in result.evidence:
            article = assistant.index.by_id(unit.id)
            assert article is not None and is_in_force(article, day), unit.id
            assert unit.version_date and (unit.effective_date or unit.version_date) <= day.isoformat()
