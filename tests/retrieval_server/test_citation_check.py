"""Citations of a text against the knowledge base, in process and over HTTP; the caller's deadline; structured logs."""

from __future__ import annotations

import json
import logging
from datetime import date
from typing import Any

import httpx
import pytest

from retrieval_server.app import create_app
from retrieval_server.assistant import LegalAssistant
from retrieval_server.citation_check import article_label, check_citations
from retrieval_server.client import AssistantClient
from retrieval_server.config import ServiceConfig
from retrieval_server.logs import JsonLines, log_event
from retrieval_server.types import CitedStatus, SearchQuery, Source


@pytest.mark.parametrize(
    ("text", "as_of", "status", "note"),
    [
        ("依照《刑法》第二百六十四条。", None, CitedStatus.IN_FORCE, "有效"),
        ("依照刑法264条。", None, CitedStatus.IN_FORCE, "有效"),
        ("依照《刑法》第九百九十九条。", None, CitedStatus.NOT_FOUND, "该法在知识库中没有这一条"),
        ("依照《星际航行法》第三条。", None, CitedStatus.NOT_FOUND, "知识库中没有这部法律"),
        ("依照第二百六十四条。", None, CitedStatus.UNRESOLVED, "未写明法律名称"),
        ("依照《刑法》第二百六十四条。", date(2000, 1, 1), CitedStatus.NOT_IN_FORCE, "尚未生效"),
        ("依照《合同法》第五十二条。", None, CitedStatus.NOT_IN_FORCE, "已被取代"),
        ("参见（2019）粤01刑终123号。", None, CitedStatus.NOT_FOUND, "知识库中没有这一案号"),
    ],
)
def test_what_is_said_of_one_citation(
    toy_index: Any, text: str, as_of: date | None, status: CitedStatus, note: str
) -> None:
    (cited,) = check_citations(toy_index, text, as_of)
    assert cited.status is status and note in cited.note
    assert text[slice(*cited.span)].strip("《》") != ""


def test_each_article_once_in_the_order_of_the_text(toy_index: Any) -> None:
    found = check_citations(toy_index, "《刑法》第二百六十六条、第二百六十四条；又刑法第266条。")
    assert [cited.label for cited in found] == ["第二百六十六条", "第二百六十四条"]
    assert found[0].article_id == "law/刑法@2024-03-01#266" and found[0].text.startswith("诈骗公私财物")


def test_a_label_is_written_as_the_law_writes_it() -> None:
    assert article_label(133, 1) == "第一百三十三条之一" and article_label(20) == "第二十条"


async def test_over_http_as_in_process(toy_index: Any, serve_app: Any) -> None:
    text = "《刑法》第二百六十四条与第九百九十九条"
    client = AssistantClient(serve_app(create_app(LegalAssistant(toy_index))))
    assert await client.citations(text) == check_citations(toy_index, text)
    assert await client.citations("") == []
    await client.aclose()


async def test_the_callers_deadline_shortens_the_services(toy_index: Any, serve_app: Any) -> None:
    url = serve_app(create_app(LegalAssistant(toy_index)))
    body = {"queries": [{"source": "statute", "query": "盗窃 手机 数额较大"}]}
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        late = await http.post("/v1/search", json=body, headers={"X-Timeout-S": "0"})
        assert late.status_code == 504 and "0.001 s" in late.json()["error"]
        for odd in ("soon", "nan", "1e9"):
            assert (await http.post("/v1/search", json=body, headers={"X-Timeout-S": odd})).status_code == 200


@pytest.mark.parametrize("asked_for", [False, True])
async def test_query_text_is_logged_only_when_asked_for(
    toy_index: Any, serve_app: Any, caplog: pytest.LogCaptureFixture, asked_for: bool
) -> None:
    client = AssistantClient(serve_app(create_app(LegalAssistant(toy_index), ServiceConfig(log_queries=asked_for))))
    with caplog.at_level(logging.INFO):
        await client.search([SearchQuery(source=Source.STATUTE, query="商场里的秘密")])
    await client.aclose()
    lines = [JsonLines().format(record) for record in caplog.records if record.name.startswith("retrieval_server")]
    assert any("商场里的秘密" in line for line in lines) is asked_for
    request = next(json.loads(line) for line in lines if '"request"' in line)
    assert request["route"] == "/v1/search" and request["code"] == 200 and request["request_id"]


def test_a_log_line_is_json_whatever_is_in_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_event(logging.getLogger("x"), "odd", text="半\ud800行\n二", path=b"\xff")
    line = JsonLines().format(caplog.records[-1])
    assert "\n" not in line and json.loads(line)["event"] == "odd" and "半" in line
    try:
        raise ValueError("坏")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert "ValueError: 坏" in json.loads(JsonLines().format(caplog.records[-1]))["traceback"]
