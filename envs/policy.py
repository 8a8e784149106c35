"""Who plays the Lawyer: the policy protocol, and the two policies that need no model on this machine.

policy = OpenAIPolicy(ChatEndpoint(base_url="http://127.0.0.1:8000/v1", model="legal-r1"))
rollout = await run_rollout(question, policy, LegalEnv(retriever))
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from envs.errors import PolicyError
from envs.tokens import TOOL_ROLE, Dialogue
from envs.types import Completion
from retrieval_server.chat import first_choice, make_client, turn_text
from retrieval_server.loops import PerLoop

if TYPE_CHECKING:
    import openai


@dataclass(frozen=True, slots=True)
class Budget:
    """What one turn may cost."""

    max_tokens: int
    turn: int = 0
    forced: bool = False
    """True for the one turn that must be an answer."""
    deadline_s: float = 60.0
    """Seconds left to the rollout."""


class Policy(Protocol):
    """Writes the Lawyer's next turn.

    Token policies continue `dialogue.token_ids` (a `TokenDialogue`) and return the sampled ids with the
    end-of-turn token; text policies read `dialogue.messages` and return text only.

    Raises:
        envs.errors.PolicyError: the policy could not be asked.
    """

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion: ...


class ScriptedPolicy:
    """Plays given turns in order, for tests and demonstrations; the last turn repeats when the script is over."""

    def __init__(self, turns: Sequence[str | Completion]) -> None:
        if not turns:
            raise ValueError("a scripted policy needs at least one turn")
        self.turns = [turn if isinstance(turn, Completion) else Completion(text=turn) for turn in turns]
        self.budgets: list[Budget] = []

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        self.budgets.append(budget)
        return self.turns[min(len(self.budgets), len(self.turns)) - 1]


class ChatEndpoint(BaseModel):
    """An OpenAI-compatible endpoint that plays the Lawyer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str
    """Root of the API, with `/v1`."""
    model: str
    api_key_env: str = "LEGAL_RL_POLICY_API_KEY"
    """Environment variable that holds the key; unset = no key, as local servers want it."""
    temperature: float = Field(default=0.0, ge=0)
    request_timeout_s: float = Field(default=60.0, gt=0)
    """Of one attempt; a turn with all its retries is bounded by the rollout's deadline."""
    max_retries: int = Field(default=3, ge=0)
    extra_body: dict[str, object] = Field(default_factory=dict)


class OpenAIPolicy:
    """Plays the Lawyer through a chat endpoint; retries connection errors, 429 and 5xx.

    The environment's messages go out as user turns in `<tool_response>` tags, which is how Qwen3's template writes
    tool messages and what every other server accepts.
    """

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.endpoint = endpoint
        self._clients: PerLoop[openai.AsyncOpenAI] = PerLoop(
            partial(
                make_client, endpoint.base_url, endpoint.api_key_env, endpoint.request_timeout_s, endpoint.max_retries
            )
        )

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        """One chat completion; raises `PolicyError` when the endpoint fails or is too slow."""
        import openai

        try:
            async with asyncio.timeout(max(budget.deadline_s, 0.01)):
                answer = await self._clients.get().chat.completions.create(
                    model=self.endpoint.model,
                    messages=chat_messages(dialogue.messages),  # type: ignore[arg-type]
                    max_tokens=budget.max_tokens,
                    temperature=self.endpoint.temperature,
                    extra_body=dict(self.endpoint.extra_body) or None,
                )
        except TimeoutError as error:
            raise PolicyError(f"{self._where()} gave no answer within {budget.deadline_s:.1f} s") from error
        except (openai.OpenAIError, ValueError) as error:
            raise PolicyError(f"{self._where()} failed: {' '.join(str(error).split())[:300]}") from error
        return self._completion(answer)

    async def aclose(self) -> None:
        """Close the running event loop's connections."""
        if client := self._clients.pop():
            await client.close()

    def _completion(self, answer: Any) -> Completion:
        try:
            choice = first_choice(answer)
        except ValueError as error:
            raise PolicyError(f"{self._where()} sent an answer without choices") from error
        finish = "length" if choice.finish_reason == "length" else "stop"
        return Completion(text=turn_text(choice.message), finish_reason=finish)

    def _where(self) -> str:
        return f"policy {self.endpoint.model} at {self.endpoint.base_url}"


def chat_messages(messages: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Messages for a chat endpoint: tool messages as user turns, as Qwen3's template writes them."""
    return [
        {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
        if message["role"] == TOOL_ROLE
        else {"role": message["role"], "content": message["content"]}
        for message in messages
    ]
