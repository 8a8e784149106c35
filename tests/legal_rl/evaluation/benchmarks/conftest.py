"""A real HTTP server that speaks the chat protocol and misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Behaviour = str
"""`ok`, a status such as `429`, `slow` (longer than the client waits), `cut` (closed half-way), `broken` (no JSON)."""


@dataclass
class ToyModel:
    """Answers with `reply(prompt)`; `behave(prompt, attempt)` says how the attempt goes, counted per prompt from 0."""

    url: str = ""
    reply: Callable[[str], str] = lambda prompt: "C"
    behave: Callable[[str, int], Behaviour] = lambda prompt, attempt: "ok"
    attempts: dict[str, int] = field(default_factory=dict)
    temperatures: set[float] = field(default_factory=set)
    slow_s: float = 1.0

    @property
    def requests(self) -> int:
        return sum(self.attempts.values())


@pytest.fixture
def toy_model() -> Iterator[ToyModel]:
    """A server of the test's own."""
    with serving() as model:
        yield model


@pytest.fixture(scope="module")
def shared_model() -> Iterator[ToyModel]:
    """One server for the runs that a whole file of tests reads."""
    with serving() as model:
        yield model


@contextmanager
def serving() -> Iterator[ToyModel]:
    model = ToyModel()
    server = _Server(("127.0.0.1", 0), _handler(model))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # five waiting connections are few for a whole benchmark on a busy machine


def _handler(model: ToyModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body["messages"][-1]["content"]
            attempt = model.attempts.get(prompt, 0)
            model.attempts[prompt] = attempt + 1
            model.temperatures.add(body["temperature"])
            behaviour = model.behave(prompt, attempt)
            if behaviour == "slow":
                time.sleep(model.slow_s)
            if behaviour.isdigit():
                self._send(int(behaviour), b'{"error": {"message": "not now"}}')
            elif behaviour == "broken":
                self._send(200, b'{"choices": [{"mess')
            else:
                self._send(200, _answer(model.reply(prompt)), cut=behaviour == "cut")

        def _send(self, status: int, body: bytes, cut: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True

    return Handler


def _answer(text: str) -> bytes:
    return json.dumps(
        {
            "id": "toy", "object": "chat.completion", "created": 0, "model": "toy",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        },
    ).encode()  # fmt: skip
