"""The Assistant LLM's client against a real chat endpoint on loopback, faults included."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from retrieval_server.config import LLMConfig
from retrieval_server.errors import AssistantError
from retrieval_server.llm import ChatModel, PromptTooLongError
from retrieval_server.loops import run_sync

SCHEMA = {"type": "object", "properties": {"order": {"type": "array"}}}


def _model(chat: Any, **settings: Any) -> ChatModel:
    return ChatModel(LLMConfig(base_url=chat.url, model="qwen", **settings))


async def _ask(model: ChatModel) -> Any:
    try:
        return await model.complete_json([{"role": "user", "content": "问"}], SCHEMA, "rerank", 32)
    finally:
        await model.aclose()


async def test_sends_what_the_paper_and_vllm_want(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGAL_RL_ASSISTANT_API_KEY", "secret")
    chat.replies = ['<think>\n\n</think>\n{"order": [2, 1]}']
    assert await _ask(_model(chat)) == {"order": [2, 1]}
    (sent,) = chat.requests
    assert sent["temperature"] == 0.0
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["response_format"]["json_schema"] == {"name": "rerank", "schema": SCHEMA, "strict": True}
    assert (sent["model"], sent["max_tokens"], sent["seed"]) == ("qwen", 32, 0)


async def test_passing_failures_are_retried(chat: Any) -> None:
    chat.replies = [500, 429, 503, '{"order": []}']
    model = _model(chat)
    assert await _ask(model) == {"order": []}
    assert model.calls == {"retry": 3, "ok": 1}


async def test_gives_up_after_the_budget(chat: Any) -> None:
    chat.replies = [500]
    with pytest.raises(AssistantError, match=r"failed: .*500"):
        await _ask(_model(chat, max_retries=2))
    assert len(chat.requests) == 3


async def test_a_hanging_endpoint_ends_at_the_deadline(chat: Any) -> None:
    chat.replies = [5.0]
    start = time.monotonic()
    with pytest.raises(AssistantError, match=r"no answer within 0.3 s"):
        await _ask(_model(chat, deadline_s=0.3))
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("reply", ["not json", "", '{"order": [1, 2', "[" * 100_000, '{"order": [1]}<cut>'])
async def test_unreadable_answers_are_errors_without_a_retry(chat: Any, reply: str) -> None:
    chat.replies = [reply]
    with pytest.raises(AssistantError):
        await _ask(_model(chat))
    assert len(chat.requests) == 1


async def test_a_refused_length_has_its_own_name(chat: Any) -> None:
    chat.replies = [(400, "This model's maximum context length is 4096 tokens."), (400, "bad schema")]
    with pytest.raises(PromptTooLongError):
        await _ask(_model(chat))
    with pytest.raises(AssistantError, match=r"refused the request: .*bad schema"):
        await _ask(_model(chat))


async def test_nobody_listens() -> None:
    model = ChatModel(LLMConfig(base_url="http://127.0.0.1:9/v1", model="qwen", max_retries=1, deadline_s=5))
    with pytest.raises(AssistantError, match=r"127.0.0.1:9"):
        await _ask(model)


async def test_no_more_requests_at_once_than_allowed(chat: Any) -> None:
    chat.replies = ["{}"]
    model = _model(chat, max_concurrency=2)
    slots = model._slots.get()
    async with slots, slots:
        waiting = asyncio.create_task(_ask(model))
        await asyncio.sleep(0.05)
        assert not chat.requests
    assert await waiting == {}


def test_one_model_serves_several_event_loops(chat: Any) -> None:
    chat.replies = ["{}"]
    model = _model(chat)
    assert [run_sync(lambda: _ask(model)) for _ in range(3)] == [{}, {}, {}]
