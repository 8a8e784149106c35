"""Micro-batching and the LRU cache."""

from __future__ import annotations

import asyncio

import pytest

from retrieval_server.batching import LRUCache, MicroBatcher


class Recorder:
    """Doubles numbers and remembers its batches; 13 fails alone, 99 fails its whole batch, 7 gives too few outputs."""

    def __init__(self, gate: asyncio.Event | None = None) -> None:
        self.batches: list[list[int]] = []
        self.gate = gate

    async def __call__(self, items: list[int]) -> list[int | Exception]:
        self.batches.append(items)
        if self.gate:
            await self.gate.wait()
        if 99 in items:
            raise RuntimeError("whole batch")
        if 7 in items:
            return []
        return [ValueError("13") if item == 13 else 2 * item for item in items]


async def test_requests_that_wait_form_the_next_batch() -> None:
    gate = asyncio.Event()
    recorder = Recorder(gate)
    batcher: MicroBatcher[int, int] = MicroBatcher(recorder, max_batch=3)
    first = asyncio.create_task(batcher.submit([1]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(batcher.submit([i, i + 1])) for i in (2, 4)]
    await asyncio.sleep(0)
    gate.set()
    assert await first == [2]
    assert [await task for task in rest] == [[4, 6], [8, 10]]
    assert recorder.batches == [[1], [2, 3, 4], [5]]


async def test_one_failing_item_fails_alone_and_the_batcher_goes_on() -> None:
    batcher: MicroBatcher[int, int] = MicroBatcher(Recorder(), max_batch=10, wait_s=0.001)
    good, bad = await asyncio.gather(batcher.submit([1]), batcher.submit([13]), return_exceptions=True)
    assert good == [2]
    assert isinstance(bad, ValueError)
    for poison in (99, 7):
        with pytest.raises(RuntimeError):
            await batcher.submit([poison])
    assert await batcher.submit([3]) == [6]


async def test_a_cancelled_caller_leaves_the_others_alone() -> None:
    gate = asyncio.Event()
    recorder = Recorder(gate)
    batcher: MicroBatcher[int, int] = MicroBatcher(recorder, max_batch=1)
    first, gone, last = (asyncio.create_task(batcher.submit([i])) for i in (1, 2, 3))
    await asyncio.sleep(0.001)
    gone.cancel()
    gate.set()
    assert await first == [2] and await last == [6]
    assert recorder.batches == [[1], [3]]


def test_lru_forgets_the_least_recently_used() -> None:
    cache: LRUCache[str, int] = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert (cache.hits, cache.misses) == (3, 1)


def test_a_cache_of_size_zero_remembers_nothing() -> None:
    cache: LRUCache[str, int] = LRUCache(0)
    cache.put("a", 1)
    assert cache.get("a") is None
