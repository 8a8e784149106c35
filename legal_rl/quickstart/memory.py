"""Peak memory of a stage: the proportional set size of its whole process tree, looked at now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psutil


def tree_memory(pid: int) -> int:
    """Bytes that a process and all its descendants hold; pages that several share count once (PSS, Linux only).

    Elsewhere, and for processes of other users, the resident set size is taken, which counts shared pages twice.
    """
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(_held(process) for process in family)


def _held(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        try:
            return process.memory_full_info().pss
        except (psutil.AccessDenied, AttributeError):
            return process.memory_info().rss
    return 0


class MemoryWatch:
    """Remembers the largest sample; `sample` looks at most once every `interval_s` seconds.

    Example::

        watch = MemoryWatch(child.pid)
        children.wait(child, watch.sample)
        print(watch.peak_gib)
    """

    def __init__(self, pid: int, interval_s: float = 2.0, measure: Callable[[int], int] = tree_memory) -> None:
        self.pid = pid
        self.interval_s = interval_s
        self._measure = measure
        self._next = 0.0
        self._peak = 0

    def sample(self) -> None:
        """Look, unless the last look was a moment ago (reading a dozen processes' maps costs some milliseconds)."""
        if time.monotonic() >= self._next:
            self._peak = max(self._peak, self._measure(self.pid))
            self._next = time.monotonic() + self.interval_s

    @property
    def peak_gib(self) -> float:
        """Largest sample so far, GiB."""
        return round(self._peak / 2**30, 2)
