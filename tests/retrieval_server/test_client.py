"""The client against real servers and faults of every kind: a result, or RetrievalError before the deadline."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from retrieval_server.client import AssistantClient, Outage
from retrieval_server.errors import RetrievalError
from retrieval_server.types import Evidence, SearchQuery, SearchResponse, SearchResult, Source, Status

QUERY = SearchQuery(source=Source.STATUTE, query="刑法第264条")
UNIT = Evidence(id="law/刑法@2020-12-26#264", source=Source.STATUTE, title="刑法", text="盗窃", score=0.1 + 0.2)
RESULT = SearchResult(status=Status.OK, evidence=(UNIT,), timings_ms={"total": 1.5})


def http(body: bytes | str, status: str = "200 OK", *headers: str, length: int | None = None) -> Callable[..., None]:
    """A script that sends one answer and closes."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(raw) if length is None else length}", "Connection: close"]
    head = "\r\n".join([*lines, *headers]) + "\r\n\r\n"
    return lambda connection: connection.sendall(head.encode() + raw)


def reset(connection: socket.socket) -> None:
    """Close with RST, as a killed process does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def hang(connection: socket.socket) -> None:
    connection.recv(1)


def drip(connection: socket.socket) -> None:
    """A byte now and then: never silent, never done."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


def half_closed(connection: socket.socket) -> None:
    """Stop sending without an answer, but keep the connection."""
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)


def ok(*results: SearchResult) -> Callable[..., None]:
    return http(SearchResponse(results=results or (RESULT,)).model_dump_json())


FAULTS = {
    "killed mid-request": reset,
    "hangs": hang,
    "drips": drip,
    "half-closed": half_closed,
    "cut body": http('{"results": [', length=500),
    "malformed JSON": http('{"results": ['),
    "not our JSON": http('{"hits": []}'),
    "HTML": http("<html>proxy</html>"),
    "empty body": http(""),
    "no HTTP": lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "too few results": http('{"results": []}'),
    "too many results": ok(RESULT, RESULT),
    "500": http('{"error": "internal"}', "500 Internal Server Error"),
    "502 of a proxy": http("<html>", "502 Bad Gateway"),
    "429 flood": http('{"error": "busy"}', "429 Too Many Requests"),
    "429 with a long Retry-After": http("", "429 Too Many Requests", "Retry-After: 60"),
    "redirect": http("", "302 Found", "Location: http://127.0.0.1:1/"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_every_fault_is_a_retrieval_error_within_the_deadline(fault: Any, scripted: Any) -> None:
    client = AssistantClient(scripted(fault).url, timeout_s=0.3)
    start = time.monotonic()
    with pytest.raises(RetrievalError, match=r"Legal Assistant at http://127"):
        await client.search([QUERY])
    assert time.monotonic() - start < 1.0
    await client.aclose()


async def test_connection_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(RetrievalError, match="ConnectError"):
            await AssistantClient(url, timeout_s=10, max_retries=0).search([QUERY])


@pytest.mark.parametrize("fault", [reset, half_closed, FAULTS["malformed JSON"], FAULTS["500"], FAULTS["429 flood"]])
async def test_a_passing_fault_is_retried(fault: Any, scripted: Any) -> None:
    server = scripted(fault, fault, ok())
    async_client = AssistantClient(server.url, timeout_s=10)
    assert await async_client.search([QUERY]) == [RESULT]
    assert server.connections == 3


async def test_a_refused_request_is_not_repeated(scripted: Any) -> None:
    server = scripted(http('{"error": "queries.0: 5000 characters"}', "422 Unprocessable Entity"))
    with pytest.raises(RetrievalError, match=r"refused the request: HTTP 422: queries.0: 5000 characters"):
        await AssistantClient(server.url).search([QUERY])
    assert server.connections == 1


async def test_retry_after_is_honoured(scripted: Any) -> None:
    server = scripted(http("", "503 Service Unavailable", "Retry-After: 1"), ok())
    start = time.monotonic()
    assert await AssistantClient(server.url, timeout_s=5).search([QUERY]) == [RESULT]
    assert 1.0 <= time.monotonic() - start < 2.0


async def test_retry_budget(scripted: Any) -> None:
    server = scripted(FAULTS["500"])
    with pytest.raises(RetrievalError, match=r"3 tries: HTTP 500: internal"):
        await AssistantClient(server.url, timeout_s=30, max_retries=2).search([QUERY])
    assert server.connections == 3


async def test_patience_outlasts_the_timeout_and_tells(scripted: Any) -> None:
    server = scripted(hang, reset, ok())
    outages: list[Outage] = []
    recovered: list[float] = []
    client = AssistantClient(
        server.url, timeout_s=0.2, outage_patience_s=10, on_outage=outages.append, on_recovery=recovered.append
    )
    assert await client.search([QUERY]) == [RESULT]
    assert len(outages) == 2 and len(recovered) == 1
    assert "does not answer" in str(outages[0]) and "no answer within 0.2 s" in str(outages[0])


async def test_more_queries_than_one_request_takes(scripted: Any) -> None:
    server = scripted(ok(*[RESULT] * 256), ok(*[RESULT] * 256))
    with pytest.raises(RetrievalError):  # 256 + 44: the second answer has the wrong length.
        await AssistantClient(server.url, timeout_s=0.5).search([QUERY] * 300)


def test_one_client_for_several_loops_and_after_a_fork(scripted: Any) -> None:
    client = AssistantClient(scripted(ok()).url)

    async def ask() -> list[SearchResult]:
        return await client.search([QUERY])

    assert asyncio.run(ask()) == asyncio.run(ask()) == client.search_sync([QUERY]) == [RESULT]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if asyncio.run(ask()) == [RESULT] else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


async def test_sync_search_inside_a_running_loop(scripted: Any) -> None:
    assert AssistantClient(scripted(ok()).url).search_sync([QUERY]) == [RESULT]


def test_travels_to_other_processes(scripted: Any) -> None:
    client = pickle.loads(pickle.dumps(AssistantClient(scripted(ok()).url, timeout_s=7)))
    assert client.search_sync([QUERY]) == [RESULT]


async def test_wait_ready(scripted: Any) -> None:
    server = scripted(http("", "503 Service Unavailable"), reset, http("{}"))
    await AssistantClient(server.url).wait_ready(5)
    never = AssistantClient(scripted(FAULTS["500"]).url)
    with pytest.raises(RetrievalError, match=r"not ready after 0 s: HTTP 500"):
        await never.wait_ready(0.3)


def test_address_must_be_http() -> None:
    with pytest.raises(RetrievalError, match="must start with http"):
        AssistantClient("localhost:8000")


async def test_no_queries_no_request() -> None:
    assert await AssistantClient("http://127.0.0.1:9").search([]) == []


def test_imports_without_an_index_or_heavy_libraries() -> None:
    heavy = ["numpy", "numba", "faiss", "bm25s", "torch", "ray", "verl", "vllm", "transformers", "fastapi", "openai"]
    code = f"import sys, retrieval_server.client; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
