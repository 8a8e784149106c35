"""The application over HTTP: OpenAI's chat completions, typed answers, the page for people.

    POST /v1/chat/completions   OpenAI's shape, stream or not; extras in `legal_rl`
    POST /v1/answers            {"question": "…", "stream": false} -> answer, citations, trajectory, timings
    GET  /v1/models, /v1/settings, /v1/articles/{law}/{article}
    GET  /                      the page;  /healthz, /readyz, /metrics

Errors are `{"error": {"message", "type", "code"}, "request_id"}`. Once a stream has begun they are an `error` event.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import ConfigDict, Field
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from envs.records import RolloutWriter
from legal_rl.serving.access import Caller, Gate
from legal_rl.serving.answer import Answer
from legal_rl.serving.answerer import Answerer, Ask
from legal_rl.serving.events import AnswerError, Event
from legal_rl.serving.hygiene import redact
from legal_rl.serving.kept import redacted_rollout
from legal_rl.serving.knowledge import ArticleNotFoundError
from legal_rl.serving.openai_api import ChatRequest, Wishes, check_length, chunks_of, completion_of
from legal_rl.serving.settings import LAWYER_AS_JUDGE, ServeConfig
from retrieval_server.errors import RetrievalError
from retrieval_server.logs import log_event
from retrieval_server.middleware import Doorman
from retrieval_server.types import Article

_log = logging.getLogger("legal_rl.serving")
PAGE = Path(__file__).parent / "page"
PAGE_FILES = {"app.js": "text/javascript", "words.js": "text/javascript", "style.css": "text/css"}
PING_S = 10
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"


class AnswerRequest(Wishes):
    """Body of `POST /v1/answers`."""

    model_config = ConfigDict(extra="forbid")
    question: str = Field(min_length=1)
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0, le=2)
    trajectory: bool = True
    """With the whole answer: every turn as it was."""

    def to_ask(self, max_chars: int) -> Ask:
        check_length(self.question, max_chars)
        fields = self.model_dump(exclude={"stream", "trajectory"})
        return Ask(**fields)


class App:
    """One running application: admission, kept trajectories, draining."""

    def __init__(self, answerer: Answerer, config: ServeConfig) -> None:
        self.answerer, self.config = answerer, config
        self.gate = Gate(config.limits)
        self.metrics = answerer.metrics
        self.writer = RolloutWriter(Path(config.logs.trajectories)) if config.logs.trajectories else None

    @asynccontextmanager
    async def admitted(self, request: Request) -> AsyncIterator[Caller]:
        """A place for one question; refusals are counted."""
        address = request.client.host if request.client else ""
        try:
            async with self.gate.admit(request.headers.get("authorization", ""), address) as caller:
                yield caller
        except AnswerError as error:
            if error.status in (401, 429):
                self.metrics.rejected.labels(error.code).inc()
            raise

    def check_key(self, request: Request) -> None:
        """For what costs nothing but is not for everybody."""
        self.gate.caller(request.headers.get("authorization", ""), request.client.host if request.client else "")

    def note(self, caller: Caller, ask: Ask, answer: Answer) -> None:
        """One log line per answer, and its rollout where trajectories are kept."""
        fields: dict[str, Any] = {"caller": caller.name, "id": ask.id, "stop_reason": answer.rollout.stop_reason.value}
        fields |= {"searches": len(answer.rollout.searches), **answer.usage, **answer.timings}
        if self.config.logs.log_questions:
            fields["question"] = redact(answer.question) if self.config.logs.redact else answer.question
        log_event(_log, "answer", **fields)
        if self.writer is not None:
            kept = redacted_rollout(answer.rollout) if self.config.logs.redact else answer.rollout
            self.writer.write(kept)


def create_app(answerer: Answerer, config: ServeConfig, close: Callable[[], Awaitable[None]] | None = None) -> FastAPI:
    """The application around an answerer; `close` is awaited at the end. `app.state.app` is its `App`."""
    service = App(answerer, config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.gate.draining = True
        if service.writer is not None:
            service.writer.close()
        if close is not None:
            await close()

    app = FastAPI(title="Legal-RL", version="1", lifespan=lifespan)
    app.state.app = service
    app.add_middleware(Doorman, config=config.limits, metrics=service.metrics)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(AnswerError, _on_answer_error)
    app.add_exception_handler(Exception, _on_failure)
    _add_answer_routes(app, service)
    _add_reading_routes(app, service)
    _add_status_routes(app, service)
    return app


def _add_answer_routes(app: FastAPI, service: App) -> None:
    answerer, limits = service.answerer, service.config.limits

    @app.post("/v1/chat/completions", response_model=None)
    async def chat(body: ChatRequest, request: Request) -> Response:
        """OpenAI-compatible chat completions."""
        ask = body.to_ask(service.config.model_id, limits.max_question_chars)
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return await _streamed(service, request, ask, _openai_stream(service, ask, usage))
        async with service.admitted(request) as caller:
            answer = await _watched(request, answerer.answer(ask))
            service.note(caller, ask, answer)
            return JSONResponse(completion_of(answer, answerer.guard))

    @app.post("/v1/answers", response_model=None)
    async def answers(body: AnswerRequest, request: Request) -> Response:
        """The answer with its trajectory, citations and timings; with `stream`, the events as they happen."""
        ask = body.to_ask(limits.max_question_chars)
        if body.stream:
            return await _streamed(service, request, ask, _event_stream)
        async with service.admitted(request) as caller:
            answer = await _watched(request, answerer.answer(ask))
            service.note(caller, ask, answer)
            return JSONResponse(answer.as_dict(answerer.guard, body.trajectory))


Writer = Callable[[AsyncIterator[Event]], AsyncIterator[dict[str, str]]]


async def _streamed(service: App, request: Request, ask: Ask, write: Writer) -> Response:
    """Server-sent events; refusals and an absent knowledge base are told before they begin, with their status."""
    stack = AsyncExitStack()
    caller = await stack.enter_async_context(service.admitted(request))
    try:
        if reason := await service.answerer.knowledge.ready():
            raise AnswerError("retrieval_unavailable", f"the knowledge base cannot be searched: {reason}", 503)
    except BaseException:
        await stack.aclose()
        raise

    async def body() -> AsyncIterator[dict[str, str]]:
        events = _noted(service, caller, ask)
        try:
            async for message in write(events):
                yield message
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    return _Stream(body(), stack, ping=PING_S, send_timeout=service.config.limits.send_timeout_s)


class _Stream(EventSourceResponse):
    """Gives the question's place back however the response ends, also when its body was never begun."""

    def __init__(self, body: AsyncIterator[dict[str, str]], place: AsyncExitStack, **options: Any) -> None:
        super().__init__(body, **options)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._place.aclose()


async def _noted(service: App, caller: Caller, ask: Ask) -> AsyncIterator[Event]:
    finished: list[Answer] = []
    events = service.answerer.events(ask, finished.append)
    try:
        async for event in events:
            yield event
    finally:
        await events.aclose()  # type: ignore[attr-defined]
        for answer in finished:
            service.note(caller, ask, answer)


async def _event_stream(events: AsyncIterator[Event]) -> AsyncIterator[dict[str, str]]:
    async for event in events:
        yield {"event": event.type.value, "data": _json(event.data)}


def _openai_stream(service: App, ask: Ask, include_usage: bool) -> Writer:
    async def write(events: AsyncIterator[Event]) -> AsyncIterator[dict[str, str]]:
        async for chunk in chunks_of(events, ask, service.config.model_id, include_usage):
            yield {"data": _json(chunk)}
        yield {"data": "[DONE]"}

    return write


async def _watched(request: Request, work: Awaitable[Answer]) -> Answer:
    """The answer, unless the client goes away first: then the work is cancelled."""
    task = asyncio.ensure_future(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            raise AnswerError("client_closed", "the client went away", 499)
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _add_reading_routes(app: FastAPI, service: App) -> None:
    config = service.config

    @app.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        """OpenAI's list of models: there is one."""
        service.check_key(request)
        model = {"id": config.model_id, "object": "model", "created": 0, "owned_by": "legal-rl"}
        return {"object": "list", "data": [model]}

    @app.get("/v1/settings")
    async def settings(request: Request) -> dict[str, Any]:
        """What a client may choose: Judges and limits."""
        service.check_key(request)
        limits = config.limits
        return {
            "model": config.model_id,
            "judges": [LAWYER_AS_JUDGE, *service.answerer.judges],
            "judge": config.judge,
            "strict": config.strict_citations,
            "max_turns": min(config.environment.max_turns, limits.max_turns),
            "max_question_chars": limits.max_question_chars,
            "deadline_s": limits.deadline_s,
        }

    @app.get("/v1/articles/{law}/{article}")
    async def get_article(law: str, article: str, request: Request, as_of: date | None = None) -> Article:
        """One article in force on `as_of` (default today); 404 says what the knowledge base has instead."""
        service.check_key(request)
        if max(len(law), len(article)) > 200:
            raise HTTPException(422, "law and article: at most 200 characters")
        try:
            return await service.answerer.knowledge.article(law, article, as_of)
        except ArticleNotFoundError as error:
            raise HTTPException(404, str(error)) from error
        except RetrievalError as error:
            raise AnswerError("retrieval_unavailable", str(error), 503) from error

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html", headers={"Content-Security-Policy": POLICY})

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in PAGE_FILES:
            raise HTTPException(404, "no such file")
        return FileResponse(PAGE / name, media_type=PAGE_FILES[name], headers={"Cache-Control": "no-cache"})


def _add_status_routes(app: FastAPI, service: App) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Alive."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> Response:
        """The knowledge base answers and this replica is not stopping: 200; else 503."""
        reason = "stopping" if service.gate.draining else await service.answerer.knowledge.ready()
        if reason:
            return _error(503, "not_ready", reason, headers={"Retry-After": "1"})
        return JSONResponse({"status": "ready", "model": service.config.model_id, "time": int(time.time())})

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus text of this replica."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _error(
    status: int, code: str, text: str, request: Request | None = None, headers: dict[str, str] | None = None
) -> Response:
    line = " ".join(text.split())[:500].encode("utf-8", "replace").decode()
    kind = "invalid_request_error" if status < 500 else "server_error"
    body: dict[str, Any] = {"error": {"message": line, "type": kind, "code": code}}
    if request is not None:
        body["request_id"] = getattr(request.state, "request_id", "")
    return JSONResponse(body, status, headers=headers)


async def _on_invalid(request: Request, error: Exception) -> Response:
    """422 with the first problem's place; never echoes the input."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return _error(422, "invalid_request", f"{place}: {first['msg']}" if place else str(first["msg"]), request)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, "http_error", str(error.detail), request, dict(error.headers or {}))


async def _on_answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnswerError)
    again = {"Retry-After": str(request.app.state.app.config.limits.retry_after_s)}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: again, 503: again}
    return _error(error.status, error.code, str(error), request, headers.get(error.status))


async def _on_failure(request: Request, error: Exception) -> Response:
    _log.exception("internal error")
    return _error(500, "internal_error", f"internal error ({type(error).__name__})", request)
