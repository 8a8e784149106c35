"""The embeddings endpoint over real HTTP: batches, troubles that pass, troubles that last."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.assistant import LegalAssistant
from retrieval_server.dense import make_encoder
from retrieval_server.encoders import BATCH, EndpointEncoder
from retrieval_server.errors import IndexStateError, RetrievalError
from retrieval_server.index import build_index
from retrieval_server.types import SearchQuery, Source, Status


class Embeddings(ThreadingHTTPServer):
    """Vector of a text: counts of three characters; `behave(attempt)` says what goes wrong, counted from 0."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sizes: list[int] = []
        self.attempts = 0
        self.behave: Callable[[int], str] = lambda attempt: "ok"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Embeddings
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        kind = self.server.behave(self.server.attempts)
        self.server.attempts += 1
        if kind == "cut":
            self.connection.close()
            self.close_connection = True
            return
        if kind.isdigit():
            self._send(int(kind), b"{}")
            return
        self.server.sizes.append(len(body["input"]))
        rows = [[text.count(c) + 0.1 for c in "盗诈杀"] for text in body["input"]]
        rows = {"zero": [[0.0] * 3] * len(rows), "short": rows[:-1], "wide": [[*row, 1.0] for row in rows]}.get(
            kind, rows
        )
        data = [{"index": n, "embedding": row} for n, row in enumerate(rows)]
        data.reverse()  # the order of the rows is theirs to tell
        self._send(200, b"<html>" if kind == "html" else json.dumps({"data": data, "model": body["model"]}).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def endpoint() -> Iterator[Embeddings]:
    server = Embeddings()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_texts_go_in_batches_and_come_back_in_order(endpoint: Embeddings) -> None:
    encoder = make_encoder(f"openai:toy@{endpoint.url}")
    assert isinstance(encoder, EndpointEncoder) and encoder.dim == 3
    texts = ["盗" * (n % 5) + "诈" * (n % 3) for n in range(BATCH + 20)]
    vectors = encoder.encode(texts)
    assert endpoint.sizes == [1, BATCH, 20] and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(texts)))
    expected = np.array([[text.count(c) + 0.1 for c in "盗诈杀"] for text in texts])
    assert vectors == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6)


@pytest.mark.parametrize("trouble", ["429", "500", "cut", "html"])
def test_troubles_that_pass_are_asked_again(endpoint: Embeddings, trouble: str) -> None:
    endpoint.behave = lambda attempt: trouble if attempt < 2 else "ok"
    assert EndpointEncoder("toy", endpoint.url).encode(["盗"]).shape == (1, 3)
    assert endpoint.attempts == 4  # two troubles, the dimension, the text


@pytest.mark.parametrize(
    ("trouble", "text"),
    [("500", "status 500"), ("400", "status 400"), ("zero", "zero or not finite"), ("short", r"\(0, 3\)|\(0,\)")],
)
def test_a_lasting_trouble_is_an_error_and_no_vector(endpoint: Embeddings, trouble: str, text: str) -> None:
    endpoint.behave = lambda attempt: trouble
    with pytest.raises(RetrievalError, match=f"encoder toy at .* failed: .*({text})"):
        EndpointEncoder("toy", endpoint.url, max_retries=1).encode(["盗"])
    assert endpoint.attempts <= 2


def test_vectors_of_another_size_are_refused(endpoint: Embeddings) -> None:
    encoder = EndpointEncoder("toy", endpoint.url, max_retries=0)
    assert encoder.dim == 3
    endpoint.behave = lambda attempt: "wide"
    with pytest.raises(RetrievalError, match="of 3 dimensions"):
        encoder.encode(["盗"])


@pytest.mark.parametrize("spec", ["openai:toy", "openai:@http://x", "openai:toy@ftp://x"])
def test_a_wrong_spec_is_one_line(spec: str) -> None:
    with pytest.raises(IndexStateError, match="write openai:MODEL@URL"):
        make_encoder(spec)


def test_an_outage_while_searching_is_an_error_and_never_empty(endpoint: Embeddings, tmp_path: Path) -> None:
    row = {
        "id": "law/刑法@2020-01-01#264", "kind": "law", "law_title": "刑法", "law_key": "刑法", "article_no": 264,
        "version_date": "2020-01-01", "effective_date": "2020-01-01", "article_label": "第264条", "text": "盗窃财物。",
    }  # fmt: skip
    (tmp_path / "norms.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    encoder = EndpointEncoder("toy", endpoint.url, max_retries=0)
    index = build_index(tmp_path / "index", str(tmp_path / "norms.jsonl"), (), encoder)
    query = SearchQuery(source=Source.STATUTE, query="盗窃")
    assert LegalAssistant(index).search_sync([query])[0].status is Status.OK
    endpoint.behave = lambda attempt: "500"
    other = SearchQuery(source=Source.STATUTE, query="盗窃罪的构成")
    assert LegalAssistant(index).search_sync([other])[0].status is Status.ERROR
