"""Dynamic micro-batching and a small LRU cache for one event loop.

Requests that arrive while a batch is being worked on form the next batch: an idle service answers at once, a busy one
works on large batches. No fixed window is needed for that, only a short wait for requests that arrive together.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MicroBatcher(Generic[I, O]):
    """Collects items of concurrent callers and hands them to `handler` in batches of at most `max_batch`.

    `handler` gets a list of items and returns one output per item, in order; an output that is an exception is raised
    to the caller of that item alone. A batch whose handler raises fails all its items.
    """

    def __init__(
        self, handler: Callable[[list[I]], Awaitable[Sequence[O | Exception]]], max_batch: int, wait_s: float = 0.0
    ) -> None:
        self._handler = handler
        self._max_batch = max_batch
        self._wait_s = wait_s
        self._waiting: deque[tuple[I, asyncio.Future[O]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, items: Sequence[I]) -> list[O]:
        """Outputs of `items`, in order."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[O]] = [loop.create_future() for _ in items]
        self._waiting.extend(zip(items, futures, strict=True))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return await asyncio.gather(*futures)
        finally:
            for future in futures:  # A caller that was cancelled leaves its items unanswered.
                future.cancel()

    async def _work(self) -> None:
        if self._wait_s and len(self._waiting) < self._max_batch:
            await asyncio.sleep(self._wait_s)
        while self._waiting:
            count = min(self._max_batch, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            live = [(item, future) for item, future in batch if not future.done()]
            if live:
                await self._answer(live)

    async def _answer(self, batch: list[tuple[I, asyncio.Future[O]]]) -> None:
        outputs: Sequence[O | Exception]
        try:
            outputs = await self._handler([item for item, _ in batch])
            if len(outputs) != len(batch):
                raise RuntimeError(f"a batch of {len(batch)} items got {len(outputs)} outputs")
        except Exception as error:
            outputs = [error] * len(batch)
        for (_, future), output in zip(batch, outputs, strict=True):
            if future.done():
                continue
            if isinstance(output, Exception):
                future.set_exception(output)
            else:
                future.set_result(output)


class LRUCache(Generic[K, V]):
    """Least recently used cache, safe between threads; `size` 0 remembers nothing."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._items:
                self.misses += 1
                return None
            self.hits += 1
            self._items.move_to_end(key)
            return self._items[key]

    def put(self, key: K, value: V) -> None:
        with self._lock:
            if not self._size:
                return
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self._size:
                self._items.popitem(last=False)

    def __getstate__(self) -> dict[str, object]:
        return {"size": self._size}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__init__(state["size"])
