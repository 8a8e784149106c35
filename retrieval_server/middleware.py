"""What stands before every route: request ids, body limit, one log line and the request metrics. Pure ASGI."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval_server.config import ServiceConfig
from retrieval_server.logs import log_event
from retrieval_server.metrics import ServiceMetrics

_log = logging.getLogger("retrieval_server.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNKNOWN_ROUTE = "unknown"


class _BodyTooLarge(HTTPException):
    """An HTTPException, because FastAPI takes every other error while reading a body for broken JSON (400)."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"body is larger than {limit} bytes")


class Doorman:
    """Refuses bodies over the limit with 413, names every request, and counts it. Never logs what was asked."""

    def __init__(self, app: ASGIApp, config: ServiceConfig, metrics: ServiceMetrics) -> None:
        self.app = app
        self.config = config
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = _request_id(headers.get(b"x-request-id", b""))
        scope.setdefault("state", {})["request_id"] = request_id
        start, seen = time.perf_counter(), {"code": 500, "started": False}

        async def named_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.update(code=message["status"], started=True)
                message = {**message, "headers": [*message["headers"], (b"x-request-id", request_id.encode())]}
            await send(message)

        try:
            await self._pass_on(scope, receive, named_send, headers)
        except _BodyTooLarge as refusal:
            if not seen["started"]:
                await _send_json(named_send, refusal.status_code, refusal.detail, request_id)
        finally:
            self._note(scope, seen["code"], time.perf_counter() - start, request_id)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        limit, received = self.config.max_body_bytes, 0
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise _BodyTooLarge(limit)

        async def counted_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _BodyTooLarge(limit)
            return message

        await self.app(scope, counted_receive, send)

    def _note(self, scope: Scope, code: int, seconds: float, request_id: str) -> None:
        route = getattr(scope.get("route"), "path", _UNKNOWN_ROUTE)
        self.metrics.requests.labels(route, str(code)).inc()
        self.metrics.request_seconds.labels(route).observe(seconds)
        fields = {"method": scope["method"], "route": route, "code": code, "ms": round(1000 * seconds, 1)}
        log_event(_log, "request", **fields, request_id=request_id)


def _request_id(given: bytes) -> str:
    text = given.decode("latin-1")
    return text if _REQUEST_ID.fullmatch(text) else uuid.uuid4().hex


async def _send_json(send: Any, code: int, error: str, request_id: str) -> None:
    body = json.dumps({"error": error, "request_id": request_id}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
