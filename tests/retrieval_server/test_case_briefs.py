"""Briefs of the index: the same words as before, one line for the query, an LLM's told once and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from legal_rl.cli import main
from retrieval_server.assistant import LegalAssistant
from retrieval_server.briefs import brief_case, compact_brief
from retrieval_server.case_briefs import FILE, extract, read_briefs, show
from retrieval_server.cases import load_cases
from retrieval_server.config import AssistantConfig, LLMConfig
from retrieval_server.errors import IndexStateError
from retrieval_server.index import build_index, open_index
from retrieval_server.types import SearchQuery, Source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(tmp_path / "index", (), ("generated:count=6",), "none")
    return tmp_path / "index"


def test_a_stored_brief_reads_as_a_fresh_one() -> None:
    for case in list(load_cases("generated:count=40")):
        stored = extract(case)
        for width in (40, 90, 150, 400):
            assert show(stored, case, width, "退赃 自首") == brief_case(case, width, "退赃 自首")
            assert show(stored, case, width, compact=True) == compact_brief(case, width)


def test_every_case_of_an_index_has_its_brief(folder: Path) -> None:
    index = open_index(folder)
    assert list(index.briefs) == [case.id for case in index.cases] and not any(b.told for b in index.briefs.values())
    (folder / FILE).write_text('{"id": "x"}\n', encoding="utf-8")
    with pytest.raises(IndexStateError, match=r"briefs\.jsonl was changed"):
        open_index(folder)
    with pytest.raises(IndexStateError, match=r"briefs\.jsonl: line 1: Field required"):
        read_briefs(folder / FILE)


def brief(facts: str) -> str:
    return json.dumps({"key_facts": facts, "reasoning": "", "outcome": "有罪", "sentence": "拘役"}, ensure_ascii=False)


def test_an_llms_briefs_are_told_once_and_shown_with_a_line_for_the_query(
    folder: Path, chat: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    chat.replies = ["{", brief("模型写的事实")]
    command = ["index", "briefs", str(folder), "--llm-url", chat.url, "--llm-model", "toy", "--json"]
    with pytest.raises(SystemExit) as first:
        main(command)
    report = json.loads(capsys.readouterr().out)
    assert first.value.code == 1 and report["told"] == 5 and len(report["failed"]) == 1 and len(chat.requests) == 6
    with pytest.raises(SystemExit) as second:
        main(command)
    assert second.value.code == 0 and json.loads(capsys.readouterr().out)["told"] == 6 and len(chat.requests) == 7
    assert not list(folder.parent.glob(".index-briefs*"))
    index = open_index(folder)  # its hashes are whole
    config = AssistantConfig(llm=LLMConfig(base_url=chat.url, model="toy"))
    query = SearchQuery(source=Source.PRECEDENT, query=index.cases[0].facts[:40], top_k=1)
    (result,) = LegalAssistant(index, config).search_sync([query])
    assert "模型写的事实" in result.evidence[0].text and "\n与检索相关：" in result.evidence[0].text
    assert len(chat.requests) == 7  # no request waits for the model
