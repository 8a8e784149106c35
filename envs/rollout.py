"""The only multi-turn loop: SFT synthesis, GRPO, evaluation and serving all call `run_rollout`.

opening ──> policy ──> parse ──> Stop? ──yes──> Rollout(ANSWER)
              ^          │ no
              └─ observation <── Legal Assistant or correction        turns or tokens out: one forced answer
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

from envs.env import LegalEnv, Observation
from envs.errors import EnvStateError, PolicyError
from envs.policy import Budget, Policy
from envs.tokens import Dialogue, TextDialogue, TokenDialogue, Tokenizer
from envs.types import Action, Completion, Malformed, Question, Rollout, Stop, StopReason, Turn
from retrieval_server.errors import RetrievalError


async def run_rollout(question: Question, policy: Policy, env: LegalEnv, tokenizer: Tokenizer | None = None) -> Rollout:
    """Play one rollout to its end.

    Args:
        question: what is asked.
        policy: who plays the Lawyer.
        env: a fresh environment.
        tokenizer: with one, the dialogue is token in, token out and the rollout carries its `TokenRecord`.

    Returns:
        The rollout. Outages (retrieval, policy, deadline) do not raise: they are its `stop_reason` and `error`.
    """
    episode = _Episode.open(question, policy, env, tokenizer)
    error = ""
    try:
        async with asyncio.timeout(env.config.deadline_s) as deadline:
            stop_reason = await _converse(episode)
    except RetrievalError as failure:
        stop_reason, error = StopReason.RETRIEVAL_ERROR, str(failure)
    except PolicyError as failure:
        stop_reason, error = StopReason.POLICY_ERROR, str(failure)
    except TimeoutError as failure:
        if not deadline.expired():  # the policy's own time-out, not the rollout's
            stop_reason, error = StopReason.POLICY_ERROR, f"the policy timed out: {failure}"
        else:
            stop_reason, error = StopReason.DEADLINE, f"no end within {env.config.deadline_s:g} s"
    return episode.finish(stop_reason, error)


async def _converse(episode: _Episode) -> StopReason:
    episode.check_reserve()
    limit = episode.env.config.max_turns
    for index in range(limit):
        if episode.free_tokens() < 1:
            return await _forced_answer(episode, StopReason.LENGTH)
        await episode.act(episode.free_tokens())
        if isinstance(episode.action, Stop):
            return StopReason.ANSWER
        if index < limit - 1 and not await _observe(episode, last_turn_next=index == limit - 2):
            return await _forced_answer(episode, StopReason.LENGTH)
    out_of_tokens = episode.free_tokens() < 1
    return await _forced_answer(episode, StopReason.LENGTH if out_of_tokens else StopReason.MAX_TURNS)


async def _observe(episode: _Episode, last_turn_next: bool) -> bool:
    """Answer the action; False when no token is left for the answer and a further turn."""
    assert not isinstance(episode.action, Stop)
    if episode.free_tokens() < 1:
        return False
    started = time.perf_counter()
    try:
        observation = await episode.env.step(episode.action, last_turn_next=last_turn_next)
    finally:
        episode.tool_s = time.perf_counter() - started
    if episode.dialogue.size(observation.text) >= episode.free_tokens():
        return False  # evidence that the policy never saw is not recorded as evidence either
    episode.close_turn(observation)
    return True


async def _forced_answer(episode: _Episode, cause: StopReason) -> StopReason:
    """Ask exactly once for an answer; `cause` is the stop reason when none comes."""
    text = episode.env.forced_answer_text()
    config, dialogue = episode.env.config, episode.dialogue
    room = config.max_response_tokens - dialogue.used - dialogue.size(text)
    if room < 1:
        return cause
    episode.close_turn(Observation(text=text))
    await episode.act(room, forced=True)
    return StopReason.FORCED_ANSWER if isinstance(episode.action, Stop) else cause


@dataclass
class _Episode:
    """A rollout while it is played. `completion` and `action` are the open turn's, until it is closed."""

    question: Question
    policy: Policy
    env: LegalEnv
    dialogue: Dialogue
    started: float
    turns: list[Turn] = field(default_factory=list)
    completion: Completion | None = None
    action: Action = field(default_factory=lambda: Malformed(reason=""))
    forced: bool = False
    policy_s: float = 0.0
    tool_s: float = 0.0

    @classmethod
    def open(cls, question: Question, policy: Policy, env: LegalEnv, tokenizer: Tokenizer | None) -> _Episode:
        started, messages = time.perf_counter(), env.opening(question)
        if tokenizer is None:
            dialogue: Dialogue = TextDialogue(messages)
        else:
            thinking = env.config.enable_thinking
            dialogue = TokenDialogue(tokenizer, messages, enable_thinking=thinking, tools=env.tools)
        return cls(question, policy, env, dialogue, started)

    def check_reserve(self) -> None:
        """The forced answer must fit: its question and at least one token of an answer.

        Raises:
            EnvStateError: the reserve is too small for this tokenizer.
        """
        reserve = self.env.config.forced_answer_tokens
        needed = self.dialogue.size(self.env.forced_answer_text()) + 2  # a missing end of turn, and one token
        if reserve < needed:
            raise EnvStateError(f"forced_answer_tokens is {reserve}, but asking for an answer takes {needed}: raise it")

    def free_tokens(self) -> int:
        return self.env.config.free_tokens - self.dialogue.used

    async def act(self, room: int, forced: bool = False) -> None:
        """Let the policy write one turn; it stays open until it is closed with an observation or at the end."""
        config = self.env.config
        left_s = config.deadline_s - (time.perf_counter() - self.started)
        budget = Budget(min(room, config.max_turn_tokens), self.open_index, forced, max(left_s, 0.0))
        started = time.perf_counter()
        completion = await self.policy.act(self.dialogue, budget)
        self.policy_s, self.tool_s, self.forced = time.perf_counter() - started, 0.0, forced
        self.completion, self.action = completion, self.env.read(completion)
        self.dialogue.add_policy(completion, self.open_index)

    @property
    def open_index(self) -> int:
        return len(self.turns)

    def close_turn(self, observation: Observation | None) -> None:
        """Move the open turn to the finished ones, with the environment's message if there was one."""
        if self.completion is None:
            return
        text = observation.text if observation else ""
        if observation:
            self.dialogue.add_environment(text, self.open_index)
        result = observation.result if observation else None
        self.turns.append(
            Turn(self.open_index, self.completion, self.action, result, text, self.forced, self.policy_s, self.tool_s)
        )
        self.completion = None

    def finish(self, stop_reason: StopReason, error: str) -> Rollout:
        self.close_turn(None)
        answered = stop_reason in (StopReason.ANSWER, StopReason.FORCED_ANSWER) and isinstance(self.action, Stop)
        return Rollout(
            question=self.question,
            turns=tuple(self.turns),
            stop_reason=stop_reason,
            answer=self.action.answer if answered and isinstance(self.action, Stop) else "",
            messages=tuple(self.dialogue.messages),
            tokens=self.dialogue.record() if isinstance(self.dialogue, TokenDialogue) else None,
            error=error,
            elapsed_s=time.perf_counter() - self.started,
        )


async def run_rollouts(
    questions: Iterable[Question],
    policy: Policy,
    env_factory: Callable[[], LegalEnv],
    concurrency: int = 8,
    tokenizer: Tokenizer | None = None,
) -> AsyncIterator[Rollout]:
    """Play one rollout per question, at most `concurrency` at a time, and yield them in the order of the questions."""
    gate = asyncio.Semaphore(concurrency)

    async def one(question: Question) -> Rollout:
        async with gate:
            return await run_rollout(question, policy, env_factory(), tokenizer)

    tasks = [asyncio.create_task(one(question)) for question in questions]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
