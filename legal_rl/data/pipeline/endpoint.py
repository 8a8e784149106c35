"""The teacher behind an OpenAI-compatible endpoint: every paid answer is on disk before it is used.

    teacher = EndpointTeacher(TeacherEndpoint(base_url="http://127.0.0.1:8001/v1", model="deepseek-v3"), cache)
    text = await teacher.ask("feasibility", messages, schema)      # a second time: from the cache, at no cost

A request is known by the hash of what is sent. The hash also travels as `Idempotency-Key`: requests that were on their
way when the program was killed (at most `concurrency`) are asked again under the same key.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict, Field

from retrieval_server.errors import LegalRLError

CHARS_PER_TOKEN = 1.5
"""Chinese characters per token, for estimates before a run; afterwards the endpoint's own count is used."""


class TeacherError(LegalRLError):
    """The teacher's endpoint failed for good; what was answered stays in the cache, the same command goes on."""


class BudgetError(LegalRLError):
    """The token budget is used up; what was answered stays in the cache."""


class TeacherEndpoint(BaseModel):
    """How to reach the teacher (paper, appendix G.2: temperature 0.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str
    model: str
    api_key_env: str = "LEGAL_RL_TEACHER_KEY"
    temperature: float = Field(default=0.1, ge=0)
    max_retries: int = Field(default=5, ge=0)
    timeout_s: float = Field(default=60.0, gt=0)
    concurrency: int = Field(default=16, ge=1)
    max_tokens: int = Field(default=1_024, ge=1)
    """Most tokens of one answer."""
    token_budget: int = Field(default=0, ge=0)
    """Most tokens of a run, prompts and answers; 0 = no limit."""
    price_in: float = Field(default=0.0, ge=0)
    """Price of a million prompt tokens, in any currency."""
    price_out: float = Field(default=0.0, ge=0)


@dataclass(frozen=True, slots=True)
class Answer:
    """One paid answer as it came."""

    text: str
    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0


class AnswerCache:
    """Answers by request hash in an append-only JSON Lines file; a line torn by a kill is cut off when it is opened."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.answers: dict[str, Answer] = {}
        good = 0
        if path.exists():
            content = path.read_bytes()
            for line in content.splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                row = json.loads(line)
                key = row.pop("key")
                self.answers[key] = Answer(**row)
                good += len(line)
        self._file: IO[bytes] = path.open("ab")
        self._file.truncate(good)

    def put(self, key: str, answer: Answer) -> None:
        """Store one answer; it is with the operating system when this returns, so SIGKILL does not lose it."""
        row = {"key": key, **{name: getattr(answer, name) for name in Answer.__dataclass_fields__}}
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        self.answers[key] = answer

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass
class Spending:
    """What a run asked and paid: counts of requests and tokens."""

    asked: int = 0
    cached: int = 0
    retried: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def cost(self, endpoint: TeacherEndpoint) -> float:
        """Money for the tokens."""
        return (self.tokens_in * endpoint.price_in + self.tokens_out * endpoint.price_out) / 1e6


def request_key(endpoint: TeacherEndpoint, messages: list[dict[str, str]], schema: dict[str, Any]) -> str:
    """Hash of all that decides the answer."""
    parts = [endpoint.model, endpoint.temperature, endpoint.max_tokens, messages, schema]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


@dataclass
class EndpointTeacher:
    """Asks with retries, bounded concurrency and a budget."""

    endpoint: TeacherEndpoint
    cache: AnswerCache
    spending: Spending = field(default_factory=Spending)
    _slots: asyncio.Semaphore | None = None
    _client: Any = None

    async def ask(self, name: str, messages: list[dict[str, str]], schema: dict[str, Any]) -> Answer:
        """One answer, from the cache or paid.

        Raises:
            TeacherError: no answer after all retries, or the endpoint refuses the request.
            BudgetError: the answer could exceed the budget.
        """
        key = request_key(self.endpoint, messages, schema)
        if key in self.cache.answers:
            self.spending.cached += 1
            return self.cache.answers[key]
        if self._slots is None:
            self._slots = asyncio.Semaphore(self.endpoint.concurrency)
        async with self._slots:
            self._check_budget(messages)
            answer = await self._with_retries(name, messages, schema, key)
            self.cache.put(key, answer)
        self.spending.asked += 1
        self.spending.tokens_in += answer.tokens_in
        self.spending.tokens_out += answer.tokens_out
        return answer

    def _check_budget(self, messages: list[dict[str, str]]) -> None:
        budget, spent = self.endpoint.token_budget, self.spending.tokens_in + self.spending.tokens_out
        if budget and spent + estimate_tokens(messages) > budget:
            raise BudgetError(
                f"token budget of {budget:,} used up ({spent:,} spent, {self.spending.asked} answers kept in the "
                "cache); raise token_budget and run the same command again"
            )

    async def _with_retries(
        self, name: str, messages: list[dict[str, str]], schema: dict[str, Any], key: str
    ) -> Answer:
        import openai
        import tenacity

        def count(_: Any) -> None:
            self.spending.retried += 1

        passing = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(passing),
            stop=tenacity.stop_after_attempt(self.endpoint.max_retries + 1),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=20.0),
            before_sleep=count,
            reraise=True,
        )
        try:
            return await retrying(self._once, name, messages, schema, key)
        except openai.OpenAIError as error:
            reason = " ".join(str(error).split())[:200]
            raise TeacherError(
                f"teacher {self.endpoint.model} at {self.endpoint.base_url} failed after {self.endpoint.max_retries} "
                f"retries: {reason}; what was answered is kept, run the same command again"
            ) from error

    async def _once(self, name: str, messages: list[dict[str, str]], schema: dict[str, Any], key: str) -> Answer:
        reply = await self._open().chat.completions.create(
            model=self.endpoint.model,
            messages=messages,
            temperature=self.endpoint.temperature,
            max_tokens=self.endpoint.max_tokens,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": True},
            },
            extra_headers={"Idempotency-Key": key},
        )
        choice = reply.choices[0] if reply.choices else None
        usage = reply.usage
        return Answer(
            (choice.message.content or choice.message.refusal or "") if choice and choice.message else "",
            (choice.finish_reason or "stop") if choice else "empty",
            usage.prompt_tokens if usage else estimate_tokens(messages),
            usage.completion_tokens if usage else 0,
        )

    def _open(self) -> Any:
        if self._client is None:
            import openai

            local = any(host in self.endpoint.base_url for host in ("//127.", "//localhost", "//[::1]"))
            self._client = openai.AsyncOpenAI(
                base_url=self.endpoint.base_url,
                api_key=os.environ.get(self.endpoint.api_key_env) or "none",
                timeout=self.endpoint.timeout_s,
                max_retries=0,
                http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if local else None,
            )
        return self._client

    async def aclose(self) -> None:
        """Close the connections and forget the event loop; the next call opens new ones."""
        self._slots = None
        if self._client is not None:
            await self._client.close()
            self._client = None


def estimate_tokens(messages: list[dict[str, str]]) -> int:
    """About how many tokens a prompt has."""
    return round(sum(len(message["content"]) for message in messages) / CHARS_PER_TOKEN)
