"""The chat-endpoint policy against a real loopback server, with faults."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from envs.env import EnvConfig, LegalEnv
from envs.errors import PolicyError
from envs.policy import Budget, ChatEndpoint, OpenAIPolicy, chat_messages
from envs.rollout import run_rollout
from envs.tokens import TextDialogue
from envs.types import Completion, Question, StopReason


def reply(content: str | None = "<answer>A</answer>", finish: str = "stop", **message: Any) -> dict[str, Any]:
    body = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": body, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


class Server(ThreadingHTTPServer):
    """Plays a list of (status, body or raw text, delay) and keeps the requests."""

    daemon_threads = True
    script: list[tuple[int, Any, float]]
    requests: list[dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Server = self.server  # type: ignore[assignment]
        server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status, body, delay = server.script.pop(0) if len(server.script) > 1 else server.script[0]
        time.sleep(delay)
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the client may have given up
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.script, server.requests = [(200, reply(), 0.0)], []
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def policy_of(server: Server, **changes: Any) -> OpenAIPolicy:
    base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    return OpenAIPolicy(ChatEndpoint(**{"base_url": base_url, "model": "m", "max_retries": 0, **changes}))


DIALOGUE = TextDialogue(
    [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, {"role": "tool", "content": "t"}]
)


async def act(policy: OpenAIPolicy, deadline_s: float = 20.0) -> Completion:
    try:
        return await policy.act(DIALOGUE, Budget(max_tokens=7, deadline_s=deadline_s))
    finally:
        await policy.aclose()


async def test_request_and_answer(server: Server) -> None:
    assert await act(policy_of(server, extra_body={"top_k": 1})) == Completion("<answer>A</answer>")
    sent = server.requests[0]
    assert sent["messages"][2] == {"role": "user", "content": "<tool_response>\nt\n</tool_response>"}
    assert (sent["model"], sent["max_tokens"], sent["temperature"], sent["top_k"]) == ("m", 7, 0.0, 1)


async def test_reasoning_and_tool_calls_become_the_protocols_text(server: Server) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "search_statute", "arguments": '{"query": "刑法"}'}}
    server.script = [(200, reply(None, "length", reasoning_content="缺", tool_calls=[call]), 0.0)]
    text = '<think>缺</think><tool_call>\n{"name": "search_statute", "arguments": {"query": "刑法"}}\n</tool_call>'
    assert await act(policy_of(server)) == Completion(text, finish_reason="length")


async def test_passing_faults_are_retried(server: Server) -> None:
    server.script = [(503, {}, 0.0), (429, {}, 0.0), (200, reply(), 0.0)]
    assert (await act(policy_of(server, max_retries=2))).text == "<answer>A</answer>"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("script", "part"),
    [
        ((500, {"error": "boom"}, 0.0), "failed"),
        ((400, {"error": {"message": "too long"}}, 0.0), "too long"),
        ((200, "not json at all", 0.0), "policy m at"),
        ((200, {"choices": []}, 0.0), "without choices"),
        ((200, reply(), 3.0), "no answer within 0.2 s"),
    ],
)
async def test_lasting_faults_are_policy_errors(server: Server, script: tuple, part: str) -> None:
    server.script = [script]
    with pytest.raises(PolicyError, match=part):
        await act(policy_of(server), deadline_s=0.2 if script[2] else 20.0)


async def test_an_endpoint_that_is_away(question: Question, retriever: Any) -> None:
    endpoint = ChatEndpoint(base_url="http://127.0.0.1:9/v1", model="m", max_retries=0)
    rollout = await run_rollout(question, OpenAIPolicy(endpoint), LegalEnv(retriever, EnvConfig(deadline_s=20)))
    assert rollout.stop_reason is StopReason.POLICY_ERROR
    assert "policy m at http://127.0.0.1:9/v1 failed" in rollout.error


async def test_a_whole_rollout(question: Question, retriever: Any, server: Server) -> None:
    search = '<search>{"source": "statute", "query": "刑法第264条"}</search>'
    server.script = [(200, reply(search), 0.0), (200, reply(), 0.0)]
    rollout = await run_rollout(question, policy_of(server), LegalEnv(retriever))
    assert (rollout.stop_reason, rollout.answer) == (StopReason.ANSWER, "A")
    assert server.requests[1]["messages"] == chat_messages(list(rollout.messages[:-1]))
