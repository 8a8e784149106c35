"""The environment of one rollout: opening messages, then one observation per action (paper, section 3.1)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envs.actions import TOOLS, Dialect, is_closed, parse_action
from envs.errors import EnvStateError
from envs.prompt_files import fill
from envs.rendering import Style, render_result
from envs.types import Action, Completion, Malformed, Precedent, Question, Statute
from retrieval_server.errors import RetrievalError
from retrieval_server.types import MAX_TOP_K, Retriever, SearchQuery, SearchResult, Source, Status


class EnvConfig(BaseModel):
    """How a rollout is played. Token limits count everything after the opening prompt, evidence included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int = Field(default=6, ge=1)
    top_k: int = Field(default=5, ge=1, le=MAX_TOP_K)
    evidence_chars: int = Field(default=400, ge=10)
    """Characters of each evidence unit's text."""
    evidence_style: Style = "full"
    max_response_tokens: int = Field(default=8192, ge=2)
    """Policy and environment tokens together; characters for text-only policies."""
    max_turn_tokens: int = Field(default=1024, ge=1)
    forced_answer_tokens: int = Field(default=256, ge=1)
    """Part of `max_response_tokens` that is kept for asking once for an answer."""
    dialect: Dialect = "tags"
    enable_thinking: bool = True
    """Handed to the chat template."""
    system_prompt: str = "lawyer_system"
    """Name of a prompt in `envs/prompts`, or the path of a file."""
    deadline_s: float = Field(default=300.0, gt=0)
    """Wall-clock seconds of a whole rollout."""
    tool_timeout_s: float = Field(default=30.0, gt=0)

    @model_validator(mode="after")
    def _reserve_fits(self) -> EnvConfig:
        if self.forced_answer_tokens >= self.max_response_tokens:
            raise ValueError("forced_answer_tokens must be below max_response_tokens")
        return self

    @property
    def free_tokens(self) -> int:
        """Tokens for ordinary turns, the reserve for the forced answer taken off."""
        return self.max_response_tokens - self.forced_answer_tokens


@dataclass(frozen=True, slots=True)
class Observation:
    """The environment's answer to an action: the message's text and, after a search, the structured result."""

    text: str
    result: SearchResult | None = None


class LegalEnv:
    """One rollout's environment; make a new one for every rollout.

    Example::

        env = LegalEnv(retriever, EnvConfig(max_turns=4))
        messages = env.opening(question)
        observation = await env.step(Statute(query="刑法第264条"))
    """

    def __init__(self, retriever: Retriever, config: EnvConfig | None = None) -> None:
        self.retriever = retriever
        self.config = config or EnvConfig()
        self._question: Question | None = None

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """Function specifications for the chat template; empty for the tag dialect."""
        return TOOLS if self.config.dialect == "tool_call" else ()

    def opening(self, question: Question) -> list[dict[str, str]]:
        """The opening messages: system prompt and the user's question.

        Raises:
            EnvStateError: this environment has already played a rollout.
        """
        if self._question is not None:
            raise EnvStateError("this environment has already played a rollout; make a new LegalEnv for each one")
        self._question = question
        name = self.config.system_prompt
        if name == "lawyer_system" and self.config.dialect == "tool_call":
            name = "lawyer_system_tool_call"
        user = question.text
        if self.config.max_turns == 1:
            user = f"{user}\n{fill('last_turn')}"
        return [
            {"role": "system", "content": fill(name, max_turns=self.config.max_turns)},
            {"role": "user", "content": user},
        ]

    def read(self, completion: Completion) -> Action:
        """The action in a completion; one that the token limit cut in the middle is malformed, never guessed at."""
        if completion.finish_reason == "length" and not is_closed(completion.text):
            return Malformed(reason="内容过长，未写完")
        return parse_action(completion.text, self.config.dialect)

    async def step(self, action: Statute | Precedent | Malformed, *, last_turn_next: bool = False) -> Observation:
        """Answer one action that is not Stop.

        Args:
            action: a search, or a turn that could not be read.
            last_turn_next: append the notice that the next turn is the last one.

        Raises:
            retrieval_server.errors.RetrievalError: the Assistant failed or was too slow; never an empty result.
        """
        if isinstance(action, Malformed):
            result, text = None, fill("correction", reason=action.reason)
        else:
            result = await self._search(action)
            text = render_result(result, self.config.evidence_chars, self.config.evidence_style)
        return Observation(text=f"{text}\n{fill('last_turn')}" if last_turn_next else text, result=result)

    def forced_answer_text(self) -> str:
        """The message that asks for an answer when turns or tokens have run out."""
        return fill("forced_answer")

    async def _search(self, action: Statute | Precedent) -> SearchResult:
        query = self._search_query(action)
        try:
            async with asyncio.timeout(self.config.tool_timeout_s):
                results = await self.retriever.search([query])
        except TimeoutError as error:
            raise RetrievalError(f"Legal Assistant gave no answer within {self.config.tool_timeout_s:g} s") from error
        if len(results) != 1:
            raise RetrievalError(f"Legal Assistant gave {len(results)} results for one query")
        if results[0].status is Status.ERROR:
            raise RetrievalError(f"Legal Assistant failed: {results[0].reason or 'no reason given'}")
        return results[0]

    def _search_query(self, action: Statute | Precedent) -> SearchQuery:
        as_of = self._question.as_of if self._question else None
        common: dict[str, Any] = {
            "query": action.query,
            "as_of": date.fromisoformat(as_of) if as_of else None,
            "top_k": self.config.top_k,
        }
        if isinstance(action, Statute):
            return SearchQuery(source=Source.STATUTE, intent=action.intent, **common)
        return SearchQuery(source=Source.PRECEDENT, circumstances=action.circumstances, charge=action.charge, **common)
