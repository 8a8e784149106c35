"""Chat endpoint of the Assistant LLM: structured output, deadline, retries, bounded concurrency, named errors.

llm = ChatModel(LLMConfig(base_url="http://127.0.0.1:8001/v1", model="Qwen/Qwen3-8B"))
order = await llm.complete_json(messages, schema, name="rerank", max_tokens=256)     # -> parsed JSON
"""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from retrieval_server.chat import first_choice, make_client
from retrieval_server.circuit import Circuit, CircuitOpenError
from retrieval_server.config import LLMConfig
from retrieval_server.errors import AssistantError
from retrieval_server.loops import PerLoop

if TYPE_CHECKING:
    import openai

_THINKING = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
_TOO_LONG = re.compile(r"context length|context_length|too long|max_model_len|maximum (?:input )?length", re.IGNORECASE)


class PromptTooLongError(AssistantError):
    """The prompt does not fit the model's context: send less."""


class ChatModel:
    """One OpenAI-compatible model. Usable from several event loops.

    Raises (from `complete_json`):
        PromptTooLongError: the endpoint refused the prompt for its length.
        CircuitOpenError: the endpoint has failed several times in a row and is left alone for a while.
        AssistantError: no answer before the deadline, a refusal, or an answer that is not the JSON asked for.
    """

    def __init__(self, config: LLMConfig) -> None:
        self.config = config
        self.calls: dict[str, int] = {}
        """Counts by outcome (`ok`, `retry`, `error`, `open`), for metrics."""
        self.circuit = Circuit(config.circuit_failures, config.circuit_open_s)
        self._client: PerLoop[openai.AsyncOpenAI] = PerLoop(
            partial(make_client, config.base_url, config.api_key_env, config.request_timeout_s)
        )
        self._slots: PerLoop[asyncio.Semaphore] = PerLoop(partial(asyncio.Semaphore, config.max_concurrency))

    async def complete_json(
        self, messages: list[dict[str, str]], schema: dict[str, Any], name: str, max_tokens: int
    ) -> Any:
        """Ask once with `response_format: json_schema` and return the parsed answer."""
        try:
            self.circuit.check()
        except CircuitOpenError as error:
            self._count("open")
            raise CircuitOpenError(f"Assistant LLM {self.config.model} is {error}") from None
        self._client.get()  # The first use imports the library: a second that is not the endpoint's.
        try:
            async with asyncio.timeout(self.config.deadline_s):
                async with self._slots.get():
                    text = await self._with_retries(messages, schema, name, max_tokens)
            answer = _parse(text, self.config.model)
        except TimeoutError as error:
            self._count("error")
            self.circuit.failed()
            raise AssistantError(
                f"Assistant LLM {self.config.model} gave no answer within {self.config.deadline_s:.1f} s"
            ) from error
        except AssistantError:
            self._count("error")
            raise
        self._count("ok")
        self.circuit.succeeded()
        return answer

    async def aclose(self) -> None:
        """Close this loop's connections; the model stays usable."""
        if client := self._client.pop():
            await client.close()

    def count_usage(self, usage: Any) -> None:
        """Told what every answer cost, in the context of the search that asked; nothing is done with it here."""

    def _count(self, outcome: str) -> None:
        self.calls[outcome] = self.calls.get(outcome, 0) + 1

    async def _with_retries(
        self, messages: list[dict[str, str]], schema: dict[str, Any], name: str, max_tokens: int
    ) -> str:
        import openai
        import tenacity

        passing = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(passing),  # APITimeoutError is an APIConnectionError.
            stop=tenacity.stop_after_attempt(self.config.max_retries + 1),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5.0),
            before_sleep=lambda _: self._count("retry"),
            reraise=True,
        )
        try:
            return await retrying(self._ask, messages, schema, name, max_tokens)
        except openai.BadRequestError as error:
            kind = PromptTooLongError if _TOO_LONG.search(str(error)) else AssistantError
            raise kind(f"Assistant LLM {self.config.model} refused the request: {_one_line(error)}") from error
        except openai.OpenAIError as error:
            if isinstance(error, passing):
                self.circuit.failed()
            raise AssistantError(
                f"Assistant LLM {self.config.model} at {self.config.base_url} failed: {_one_line(error)}"
            ) from error
        except ValueError as error:
            raise AssistantError(
                f"Assistant LLM {self.config.model} sent an answer that is not JSON: {_one_line(error)}"
            ) from error

    async def _ask(self, messages: list[dict[str, str]], schema: dict[str, Any], name: str, max_tokens: int) -> str:
        body: dict[str, Any] = dict(self.config.extra_body)
        if self.config.disable_thinking:
            body.setdefault("chat_template_kwargs", {"enable_thinking": False})
        answer = await self._client.get().chat.completions.create(
            model=self.config.model,
            messages=messages,  # type: ignore[arg-type]
            temperature=self.config.temperature,
            seed=self.config.seed,
            max_tokens=max_tokens,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": True},
            },
            extra_body=body or None,
        )
        self.count_usage(getattr(answer, "usage", None))
        try:
            choice = first_choice(answer)
        except ValueError as error:
            raise AssistantError(f"Assistant LLM {self.config.model} sent an answer without choices") from error
        if choice.finish_reason == "length":
            raise AssistantError(f"Assistant LLM {self.config.model} was cut off after {max_tokens} tokens")
        return choice.message.content or ""


def _parse(text: str, model: str) -> Any:
    try:
        return json.loads(_THINKING.sub("", text))
    except (ValueError, RecursionError) as error:
        raise AssistantError(f"Assistant LLM {model} sent no valid JSON: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
