"""The circuit breaker alone, and in front of a real endpoint that goes away and comes back."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from retrieval_server.circuit import Circuit, CircuitOpenError
from retrieval_server.config import LLMConfig
from retrieval_server.errors import AssistantError
from retrieval_server.llm import ChatModel

SCHEMA = {"type": "object"}


def test_it_opens_after_failures_in_a_row_and_lets_one_try() -> None:
    now = [0.0]
    circuit = Circuit(failures=2, open_s=10, clock=lambda: now[0])
    circuit.failed()
    circuit.succeeded()
    circuit.failed()
    circuit.check()  # not in a row
    circuit.failed()
    assert circuit.is_open
    with pytest.raises(CircuitOpenError, match=r"failed 2 times in a row, next try in 10\.0 s"):
        circuit.check()
    now[0] = 10.0
    circuit.check()  # this one may try
    with pytest.raises(CircuitOpenError):
        circuit.check()  # the ones behind it may not
    circuit.failed()
    now[0] = 19.0
    with pytest.raises(CircuitOpenError):
        circuit.check()
    now[0] = 20.0
    circuit.check()
    circuit.succeeded()
    circuit.check()
    assert not circuit.is_open


def test_zero_never_opens() -> None:
    circuit = Circuit(failures=0, open_s=10)
    for _ in range(99):
        circuit.failed()
        circuit.check()
    assert not circuit.is_open


async def test_an_endpoint_that_is_away_costs_no_waiting(chat: Any) -> None:
    chat.replies = [500]
    model = ChatModel(LLMConfig(base_url=chat.url, model="m", max_retries=0, circuit_failures=3, circuit_open_s=0.4))
    messages = [{"role": "user", "content": "x"}]

    async def ask() -> Any:
        return await model.complete_json(messages, SCHEMA, "x", 8)

    for _ in range(3):
        with pytest.raises(AssistantError, match="failed"):
            await ask()
    asked, started = len(chat.requests), time.perf_counter()
    for _ in range(50):
        with pytest.raises(CircuitOpenError, match="Assistant LLM m is not asked"):
            await ask()
    assert len(chat.requests) == asked and time.perf_counter() - started < 0.3 and model.calls["open"] == 50
    await asyncio.sleep(0.45)
    chat.replies = ['{"a": 1}']
    assert await ask() == {"a": 1} and await ask() == {"a": 1}
    await model.aclose()


async def test_an_answer_that_is_no_json_is_no_outage(chat: Any) -> None:
    chat.replies = ["kein JSON"]
    model = ChatModel(LLMConfig(base_url=chat.url, model="m", max_retries=0, circuit_failures=1))
    for _ in range(3):
        with pytest.raises(AssistantError, match="no valid JSON"):
            await model.complete_json([{"role": "user", "content": "x"}], SCHEMA, "x", 8)
    await model.aclose()
