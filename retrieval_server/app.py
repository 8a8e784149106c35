"""The Legal Assistant over HTTP: Search-R1's route, the typed route, articles, health and metrics.

    app = create_app(LegalAssistant(open_index("runs/index")))

    POST /retrieve                      {"queries": ["刑法第264条"], "topk": 1, "return_scores": true}
      -> {"result": [[{"document": {"id": "law/刑法@…#264", "contents": "刑法 第二百六十四条\\n…"}, "score": 1.0}]]}
    POST /v1/search                     SearchRequest -> SearchResponse
    GET  /v1/articles/{law}/{article}   ?as_of=2020-01-01 -> Article
    POST /v1/citations                  {"text": "…刑法第264条…"} -> every cited article, looked up
    GET  /healthz, /readyz, /metrics

Every error is `{"error": one line, "request_id": …}`: 4xx for what the caller can mend, 429 and 503 with Retry-After
when the service is busy or stopping, 504 past the deadline. `X-Timeout-S` shortens the deadline of one request. Query
text is logged only with `ServiceConfig.log_queries`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from retrieval_server.assistant import LegalAssistant
from retrieval_server.citation_check import check_citations
from retrieval_server.config import ServiceConfig
from retrieval_server.logs import log_event
from retrieval_server.metrics import ServiceMetrics
from retrieval_server.middleware import Doorman
from retrieval_server.types import (
    MAX_TOP_K,
    TIMEOUT_HEADER,
    Article,
    CitationRequest,
    CitationResponse,
    Evidence,
    SearchQuery,
    SearchRequest,
    SearchResponse,
    SearchResult,
    Source,
    Status,
)
from retrieval_server.validity import is_in_force, validity_note

_log = logging.getLogger(__name__)
_DEFAULT = ServiceConfig()


class RetrieveRequest(BaseModel):
    """Body of `POST /retrieve`, as in Search-R1, with an optional source and intent for all queries."""

    model_config = ConfigDict(extra="ignore")  # Search-R1 clients send keys of their own.
    queries: list[str] = Field(min_length=1)
    topk: int | None = Field(default=None, ge=1, le=MAX_TOP_K)
    return_scores: bool = False
    source: Source | None = None
    intent: str = ""


class ServiceState:
    """One running service: admission of queries, readiness, draining."""

    def __init__(self, assistant: LegalAssistant, config: ServiceConfig) -> None:
        self.assistant = assistant
        self.config = config
        self.metrics = ServiceMetrics(assistant)
        self.in_flight = 0
        self.ready = False
        self.draining = False
        self.why_not_ready = "warming up"

    async def warm_up(self) -> None:
        """Ready when one query of each source went through; a failure is told by `/readyz`, not hidden."""
        try:
            await asyncio.to_thread(self.assistant.warm_up)
        except Exception as error:
            self.why_not_ready = f"warm-up failed ({type(error).__name__})"
            _log.exception("warm-up failed")
            return
        self.ready = True

    async def search(self, queries: Sequence[SearchQuery], deadline_s: float = math.inf) -> list[SearchResult]:
        """Answers of the Assistant, within the limits of the service and the caller's own deadline."""
        self._admit(len(queries))
        limit = min(self.config.deadline_s, deadline_s)
        self.in_flight += len(queries)
        self.metrics.in_flight.set(self.in_flight)
        try:
            async with asyncio.timeout(limit):
                results = await self.assistant.search(queries)
        except TimeoutError as error:
            raise HTTPException(504, f"no answer within {limit:g} s") from error
        finally:
            self.in_flight -= len(queries)
            self.metrics.in_flight.set(self.in_flight)
        self.metrics.observe(queries, results)
        if self.config.log_queries:
            for query, result in zip(queries, results, strict=True):
                log_event(
                    _log, "query", **query.model_dump(mode="json"), status=result.status, found=len(result.evidence)
                )
        return results

    def _admit(self, count: int) -> None:
        wait = {"Retry-After": str(self.config.retry_after_s)}
        if self.draining:
            self.metrics.rejected.labels("draining").inc(count)
            raise HTTPException(503, "the service is stopping", headers=wait)
        if count > self.config.max_queries:
            raise HTTPException(422, f"queries: {count} in one request, at most {self.config.max_queries} are answered")
        if self.in_flight and self.in_flight + count > self.config.max_in_flight:
            self.metrics.rejected.labels("busy").inc(count)
            raise HTTPException(429, f"busy: {self.in_flight} queries in flight", headers=wait)

    def check_length(self, texts: Sequence[str]) -> None:
        limit = self.config.max_query_chars
        for position, text in enumerate(texts):
            if len(text) > limit:
                raise HTTPException(422, f"queries.{position}: {len(text)} characters, at most {limit} are read")


def create_app(assistant: LegalAssistant, config: ServiceConfig = _DEFAULT) -> FastAPI:
    """The service around an assistant. `app.state.service` is its `ServiceState`."""
    service = ServiceState(assistant, config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(service.warm_up())  # In the background: /healthz answers from the start.
        yield
        service.draining = True
        warming.cancel()
        if assistant.llm:
            await assistant.llm.aclose()

    app = FastAPI(title="Legal Assistant", version="1", lifespan=lifespan)
    app.state.service = service
    app.add_middleware(Doorman, config=config, metrics=service.metrics)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_failure)
    _add_search_routes(app, service)
    _add_status_routes(app, service)
    return app


def _add_search_routes(app: FastAPI, service: ServiceState) -> None:
    guarded = [Depends(_key_check(service.config.api_key_env))]

    @app.post("/retrieve", dependencies=guarded)
    async def retrieve(body: RetrieveRequest, request: Request) -> dict[str, Any]:
        """Search-R1's route. `status` beside `result` tells per query: ok, empty, degraded."""
        service.check_length([*body.queries, body.intent])
        source = body.source or Source(service.config.default_source)
        top_k = body.topk or service.config.default_top_k
        # A blank query has no answer; it must not fail the others of its batch.
        asked = {
            i: _query(i, source=source, query=text, intent=body.intent, top_k=top_k)
            for i, text in enumerate(body.queries)
            if text.strip()
        }
        found = await service.search(list(asked.values()), _timeout(request)) if asked else []
        results = dict(zip(asked, found, strict=True))
        for position, result in results.items():
            if result.status is Status.ERROR:
                raise HTTPException(503, f"queries.{position}: {result.reason}")
        blank = SearchResult(status=Status.EMPTY)
        answers = [results.get(i, blank) for i in range(len(body.queries))]
        return {
            "result": [[_document(unit, body.return_scores) for unit in answer.evidence] for answer in answers],
            "status": [answer.status for answer in answers],
        }

    @app.post("/v1/search", dependencies=guarded)
    async def search(body: SearchRequest, request: Request) -> Response:
        """The typed route."""
        results = await service.search(body.queries, _timeout(request))
        answer = SearchResponse(results=tuple(results), index_version=service.assistant.index_version)
        return Response(answer.model_dump_json(), media_type="application/json")

    @app.post("/v1/citations", dependencies=guarded)
    async def citations(body: CitationRequest) -> CitationResponse:
        """Every article and case number cited in a text: in force, not in force, not found, or naming no law."""
        found = await asyncio.to_thread(check_citations, service.assistant.index, body.text, body.as_of)
        return CitationResponse(citations=tuple(found), index_version=service.assistant.index_version)

    @app.get("/v1/articles/{law}/{article}", dependencies=guarded)
    async def get_article(law: str, article: str, as_of: date | None = None) -> Article:
        """One article, as `264`, `133-1`, `133之一` or `第一百三十三条之一`, in force on `as_of` (default today).

        404 where the knowledge base has no version of it that governs that day; the nearest one is named.
        """
        service.check_length([law, article])
        found = service.assistant.article(law, article, as_of)
        if found is None:
            raise HTTPException(404, f"no such article: {law[:80]} {article[:80]}")
        day = as_of or date.today()
        if not is_in_force(found, day):
            nearest = f"nearest text: {found.id}, {validity_note(found, day)}"
            raise HTTPException(404, f"not in the knowledge base: {law[:80]} {article[:80]} on {day}; {nearest}")
        return found


def _add_status_routes(app: FastAPI, service: ServiceState) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Alive."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> Response:
        """Index loaded, encoder and numba warm, not stopping: 200; else 503."""
        if service.draining or not service.ready:
            return _error(503, "stopping" if service.draining else service.why_not_ready, {"Retry-After": "1"})
        index = service.assistant.index
        return JSONResponse(
            {
                "status": "ready",
                "index_version": service.assistant.index_version,
                "articles": len(index.articles),
                "cases": len(index.cases),
            }
        )

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus text."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _document(unit: Evidence, with_score: bool) -> dict[str, Any]:
    """Search-R1's document: the first line of `contents` is the title."""
    title = f"{unit.title} {unit.label}".strip()
    document = {"id": unit.id, "contents": f"{title}\n{unit.text}"}
    return {"document": document, "score": unit.score} if with_score else document


def _query(position: int, **fields: Any) -> SearchQuery:
    """A typed query; text that is no Unicode (lone surrogates pass JSON) is the caller's fault."""
    try:
        return SearchQuery(**fields)
    except ValidationError as error:
        raise HTTPException(422, f"queries.{position}: {error.errors()[0]['msg']}") from error


def _timeout(request: Request) -> float:
    """Seconds that the caller will still wait (`X-Timeout-S`); unreadable or absent = no limit of its own."""
    try:
        seconds = float(request.headers.get(TIMEOUT_HEADER, "inf"))
    except ValueError:
        return math.inf
    return max(seconds, 0.001) if seconds == seconds else math.inf  # NaN is no deadline


def _key_check(variable: str) -> Any:
    async def check(request: Request) -> None:
        wanted = os.environ.get(variable)
        given = request.headers.get("authorization", "")
        if wanted and not hmac.compare_digest(given.encode(), f"Bearer {wanted}".encode()):
            raise HTTPException(401, "a valid bearer key is needed", headers={"WWW-Authenticate": "Bearer"})

    return check


def _error(code: int, text: str, headers: dict[str, str] | None = None, request: Request | None = None) -> Response:
    """`{"error": …}`; text that cannot be encoded is replaced, so that an error answer never fails itself."""
    line = " ".join(text.split())[:500].encode("utf-8", "replace").decode()
    body = {"error": line}
    if request is not None:
        body["request_id"] = getattr(request.state, "request_id", "")
    return JSONResponse(body, code, headers=headers)


async def _on_invalid(request: Request, error: Exception) -> Response:
    """422 with the first problem's place; never echoes the input."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return _error(422, f"{place}: {first['msg']}" if place else str(first["msg"]), request=request)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, str(error.detail), dict(error.headers or {}), request)


async def _on_failure(request: Request, error: Exception) -> Response:
    return _error(500, f"internal error ({type(error).__name__})", request=request)
