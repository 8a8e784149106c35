"""One resource per event loop and process.

HTTP connection pools and asyncio locks belong to the loop that made them. Agent workers fork and open several loops, so
such things are made on first use inside the loop that asks, and forgotten with it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """`get()` gives the running loop's own instance, made by `factory` on first use. Picklable when the factory is."""

    def __init__(self, factory: Callable[[], T]) -> None:
        self._factory = factory
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, T] = weakref.WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {"_factory": self._factory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._factory = state["_factory"]
        self._reset()

    def get(self) -> T:
        if os.getpid() != self._pid:  # A forked child must not write to its parent's sockets.
            self._reset()
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = self._factory()
        return self._made[loop]

    def pop(self) -> T | None:
        """Forget and return the running loop's instance."""
        return self._made.pop(asyncio.get_running_loop(), None)


def run_sync(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from synchronous code, also when this thread already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    outcome: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(make()))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="legal-rl-run-sync")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
