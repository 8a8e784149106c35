"""Where a model's tokens come from: an engine in this process, or Serve replicas of it behind a handle.

Token ids in, pieces of token ids out, exactly as in training: what the Lawyer continues is what it sampled. That is why
the Lawyer is served by our own deployment of vLLM's engine and not by a text endpoint such as `ray.serve.llm`, which
takes messages or text, tokenises them again for every turn, and has no way to hand back the sampled ids.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from envs.errors import PolicyError
from legal_rl.evaluation.local_engine import LocalEngine
from retrieval_server.errors import LegalRLError


@dataclass(frozen=True, slots=True)
class Piece:
    """Some tokens of one generation. The last piece has a finish reason and the engine's own seconds."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str = ""
    engine_s: float = 0.0


class TokenEngine(Protocol):
    """Samples a continuation piece by piece. The caller bounds its wait; `deadline_s` lets a replica stop by itself.

    Raises:
        envs.errors.PolicyError: the engine failed, died in the middle, or had no room.
    """

    def stream(
        self, prompt_ids: Sequence[int], options: dict[str, Any], session: str, deadline_s: float
    ) -> AsyncIterator[Piece]:
        """`options`: max_tokens, stop_ids, temperature, seed, chunk_s. `session`: turns of one rollout share it."""
        ...


class LocalTokenEngine:
    """An engine in this process."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    async def stream(
        self, prompt_ids: Sequence[int], options: dict[str, Any], session: str, deadline_s: float
    ) -> AsyncIterator[Piece]:
        started = time.perf_counter()
        pieces = self.engine.stream(prompt_ids, **options)
        try:
            async for sample in pieces:
                spent = time.perf_counter() - started
                if spent > deadline_s:
                    raise PolicyError(f"the model gave no whole turn within {deadline_s:.1f} s")
                yield Piece(
                    sample.token_ids, sample.logprobs, sample.finish_reason, spent if sample.finish_reason else 0
                )
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]


class HandleEngine:
    """Serve replicas of an engine. A session's turns go to the replica that has its prefix in the cache."""

    def __init__(self, handle: Any, who: str) -> None:
        self.handle, self.who = handle, who
        self._ending: set[asyncio.Task[None]] = set()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def stream(
        self, prompt_ids: Sequence[int], options: dict[str, Any], session: str, deadline_s: float
    ) -> AsyncIterator[Piece]:
        from ray.exceptions import RayError, RayTaskError
        from ray.serve.exceptions import RayServeException

        sticky = self.handle.options(stream=True, session_id=session)
        pieces, ended = sticky.stream.remote(list(prompt_ids), options, session, deadline_s), False
        try:
            async for piece in pieces:
                ended = bool(piece.finish_reason)
                yield piece
                if ended:  # The stream's own end is one more message: nobody waits for it.
                    self._keep(asyncio.create_task(_drained(pieces)))
                    return
        except RayTaskError as error:
            cause = getattr(error, "cause", None)
            text = str(cause) if isinstance(cause, LegalRLError) else type(cause or error).__name__
            raise PolicyError(f"{self.who} failed: {text}") from error
        except (RayError, RayServeException) as error:
            raise PolicyError(f"{self.who} died while it generated ({type(error).__name__})") from error
        finally:
            if not ended:
                pieces.cancel()


async def _drained(pieces: Any) -> None:
    """Take what is left of a stream whose last piece has come; what goes wrong there concerns nobody."""
    with suppress(Exception):
        async for _ in pieces:
            pass
