"""A circuit breaker: an endpoint that has failed several times in a row is not asked for a while.

    circuit = Circuit(failures=5, open_s=10)
    circuit.check()                    # raises CircuitOpenError while it is open
    circuit.failed() or circuit.succeeded()

Without one, every caller would wait out its whole deadline on an endpoint that is known to be away.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from retrieval_server.errors import AssistantError


class CircuitOpenError(AssistantError):
    """The endpoint is not asked at the moment."""


class Circuit:
    """Closed: calls pass. Open after `failures` in a row: calls fail at once. After `open_s` one call may try.

    Args:
        failures: 0 = never opens.
        clock: seconds, monotonic.
    """

    def __init__(self, failures: int, open_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._open_s, self._clock = failures, open_s, clock
        self._failures = 0
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        return bool(self._limit) and self._failures >= self._limit and self._clock() < self._until

    def check(self) -> None:
        """Pass, or raise `CircuitOpenError`. The call that may try closes the door behind it."""
        if not self._limit or self._failures < self._limit:
            return
        left = self._until - self._clock()
        if left > 0:
            raise CircuitOpenError(f"not asked: it failed {self._failures} times in a row, next try in {left:.1f} s")
        self._until = self._clock() + self._open_s

    def failed(self) -> None:
        """One call found the endpoint away."""
        self._failures += 1
        if self._failures >= self._limit:
            self._until = self._clock() + self._open_s

    def succeeded(self) -> None:
        """One call was answered, whatever the answer."""
        self._failures = 0
