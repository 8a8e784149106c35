"""A real HTTP server that speaks the OpenAI chat protocol and misbehaves in every way the issue names."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from legal_rl.data.readers.lines import write_lines
from legal_rl.data.readers.sources import SourceText


class ToyTeacher(ThreadingHTTPServer):
    """Answers are functions of the request; some first attempts fail, one in five questions is unusable.

    `sent[key]` counts complete answers, repeats included: what a provider that ignores the Idempotency-Key would bill.
    `garbled` adds replies with status 200 that are no chat completions.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.attempts: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.temperatures: set[float] = set()
        self.in_work = self.most_in_work = 0
        self.lock = threading.Lock()
        self.delay_s = 0.0
        self.down = self.garbled = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: ToyTeacher
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = self.headers["Idempotency-Key"]
        server = self.server
        with server.lock:
            server.attempts[key] += 1
            server.in_work += 1
            server.most_in_work = max(server.most_in_work, server.in_work)
            server.temperatures.add(body["temperature"])
        try:
            self._serve(body, key, int(key[:4], 16) % 10)
        finally:
            with server.lock:
                server.in_work -= 1

    def _serve(self, body: dict, key: str, trouble: int) -> None:
        server = self.server
        time.sleep(server.delay_s + (0.05 if trouble == 2 else 0.0))
        first = server.attempts[key] == 1
        if server.down or (first and trouble in (0, 1, 3)):
            kind = "down" if server.down else {0: "429", 1: "500", 3: "dropped"}[trouble]
            server.failures[kind] += 1
            if kind == "dropped":
                self.connection.close()
                self.close_connection = True
                return
            self._send(429 if trouble == 0 and not server.down else 500, {"error": {"message": kind}})
            return
        if server.garbled and first and trouble in (4, 5, 6, 7):
            server.failures[f"garbled {trouble}"] += 1
            if trouble == 4:
                self._send_bytes(200, "<html>请先登录</html>".encode(), "text/html")
            elif trouble == 5:
                self._send_bytes(200, b'{"id": "x", "choices": [{"ind')
            else:
                self._send(200, {"id": "x", "object": "chat.completion"} | ({"choices": []} if trouble == 6 else {}))
            return
        text, finish = answer(body)
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
        self._send(
            200,
            {"id": "x", "object": "chat.completion", "created": 0, "model": "toy", "choices": [choice], "usage": usage},
        )
        with server.lock:
            server.sent[key] += 1

    def _send(self, status: int, value: dict) -> None:
        self._send_bytes(status, json.dumps(value).encode())

    def _send_bytes(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def answer(body: dict) -> tuple[str, str]:
    """(text, finish reason): feasible unless the material says otherwise; questions of which some are unusable."""
    prompt = body["messages"][0]["content"]
    if body["response_format"]["json_schema"]["name"] == "feasibility":
        feasible = "第7号" not in prompt
        return json.dumps(
            {"feasible": feasible, "reason": "有定义" if feasible else "没有定义"}, ensure_ascii=False
        ), "stop"
    task = prompt.split("task（固定为 ")[1].split("）")[0]
    material = prompt.rsplit("材料：\n", 1)[1]
    number = int(hashlib.sha256(material.encode()).hexdigest()[:4], 16)
    good = {"task": task, "question": f"何谓{material[4:12]}？", "answer": material[-14:-1]}
    whole = json.dumps(good, ensure_ascii=False)
    return {
        0: (whole[:30], "length"),
        1: ("抱歉，我不能回答这个问题。", "stop"),
        2: (json.dumps({**good, "task": "other"}, ensure_ascii=False), "stop"),
        3: (json.dumps({**good, "answer": ""}, ensure_ascii=False), "stop"),
        4: (f"```json\n{whole}\n```", "stop"),
        5: (json.dumps({**good, "question": "何谓\ud83d？"}), "stop"),
    }.get(number % 20, (whole, "stop"))


@pytest.fixture
def toy() -> Iterator[ToyTeacher]:
    server = ToyTeacher()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


WORDS = "抵押质押留置保证定金借贷租赁承揽运输仓储保管委托行纪居间买卖赠与合伙继承收养监护"


@pytest.fixture
def material() -> list[SourceText]:
    """60 sources of 40 to 60 characters, each of its own."""
    return [
        SourceText(
            f"s-{n}", "statute",
            f"第{n}号{WORDS[n % 30 : n % 30 + 8]}制度，是指{WORDS[::-1][n % 25 : n % 25 + 14]}{n}的安排。",
            metadata={"law": "试行法", "label": f"第{n}条"}, source="toy", licence="MIT",
        )
        for n in range(60)
    ]  # fmt: skip


@pytest.fixture
def sources(material: list[SourceText], tmp_path: Path) -> Path:
    path = tmp_path / "sources.jsonl"
    write_lines(path, (source.to_dict() for source in material))
    return path
