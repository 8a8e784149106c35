"""Citations of an answer: verified, not retrieved, not in force, not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from legal_rl.serving.citations import CitationStatus, cite
from legal_rl.serving.knowledge import LocalKnowledge
from retrieval_server.assistant import LegalAssistant
from retrieval_server.types import Evidence, SearchQuery, Source


@pytest.fixture(scope="module")
def evidence(assistant: LegalAssistant) -> tuple[Evidence, ...]:
    return assistant.search_sync([SearchQuery(source=Source.STATUTE, query="刑法第264条", top_k=1)])[0].evidence


@pytest.mark.parametrize(
    ("answer", "statuses"),
    [
        ("依据《刑法》第二百六十四条[1]。", ["verified", "verified"]),
        ("依据第二百六十四条。", ["verified"]),
        ("依据第二百六十五条。", ["unresolved"]),
        ("依据《刑法》第二百六十六条。", ["not_retrieved"]),
        ("依据《刑法》第九百九十九条。", ["not_found"]),
        ("依据《刑法》第二百六十四条、第九百九十九条【3】", ["verified", "not_found", "not_found"]),
        ("依据《合同法》第五十二条。", ["not_in_force"]),
        ("参见（2019）粤01刑终123号判决。", ["not_found"]),
        ("没有引用。", []),
    ],
)
async def test_every_citation_is_looked_up(
    assistant: LegalAssistant, evidence: tuple[Evidence, ...], answer: str, statuses: list[str]
) -> None:
    found = cite(answer, evidence, await LocalKnowledge(assistant).citations(answer))
    assert [citation.status.value for citation in found] == statuses
    assert all(answer[slice(*citation.span)] for citation in found)


async def test_a_verified_citation_names_its_evidence(
    assistant: LegalAssistant, evidence: tuple[Evidence, ...], index_dir: Path
) -> None:
    text = "依据刑法264条"
    (found,) = cite(text, evidence, await LocalKnowledge(assistant).citations(text))
    assert found.evidence == (1,) and found.article_id == evidence[0].id and found.status is CitationStatus.VERIFIED
    assert found.name == "《中华人民共和国刑法》第二百六十四条"
