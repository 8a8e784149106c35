"""The Lawyer at work for a client: the one rollout loop, watched. Thoughts, searches and evidence become events."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from envs.env import EnvConfig, LegalEnv, Observation
from envs.policy import Budget, Policy
from envs.tokens import Dialogue, TokenDialogue, Tokenizer
from envs.types import Completion, Malformed, Precedent, Statute
from legal_rl.evaluation.lawyer import turn_seed
from legal_rl.serving.engines import TokenEngine
from legal_rl.serving.events import Event, EventType
from legal_rl.serving.hygiene import PromptGuard
from legal_rl.serving.turn_view import TurnView
from retrieval_server.types import Retriever, SearchResult, Status

Emit = Callable[[Event], Awaitable[None]]


@dataclass
class Meter:
    """Seconds and tokens of one question, by who spent them."""

    lawyer_s: float = 0.0
    """Inside the Lawyer's engine."""
    judge_s: float = 0.0
    retrieval_s: float = 0.0
    """Inside the Legal Assistant, as it reports itself."""
    judge_prompt_tokens: int = 0
    judge_completion_tokens: int = 0
    degraded: int = 0
    """Searches that were answered without the LLM that should have helped."""

    def note_search(self, result: SearchResult, waited_s: float) -> None:
        """A remembered result carries the seconds of the search that made it: never more than was waited for."""
        self.retrieval_s += min(result.timings_ms.get("total", 0.0) / 1000, waited_s)
        self.degraded += result.status is Status.DEGRADED


class EngineLawyer:
    """A `Policy` over a token engine that shows its thoughts while they are written."""

    def __init__(
        self,
        engine: TokenEngine,
        tokenizer: Tokenizer,
        session: str,
        emit: Emit,
        guard: PromptGuard,
        meter: Meter,
        temperature: float = 0.0,
        chunk_s: float = 0.05,
        seed: int = 0,
    ) -> None:
        self.engine, self.tokenizer, self.session = engine, tokenizer, session
        self.emit, self.guard, self.meter = emit, guard, meter
        self.temperature, self.chunk_s, self.seed = temperature, chunk_s, seed

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        """Sample one turn; raises `PolicyError` when the engine fails."""
        assert isinstance(dialogue, TokenDialogue)
        prompt = dialogue.token_ids
        options: dict[str, Any] = {
            "max_tokens": budget.max_tokens, "stop_ids": (dialogue.turn_end_id,),
            "temperature": self.temperature, "chunk_s": self.chunk_s,
        }  # fmt: skip
        if self.temperature > 0:
            options["seed"] = turn_seed(self.seed, prompt)
        ids: list[int] = []
        logprobs: list[float] = []
        view, text = TurnView(self.guard), ""
        async for piece in self.engine.stream(prompt, options, self.session, budget.deadline_s):
            ids += piece.token_ids
            logprobs += piece.logprobs
            self.meter.lawyer_s += piece.engine_s
            text = self.tokenizer.decode(ids, skip_special_tokens=True)
            await self._show(view.thought(text), budget.turn)
        await self._show(view.thought(text, finished=True), budget.turn)
        ended = bool(ids) and ids[-1] == dialogue.turn_end_id
        return Completion(text, tuple(ids), tuple(logprobs), "stop" if ended else "length")

    async def _show(self, thought: str, turn: int) -> None:
        if thought:
            await self.emit(Event(EventType.THOUGHT, {"turn": turn, "text": thought}))


class ShownPolicy:
    """Any other policy, such as a chat endpoint: its thought is shown when the turn is whole."""

    def __init__(self, policy: Policy, emit: Emit, guard: PromptGuard) -> None:
        self.policy, self.emit, self.guard = policy, emit, guard

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        completion = await self.policy.act(dialogue, budget)
        if thought := TurnView(self.guard).thought(completion.text, finished=True):
            await self.emit(Event(EventType.THOUGHT, {"turn": budget.turn, "text": thought}))
        return completion


class WatchedEnv(LegalEnv):
    """The environment with searches, evidence and corrections told to the client."""

    def __init__(self, retriever: Retriever, config: EnvConfig, emit: Emit, guard: PromptGuard, meter: Meter) -> None:
        super().__init__(retriever, config)
        self.emit, self.guard, self.meter, self.turn = emit, guard, meter, 0

    async def step(self, action: Statute | Precedent | Malformed, *, last_turn_next: bool = False) -> Observation:
        turn, self.turn = self.turn, self.turn + 1
        if not isinstance(action, Malformed):
            await self.emit(Event(EventType.SEARCH, {"turn": turn, **search_fields(action, self.guard)}))
        started = time.perf_counter()
        observation = await super().step(action, last_turn_next=last_turn_next)
        if isinstance(action, Malformed):
            await self.emit(Event(EventType.CORRECTION, {"turn": turn, "reason": action.reason}))
        elif observation.result is not None:
            self.meter.note_search(observation.result, time.perf_counter() - started)
            await self.emit(Event(EventType.EVIDENCE, {"turn": turn, **evidence_fields(observation.result)}))
        return observation


def search_fields(action: Statute | Precedent, guard: PromptGuard) -> dict[str, Any]:
    """A search as JSON: source and the fields that were given."""
    fields = {key: guard.visible(str(value)) for key, value in asdict(action).items() if value and key != "thought"}
    return {"source": fields.pop("kind"), **fields}


def evidence_fields(result: SearchResult) -> dict[str, Any]:
    """A result as JSON: status and the whole evidence units, best first."""
    return {
        "status": result.status.value,
        "reason": result.reason,
        "units": [unit.model_dump(mode="json", exclude_defaults=True) | {"id": unit.id} for unit in result.evidence],
    }
