"""Models over HTTP for an evaluation: retried, bounded, and metered per sample.

with metering() as meter:
    text = await ChatAnswerer(endpoint).answer("问题…", max_tokens=64)
meter.input_tokens, meter.output_tokens, meter.retries
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from envs.errors import PolicyError
from envs.policy import Budget, OpenAIPolicy
from envs.tokens import Dialogue
from envs.types import Completion
from legal_rl.evaluation.benchmarks.settings import Endpoint
from retrieval_server.chat import first_choice, make_client, turn_text
from retrieval_server.llm import ChatModel
from retrieval_server.loops import PerLoop

if TYPE_CHECKING:
    import openai

LONGEST_PAUSE_S = 8.0
_THOUGHT = re.compile(r"\A(?:\s*<think>)?.*?</think>|\A\s*<think>.*\Z", re.DOTALL)
"""With or without its opening tag (Qwen3's template writes that into the prompt); unfinished only with it."""
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)


@dataclass
class Meter:
    """What one sample has cost so far."""

    calls: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """Part of `output_tokens`, where the endpoint tells."""
    cut: int = 0
    """Answers that the token limit ended."""
    assistant_calls: int = 0
    assistant_input_tokens: int = 0
    assistant_output_tokens: int = 0
    """Of the Assistant's LLM, where the Assistant runs in this process; remembered answers cost nothing."""

    def add(self, usage: Any) -> None:
        """Count one answer's usage; endpoints that report none count only the call."""
        self.calls += 1
        self.input_tokens += getattr(usage, "prompt_tokens", 0) or 0
        self.output_tokens += getattr(usage, "completion_tokens", 0) or 0
        details = getattr(usage, "completion_tokens_details", None)
        self.reasoning_tokens += getattr(details, "reasoning_tokens", 0) or 0

    def add_assistant(self, usage: Any) -> None:
        """Count one answer of the Assistant's LLM."""
        self.assistant_calls += 1
        self.assistant_input_tokens += getattr(usage, "prompt_tokens", 0) or 0
        self.assistant_output_tokens += getattr(usage, "completion_tokens", 0) or 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


_meter: ContextVar[Meter | None] = ContextVar("benchmark_meter", default=None)


@contextmanager
def metering() -> Iterator[Meter]:
    """Meter everything that this task asks inside the block."""
    meter = Meter()
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


def current_meter() -> Meter:
    """The meter of the running sample, or one that nobody reads."""
    return _meter.get() or Meter()


def final_answer(text: str) -> str:
    """The same post-processing for every system: thoughts and answer tags taken off."""
    rest = _THOUGHT.sub("", text, count=1)
    tagged = _ANSWER.findall(rest)
    return (tagged[-1] if tagged else rest).strip()


async def retried(ask: Any, max_retries: int, where: str) -> Any:
    """`await ask()` with exponential pauses; connection errors, 429, 5xx and unreadable answers pass.

    Raises:
        PolicyError: a refusal, or the last failure when the retries are used up.
    """
    import openai
    import tenacity

    passing = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError, ValueError)

    def count(_: Any) -> None:
        current_meter().retries += 1

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(passing),  # APITimeoutError is an APIConnectionError.
        stop=tenacity.stop_after_attempt(max_retries + 1),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=LONGEST_PAUSE_S),
        before_sleep=count,
        reraise=True,
    )
    try:
        return await retrying(ask)
    except (openai.OpenAIError, ValueError) as error:
        text = " ".join(str(error).split())[:200]
        tries = f" after {max_retries} retries" if isinstance(error, passing) else ""
        raise PolicyError(f"{where} failed{tries}: {text or type(error).__name__}") from error


class MeteredChatModel(ChatModel):
    """The Assistant's LLM, its tokens counted to the sample whose search asked it."""

    def count_usage(self, usage: Any) -> None:
        current_meter().add_assistant(usage)


class ChatAnswerer:
    """Asks a chat endpoint for one text, at the endpoint's temperature (0 unless set)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._clients: PerLoop[openai.AsyncOpenAI] = PerLoop(
            partial(make_client, endpoint.base_url, endpoint.api_key_env, endpoint.request_timeout_s)
        )

    def open(self) -> None:
        """Make this loop's client: its import takes seconds that are no sample's."""
        self._clients.get()

    async def answer(self, prompt: str, max_tokens: int) -> str:
        """The whole text, thoughts included; raises `PolicyError` when the endpoint fails for good."""
        messages = [{"role": "user", "content": prompt}]
        return (await self.chat(messages, max_tokens)).text

    async def chat(self, messages: list[dict[str, str]], max_tokens: int) -> Completion:
        """One turn of a dialogue."""
        where = f"model {self.endpoint.model} at {self.endpoint.base_url}"
        return await retried(partial(self._ask, messages, max_tokens), self.endpoint.max_retries, where)

    async def aclose(self) -> None:
        """Close this loop's connections."""
        if client := self._clients.pop():
            await client.close()

    async def _ask(self, messages: list[dict[str, str]], max_tokens: int) -> Completion:
        answer: Any = await self._clients.get().chat.completions.create(
            model=self.endpoint.model,
            messages=messages,  # type: ignore[arg-type]
            max_tokens=max_tokens,
            temperature=self.endpoint.temperature,
            extra_body=dict(self.endpoint.extra_body) or None,
        )
        meter, choice = current_meter(), first_choice(answer)
        meter.add(answer.usage)
        meter.cut += choice.finish_reason == "length"
        finish = "length" if choice.finish_reason == "length" else "stop"
        return Completion(text=turn_text(choice.message), finish_reason=finish)


class MeteredPolicy(OpenAIPolicy):
    """The Lawyer over HTTP, asked through `ChatAnswerer`."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.answerer = ChatAnswerer(endpoint)

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        """One turn; raises `PolicyError` when the endpoint fails for good."""
        from envs.policy import chat_messages

        return await self.answerer.chat(chat_messages(dialogue.messages), budget.max_tokens)

    async def aclose(self) -> None:
        await self.answerer.aclose()
