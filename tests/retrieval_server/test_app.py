"""The HTTP service: contracts of its routes, limits, hostile input, and equality with the in-process Assistant."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval_server.app import create_app
from retrieval_server.assistant import LegalAssistant
from retrieval_server.client import AssistantClient
from retrieval_server.config import AssistantConfig, LLMConfig, ServiceConfig
from retrieval_server.errors import RetrievalError
from retrieval_server.types import CourtLevel, SearchQuery, SearchResult, Source, Status

THEFT = "law/刑法@2024-03-01#264"


@pytest.fixture(scope="module")
def web(toy_index: Any) -> Any:
    with TestClient(create_app(LegalAssistant(toy_index)), raise_server_exceptions=False) as client:
        yield client


def _wait_ready(web: Any) -> Any:
    for _ in range(400):
        if (answer := web.get("/readyz")).status_code == 200:
            return answer
        import time

        time.sleep(0.025)
    raise AssertionError("never ready")


def plain(results: list[SearchResult]) -> list[SearchResult]:
    return [result.model_copy(update={"timings_ms": {}}) for result in results]


def test_search_r1_route_with_scores(web: Any) -> None:
    body = {"queries": ["刑法第264条", "  ", "正当防卫"], "topk": 1, "return_scores": True}
    answer = web.post("/retrieve", json=body)
    assert answer.status_code == 200
    theft, blank, defence = answer.json()["result"]
    assert theft[0]["document"]["id"] == THEFT and theft[0]["score"] == 1.0
    assert theft[0]["document"]["contents"].startswith("中华人民共和国刑法 第二百六十四条\n盗窃公私财物")
    assert blank == [] and defence[0]["document"]["id"].endswith("#20")
    assert answer.json()["status"] == ["ok", "empty", "ok"]


def test_search_r1_route_without_scores_and_with_nulls(web: Any) -> None:
    answer = web.post("/retrieve", json={"queries": ["盗窃 诈骗"], "topk": None, "unknown_key": 1})
    assert [set(document) for document in answer.json()["result"][0]] == [{"id", "contents"}] * 2
    cases = web.post("/retrieve", json={"queries": ["盗窃手机"], "topk": 2, "source": "precedent"}).json()["result"]
    assert [document["id"][:5] for document in cases[0]] == ["case/", "case/"]


def test_typed_route(web: Any, toy_index: Any) -> None:
    body = {"queries": [{"source": "statute", "query": "刑法第232条", "as_of": "2021-06-01", "top_k": 1}]}
    answer = web.post("/v1/search", json=body).json()
    assert answer["index_version"] == toy_index.version
    (result,) = answer["results"]
    assert result["status"] == "ok" and result["evidence"][0]["version_date"] == "2020-12-26"
    assert result["timings_ms"]["total"] > 0


def test_articles(web: Any) -> None:
    assert web.get("/v1/articles/刑法/264").json()["id"] == THEFT
    assert (
        web.get("/v1/articles/刑法/第二百三十二条", params={"as_of": "2021-01-01"}).json()["version_date"]
        == "2020-12-26"
    )
    early = web.get("/v1/articles/刑法/232", params={"as_of": "1990-01-01"})
    assert early.status_code == 404
    assert early.json()["error"].startswith(
        "not in the knowledge base: 刑法 232 on 1990-01-01; nearest text: law/刑法@2020"
    )
    missing = web.get("/v1/articles/刑法/99999")
    assert missing.status_code == 404 and "no such article" in missing.json()["error"]
    assert web.get("/v1/articles/刑法/264", params={"as_of": "yesterday"}).status_code == 422


def test_health_readiness_and_metrics(web: Any) -> None:
    assert web.get("/healthz").json() == {"status": "ok"}
    ready = _wait_ready(web).json()
    assert (ready["status"], ready["articles"], ready["cases"]) == ("ready", 6, 4)
    web.post("/retrieve", json={"queries": ["盗窃 指标"]})
    text = web.get("/metrics").text
    for line in (
        'legal_rl_requests_total{code="200",route="/retrieve"}',
        'legal_rl_queries_total{source="statute",status="ok"}',
        'legal_rl_stage_seconds_count{source="statute",stage="candidates"}',
        "legal_rl_index_articles 6.0",
        "legal_rl_in_flight_queries 0.0",
        "legal_rl_cache_misses",
    ):
        assert line in text
    assert all(line.startswith(("#", "legal_rl_")) for line in text.splitlines())


def test_request_ids(web: Any) -> None:
    assert web.get("/healthz", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"
    made = web.get("/healthz", headers={"X-Request-ID": "a b\x01"}).headers["x-request-id"]
    assert len(made) == 32
    error = web.post("/v1/search", json={}, headers={"X-Request-ID": "abc-2"})
    assert error.json()["request_id"] == "abc-2"


HOSTILE: dict[str, bytes] = {
    "lone surrogate": b'{"queries": ["\\ud800"]}',
    "lone surrogate in a key": b'{"queries": ["a"], "\\udfff": "\\ud800"}',
    "invalid UTF-8": b'{"queries": ["\xff\xfe"]}',
    "1 MB query": b'{"queries": ["' + b"a" * 1_000_000 + b'"]}',
    "no queries": b'{"queries": []}',
    "wrong type": b'{"queries": [1, null, {}]}',
    "huge topk": b'{"queries": ["a"], "topk": 1e400}',
    "negative topk": b'{"queries": ["a"], "topk": -1}',
    "deep nesting": b'{"queries": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "no JSON": b"queries=a",
    "empty": b"",
    "null": b"null",
    "NaN": b'{"queries": ["a"], "topk": NaN}',
    "unknown source": b'{"queries": ["a"], "source": "web"}',
    "too many queries": json.dumps({"queries": ["a"] * 257}).encode(),
}


@pytest.mark.parametrize("route", ["/retrieve", "/v1/search"])
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bodies_are_the_callers_fault(web: Any, route: str, body: bytes) -> None:
    answer = web.post(route, content=body, headers={"Content-Type": "application/json"})
    if body == HOSTILE["lone surrogate in a key"] and route == "/retrieve":
        assert answer.status_code in (200, 400, 422)
        return
    assert 400 <= answer.status_code < 500, answer.text
    assert "\n" not in answer.json()["error"] and len(answer.json()["error"]) <= 500


def test_control_characters_are_answered(web: Any) -> None:
    answer = web.post("/retrieve", json={"queries": ["\x00盗窃\x1b[31m", "\u202e", "💣" * 50, "a" * 4000]})
    assert answer.status_code == 200 and answer.json()["status"][0] == "ok"


@pytest.mark.parametrize("path", ["/v1/articles/%00/1", "/v1/articles/%FF/%FE", "/v1/articles/" + "a" * 5000 + "/1"])
def test_hostile_paths(web: Any, path: str) -> None:
    assert 400 <= web.get(path).status_code < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
_WEIRD = st.text(st.characters(codec=None), min_size=1, max_size=30)
_QUERY = st.fixed_dictionaries(
    {"source": st.sampled_from(["statute", "precedent", "web"]) | JSON, "query": _WEIRD | JSON},
    optional={
        "intent": _WEIRD | JSON,
        "charge": _WEIRD,
        "as_of": st.dates().map(str) | JSON,
        "top_k": st.integers(-5, 200) | JSON,
        "court_levels": st.lists(st.sampled_from([*CourtLevel, "moon"]), max_size=3) | JSON,
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.fixed_dictionaries({"queries": st.lists(_QUERY, max_size=3) | JSON}) | JSON)
def test_no_typed_body_brings_the_service_down(web: Any, body: Any) -> None:
    content = json.dumps(body).encode("utf-8", "replace")
    answer = web.post("/v1/search", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code == 200:
        assert len(answer.json()["results"]) == len(body["queries"])
        assert all(result["status"] in ("ok", "empty") for result in answer.json()["results"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    queries=st.lists(_WEIRD | JSON, max_size=3) | JSON, topk=st.integers(-2, 120) | JSON, scores=st.booleans() | JSON
)
def test_no_search_r1_body_brings_the_service_down(web: Any, queries: Any, topk: Any, scores: Any) -> None:
    content = json.dumps({"queries": queries, "topk": topk, "return_scores": scores}).encode("utf-8", "replace")
    answer = web.post("/retrieve", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code == 200:
        assert len(answer.json()["result"]) == len(queries)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200))
def test_no_bytes_bring_the_service_down(web: Any, body: bytes) -> None:
    answer = web.post("/retrieve", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500


def test_body_limit_with_and_without_a_declared_length(toy_index: Any) -> None:
    app = create_app(LegalAssistant(toy_index), ServiceConfig(max_body_bytes=100))
    with TestClient(app) as web:
        big = b'{"queries": ["' + b"a" * 200 + b'"]}'
        assert web.post("/retrieve", content=big).status_code == 413
        assert web.post("/retrieve", content=iter([big[:90], big[90:]])).status_code == 413


def test_key_check(toy_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGAL_RL_SERVICE_API_KEY", "s3cret")
    with TestClient(create_app(LegalAssistant(toy_index))) as web:
        body = {"queries": ["盗窃"]}
        assert web.post("/retrieve", json=body).status_code == 401
        assert web.post("/retrieve", json=body, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert web.post("/retrieve", json=body, headers={"Authorization": "Bearer s3cret"}).status_code == 200
        assert web.get("/healthz").status_code == 200


class SlowAssistant(LegalAssistant):
    """Answers after `pause_s`."""

    pause_s = 0.5

    async def search(self, queries: Any) -> list[SearchResult]:
        await asyncio.sleep(self.pause_s)
        return await super().search(queries)


def _asgi(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test")


async def test_a_full_queue_answers_429_and_the_client_gets_through(toy_index: Any) -> None:
    app = create_app(SlowAssistant(toy_index), ServiceConfig(max_in_flight=2))
    async with _asgi(app) as web:
        body = {"queries": ["盗窃", "诈骗"]}
        first = asyncio.create_task(web.post("/retrieve", json=body))
        await asyncio.sleep(0.05)
        refused = await web.post("/retrieve", json=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "busy" in refused.json()["error"]
        assert 'legal_rl_rejected_queries_total{reason="busy"} 2.0' in (await web.get("/metrics")).text
        client = AssistantClient("http://test", timeout_s=10, transport=lambda: httpx.ASGITransport(app=app))
        assert (await client.search([SearchQuery(source=Source.STATUTE, query="盗窃")]))[0].status is Status.OK
        assert (await first).status_code == 200


async def test_deadline(toy_index: Any) -> None:
    app = create_app(SlowAssistant(toy_index), ServiceConfig(deadline_s=0.05))
    async with _asgi(app) as web:
        late = await web.post("/retrieve", json={"queries": ["盗窃"]})
        assert late.status_code == 504 and "0.05 s" in late.json()["error"]


async def test_draining_refuses_new_work(toy_index: Any) -> None:
    app = create_app(LegalAssistant(toy_index))
    app.state.service.draining = True
    async with _asgi(app) as web:
        refused = await web.post("/retrieve", json={"queries": ["盗窃"]})
        assert refused.status_code == 503 and refused.headers["retry-after"]
        assert (await web.get("/readyz")).json()["error"] == "stopping"
        assert (await web.get("/healthz")).status_code == 200


class ColdAssistant(LegalAssistant):
    """Cannot be warmed up, and fails every search."""

    def warm_up(self) -> None:
        raise MemoryError

    async def search(self, queries: Any) -> list[SearchResult]:
        raise KeyError("facts of a real case")


def test_failures_are_told_without_the_query(toy_index: Any) -> None:
    with TestClient(create_app(ColdAssistant(toy_index)), raise_server_exceptions=False) as web:
        failed = web.post("/retrieve", json={"queries": ["盗窃"]})
        assert failed.status_code == 500 and failed.json()["error"] == "internal error (KeyError)"
        assert web.get("/readyz").json()["error"] in ("warming up", "warm-up failed (MemoryError)")


class ErrorAssistant(LegalAssistant):
    """Every answer is an error."""

    async def search(self, queries: Any) -> list[SearchResult]:
        return [SearchResult(status=Status.ERROR, reason="index lost") for _ in queries]


def test_a_search_r1_client_never_takes_an_error_for_no_evidence(toy_index: Any) -> None:
    with TestClient(create_app(ErrorAssistant(toy_index))) as web:
        failed = web.post("/retrieve", json={"queries": ["盗窃"]})
        assert failed.status_code == 503 and "index lost" in failed.json()["error"]


def test_no_query_text_in_the_logs(toy_index: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with TestClient(create_app(LegalAssistant(toy_index))) as web:
        web.post("/retrieve", json={"queries": ["被告人李某秘密"]})
        web.get("/v1/articles/被告人李某秘密/1")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("retrieval_server")]
    assert ours and not any("李某" in line for line in ours)


QUERIES = [
    SearchQuery(source=Source.STATUTE, query="刑法第264条 盗窃", intent="量刑幅度", top_k=3),
    SearchQuery(source=Source.PRECEDENT, query="商场盗窃手机", circumstances="自首", charge="盗窃罪", top_k=3),
    SearchQuery(source=Source.STATUTE, query="\x00 "),
    SearchQuery(source=Source.PRECEDENT, query="盗窃", court_levels=(CourtLevel.HIGH,)),
]


async def test_http_and_in_process_answers_are_the_same(toy_index: Any, serve_app: Callable[..., str]) -> None:
    url = serve_app(create_app(LegalAssistant(toy_index)))
    client = AssistantClient(url)
    await client.wait_ready(30)
    over_http = await client.search(QUERIES)
    assert plain(over_http) == plain(LegalAssistant(toy_index).search_sync(QUERIES))
    assert (await client.article("刑法", "第二百三十二条", "2021-01-01")).version_date == "2020-12-26"
    with pytest.raises(RetrievalError, match="no such article"):
        await client.article("刑法", "99999")
    await client.aclose()


async def test_the_same_with_an_llm(toy_index: Any, serve_app: Callable[..., str], chat: Any) -> None:
    def reply(body: dict[str, Any]) -> str:
        if body["response_format"]["json_schema"]["name"] == "rerank":
            return '{"order": [2, 1]}'
        return json.dumps({"key_facts": "事实", "reasoning": "", "outcome": "盗窃罪", "sentence": "一年"})

    chat.replies = [reply]
    config = AssistantConfig(llm=LLMConfig(base_url=chat.url, model="qwen"))
    client = AssistantClient(serve_app(create_app(LegalAssistant(toy_index, config))))
    over_http = await client.search(QUERIES)
    assert plain(over_http) == plain(await LegalAssistant(toy_index, config).search(QUERIES))
    assert any("llm" in unit.provenance for result in over_http for unit in result.evidence)
    await client.aclose()
