"""Keys, rates and places: who is let in."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from legal_rl.errors import ConfigError
from legal_rl.serving.access import Gate, add_key, key_hash, read_keys
from legal_rl.serving.events import AnswerError
from legal_rl.serving.settings import LimitSettings


async def admitted(gate: Gate, authorization: str = "", address: str = "1.2.3.4") -> str:
    async with gate.admit(authorization, address) as caller:
        return caller.name


async def refused(gate: Gate, authorization: str = "", address: str = "1.2.3.4") -> tuple[int, str]:
    with pytest.raises(AnswerError) as caught:
        await admitted(gate, authorization, address)
    return caught.value.status, caught.value.code


async def test_without_a_keys_file_every_address_is_a_caller() -> None:
    gate = Gate(LimitSettings(requests_per_minute=2))
    assert [await admitted(gate), await admitted(gate)] == ["address 1.2.3.4"] * 2
    assert await refused(gate) == (429, "rate_limited")
    assert await admitted(gate, address="5.6.7.8") == "address 5.6.7.8"


async def test_a_key_is_kept_as_a_hash_only(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    key = add_key(file, "艾丽丝", requests_per_minute=1)
    assert key not in file.read_text(encoding="utf-8") and key_hash(key) in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    gate = Gate(LimitSettings(keys_file=str(file)))
    assert await admitted(gate, f"Bearer {key}") == "艾丽丝"
    assert await refused(gate, f"Bearer {key}") == (429, "rate_limited")  # her own rate, not the configuration's
    for wrong in ("", f"Bearer {key}x", f"Basic {key}", "Bearer ", f"Bearer {key_hash(key)}"):
        assert await refused(gate, wrong) == (401, "invalid_api_key")


async def test_keys_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    first = add_key(file, "a")
    gate = Gate(LimitSettings(keys_file=str(file)))
    second = add_key(file, "b")
    assert await admitted(gate, f"Bearer {second}") == "b" and await admitted(gate, f"Bearer {first}") == "a"
    file.write_text("keys: [broken", encoding="utf-8")
    os.utime(file, ns=(1, 1))
    assert await admitted(gate, f"Bearer {first}") == "a"  # a damaged file keeps the old keys
    file.unlink()
    assert await refused(gate, f"Bearer {first}") == (401, "invalid_api_key")  # a missing one lets nobody in


def test_a_keys_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such keys file"):
        Gate(LimitSettings(keys_file=str(tmp_path / "none.yaml")))
    file = tmp_path / "keys.yaml"
    file.write_text("keys:\n- {name: a, sha256: zz}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"keys\.yaml: keys\.0\.sha256"):
        read_keys(file)
    file.write_text("keys: []\n", encoding="utf-8")
    add_key(file, "a")
    with pytest.raises(ConfigError, match="a key named 'a' already"):
        add_key(file, "a")


async def test_places_are_bounded_per_caller_and_in_all() -> None:
    gate = Gate(LimitSettings(max_in_flight=3, concurrency=2))
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(gate.admit("", "a"))
        assert await refused(gate, address="a") == (429, "too_many_at_once")
        await stack.enter_async_context(gate.admit("", "b"))
        assert await refused(gate, address="c") == (429, "busy")
    assert gate.in_flight == 0 and await admitted(gate, address="a") == "address a"
    gate.draining = True
    assert await refused(gate) == (503, "draining")


async def test_a_cancelled_question_gives_its_place_back() -> None:
    gate = Gate(LimitSettings())
    entered = asyncio.Event()

    async def hold() -> None:
        async with gate.admit("", "a"):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(hold())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert gate.in_flight == 0
