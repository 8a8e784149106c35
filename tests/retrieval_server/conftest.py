"""A toy index, and real loopback servers: the service itself, a chat endpoint and a scripted TCP server."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from retrieval_server.types import Article, Case, CourtLevel

LAW = "中华人民共和国刑法"


def _article(number: int, label: str, text: str, version: str = "2024-03-01", **more: Any) -> Article:
    return Article(
        id=f"law/刑法@{version}#{number}",
        kind="law",
        law_title=LAW,
        law_key="刑法",
        version_date=version,
        effective_date=version,
        article_no=number,
        article_label=label,
        text=text,
        **more,
    )


TOY_ARTICLES = [
    _article(
        264,
        "第二百六十四条",
        "盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金；数额巨大的，处三年以上十年以下有期徒刑。",
    ),
    _article(
        266,
        "第二百六十六条",
        "诈骗公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制；数额特别巨大的，处十年以上有期徒刑。",
    ),
    _article(
        232,
        "第二百三十二条",
        "故意杀人的，处死刑、无期徒刑或者十年以上有期徒刑；情节较轻的，处三年以上十年以下有期徒刑。",
        version="2020-12-26",
        in_force_until="2024-03-01",
    ),
    _article(232, "第二百三十二条", "故意杀人的，处死刑、无期徒刑或者十年以上有期徒刑（新）。"),
    _article(20, "第二十条", "正当防卫明显超过必要限度造成重大损害的，应当负刑事责任，但是应当减轻或者免除处罚。"),
    _article(
        67, "第六十七条", "犯罪以后自动投案，如实供述自己的罪行的，是自首。对于自首的犯罪分子，可以从轻或者减轻处罚。"
    ),
]

TOY_CASES = [
    Case(
        id=f"case/{n}",
        court=court,
        court_level=level,
        charges=("盗窃罪",),
        articles=("第二百六十四条",),
        facts=f"被告人张某{n}在云州市某商场盗窃手机，价值人民币{n}千元，后自首并退赃。",
        reason="被告人以非法占有为目的，秘密窃取他人财物，数额较大，构成盗窃罪。",
        result=f"被告人张某犯盗窃罪，判处有期徒刑{n}年，并处罚金人民币{n}千元。",
        psi=360.0 * n,
        generated=True,
    )
    for n, court, level in (
        (1, "云州市东城区人民法院", CourtLevel.PRIMARY),
        (2, "云州市中级人民法院", CourtLevel.INTERMEDIATE),
        (3, "云山省高级人民法院", CourtLevel.HIGH),
        (4, "云州市西城区人民法院", CourtLevel.PRIMARY),
    )
]


@pytest.fixture(scope="session")
def toy_index(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A `LegalIndex` over six articles (one in two versions) and four precedents, without a dense index."""
    from retrieval_server.index import build_index

    folder = tmp_path_factory.mktemp("toy") / "index"
    corpus = folder.with_suffix(".jsonl")
    corpus.write_text("".join(norm_line(article) for article in TOY_ARTICLES), encoding="utf-8")
    index = build_index(folder, corpora=str(corpus), cases=TOY_CASES, encoder="none")
    index.folder = folder  # type: ignore[attr-defined]
    return index


def norm_line(article: Article) -> str:
    """One line of `norms.jsonl`."""
    record = article.model_dump(exclude={"in_force_until"}) | {"is_latest": article.in_force_until is None}
    return json.dumps(record | {"superseded_by": None, "category": "法律"}, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def running(app: FastAPI, **settings: Any) -> Iterator[str]:
    """The app under a real uvicorn on loopback; gives its base URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, **settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listener.close()


@pytest.fixture
def serve_app() -> Iterator[Callable[[FastAPI], str]]:
    """`serve_app(app)` starts the app and gives its URL; stopped at the end of the test."""
    with contextlib.ExitStack() as stack:
        yield lambda app, **settings: stack.enter_context(running(app, **settings))


@dataclass
class ChatEndpoint:
    """`/v1/chat/completions` that answers with `replies` in turn (the last one for ever) and keeps the requests.

    A reply is an int (HTTP status), a `str` (content of the message), a (status, text) error pair, a float (seconds to
    hang), or a function of the request's body that gives one of these.
    """

    url: str = ""
    replies: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: Request) -> JSONResponse:
        import asyncio

        body = await request.json()
        self.requests.append(body)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if callable(reply):
            reply = reply(body)
        if isinstance(reply, float):
            await asyncio.sleep(reply)
            reply = 500
        if isinstance(reply, int):
            reply = (reply, "scripted failure")
        if isinstance(reply, tuple):
            return JSONResponse({"error": {"message": reply[1], "type": "x", "code": reply[0]}}, reply[0])
        finish = "length" if reply.endswith("<cut>") else "stop"
        message = {"role": "assistant", "content": reply.removesuffix("<cut>")}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return JSONResponse({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})


@pytest.fixture
def chat(serve_app: Callable[[FastAPI], str]) -> ChatEndpoint:
    """A running chat endpoint; set `chat.replies`."""
    endpoint = ChatEndpoint()
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> JSONResponse:
        return await endpoint.answer(request)

    endpoint.url = serve_app(app) + "/v1"
    return endpoint


@dataclass
class ScriptedServer:
    """A TCP server that reads one request per connection and plays the next script (the last one for ever)."""

    scripts: list[Callable[[socket.socket], None]]
    url: str = ""
    connections: int = 0

    def start(self) -> None:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            script = self.scripts[min(self.connections, len(self.scripts) - 1)]
            self.connections += 1
            threading.Thread(target=self._play, args=(script, connection), daemon=True).start()

    @staticmethod
    def _play(script: Callable[[socket.socket], None], connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            _read_request(connection)
            script(connection)


def _read_request(connection: socket.socket) -> None:
    """Head and body: what is left unread would turn every close into a reset."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(1 << 16)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(1 << 16)


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    """`scripted(script, …)` starts a `ScriptedServer`."""
    servers: list[ScriptedServer] = []

    def start(*scripts: Callable[[socket.socket], None]) -> ScriptedServer:
        servers.append(ScriptedServer(list(scripts)))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
