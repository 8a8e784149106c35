"""The teacher behind an OpenAI-compatible endpoint: every paid answer is on disk before it is used.

    teacher = EndpointTeacher(TeacherEndpoint(base_url="http://127.0.0.1:8001/v1", model="deepseek-v3"), cache)
    text = await teacher.ask("feasibility", messages, schema)      # a second time: from the cache, at no cost

A request is known by the hash of what is sent; callers that ask the same at the same time share one request. The first
error stops new requests; those on their way are waited for and kept. The hash also travels as `Idempotency-Key`:
requests that were on their way when the program was killed (at most `concurrency`) are asked again under the same key.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict, Field

from legal_rl.data.readers.lines import DataError
from retrieval_server.chat import first_choice, make_client
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
    """Most tokens of all answers in the cache and their prompts, earlier runs included; 0 = no limit."""
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
    """Answers by request hash in an append-only JSON Lines file; a line torn by a kill is cut off when it is opened.

    Args:
        read_only: only look: nothing is made, cut off or locked.

    Raises:
        DataError: another run has the file open for writing, or a line in the middle is damaged.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.answers: dict[str, Answer] = {}
        self.tokens = 0
        """Tokens of all answers and their prompts."""
        self._file: IO[bytes] | None = None
        if read_only:
            self._read(path.read_bytes() if path.exists() else b"")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise DataError(f"{path}: another run is writing to it; wait for it, or give another folder") from None
        self._file.seek(0)
        self._file.truncate(self._read(self._file.read()))

    def _read(self, content: bytes) -> int:
        """Take in the whole lines; returns where they end."""
        good = 0
        for number, line in enumerate(content.split(b"\n")[:-1], start=1):
            try:
                row = json.loads(line)
                self._keep(row.pop("key"), Answer(**row))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise DataError(
                    f"{self.path}, line {number}: not an answer of the teacher ({' '.join(str(error).split())}); "
                    "remove this line, its request is asked again"
                ) from None
            good += len(line) + 1
        return good

    def _keep(self, key: str, answer: Answer) -> None:
        self.answers[key] = answer
        self.tokens += answer.tokens_in + answer.tokens_out

    def put(self, key: str, answer: Answer) -> None:
        """Store one answer; it is with the operating system when this returns, so SIGKILL does not lose it."""
        if self._file is None:
            raise DataError(f"{self.path}: opened only to be read")
        row = {"key": key, **{name: getattr(answer, name) for name in Answer.__dataclass_fields__}}
        self._file.write(json.dumps(row).encode() + b"\n")  # ASCII: half a surrogate pair has no UTF-8
        self._file.flush()
        self._keep(key, answer)

    def close(self) -> None:
        """Close the file and give up its lock."""
        if self._file is not None:
            self._file.close()


@dataclass
class Spending:
    """What a run asked and paid: counts of requests and tokens."""

    asked: int = 0
    cached: int = 0
    shared: int = 0
    """Asked while the same request was on its way."""
    retried: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def cost(self, endpoint: TeacherEndpoint) -> float:
        """Money for the tokens."""
        return (self.tokens_in * endpoint.price_in + self.tokens_out * endpoint.price_out) / 1e6


def request_key(endpoint: TeacherEndpoint, messages: list[dict[str, str]], schema: dict[str, Any]) -> str:
    """Hash of all that decides the answer."""
    parts = [endpoint.model, endpoint.temperature, endpoint.max_tokens, messages, schema]
    return hashlib.sha256(
        json.dumps(parts, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
    ).hexdigest()


@dataclass
class EndpointTeacher:
    """Asks with retries, bounded concurrency and a budget."""

    endpoint: TeacherEndpoint
    cache: AnswerCache
    spending: Spending = field(default_factory=Spending)
    _flights: dict[str, asyncio.Task[Answer]] = field(default_factory=dict)
    """Requests on their way, by key: who asks the same meanwhile waits for them."""
    _reserved: int = 0
    """Tokens that the requests on their way may still cost."""
    _stopped: LegalRLError | None = None
    """The first error: no request is sent after it."""
    _slots: asyncio.Semaphore | None = None
    _landed: asyncio.Condition | None = None
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
        if key in self._flights:
            self.spending.shared += 1
        else:
            self._flights[key] = asyncio.ensure_future(self._pay(name, messages, schema, key))
            self._flights[key].add_done_callback(lambda _: self._flights.pop(key, None))
        return await asyncio.shield(self._flights[key])

    async def _pay(self, name: str, messages: list[dict[str, str]], schema: dict[str, Any], key: str) -> Answer:
        if self._slots is None:
            self._slots = asyncio.Semaphore(self.endpoint.concurrency)
        async with self._slots:
            need = estimate_tokens(messages) + self.endpoint.max_tokens
            try:
                await self._reserve(need)
                try:
                    answer = await self._with_retries(name, messages, schema, key)
                    self.cache.put(key, answer)
                finally:
                    await self._release(need)
            except LegalRLError as error:
                self._stopped = self._stopped or error
                raise
        self.spending.asked += 1
        self.spending.tokens_in += answer.tokens_in
        self.spending.tokens_out += answer.tokens_out
        return answer

    async def _reserve(self, need: int) -> None:
        """Wait until the budget surely has room for one more answer; an error once nothing more can come back."""
        budget = self.endpoint.token_budget

        def fits() -> bool:
            return not budget or self.cache.tokens + self._reserved + need <= budget

        if self._landed is None:
            self._landed = asyncio.Condition()
        async with self._landed:
            await self._landed.wait_for(lambda: self._stopped or fits() or not self._reserved)
            if self._stopped:
                raise self._stopped
            if not fits():
                raise BudgetError(
                    f"token budget of {budget:,} used up ({self.cache.tokens:,} spent, the next answer may take "
                    f"{need:,}; {len(self.cache.answers)} answers are kept in the cache); raise token_budget and run "
                    "the same command again"
                )
            self._reserved += need

    async def _release(self, need: int) -> None:
        self._reserved -= need
        if self._landed is not None:
            async with self._landed:
                self._landed.notify_all()

    async def _with_retries(
        self, name: str, messages: list[dict[str, str]], schema: dict[str, Any], key: str
    ) -> Answer:
        import openai
        import tenacity

        def count(_: Any) -> None:
            self.spending.retried += 1

        passing = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError, ValueError)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda e: isinstance(e, passing) and self._stopped is None),
            stop=tenacity.stop_after_attempt(self.endpoint.max_retries + 1),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=20.0),
            before_sleep=count,
            reraise=True,
        )
        try:
            return await retrying(self._once, name, messages, schema, key)
        except (openai.OpenAIError, ValueError) as error:
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
        choice = first_choice(reply)
        message, usage = choice.message, reply.usage
        text = message.content or getattr(message, "refusal", None) or ""
        return Answer(
            text,
            choice.finish_reason or "stop",
            usage.prompt_tokens if usage else estimate_tokens(messages),
            usage.completion_tokens if usage else round(len(text) / CHARS_PER_TOKEN),
        )

    def _open(self) -> Any:
        if self._client is None:
            endpoint = self.endpoint
            self._client = make_client(endpoint.base_url, endpoint.api_key_env, endpoint.timeout_s)
        return self._client

    async def aclose(self) -> None:
        """Close the connections and forget the event loop; the next call opens new ones."""
        self._slots = self._landed = self._stopped = None
        if self._client is not None:
            await self._client.close()
            self._client = None


def estimate_tokens(messages: list[dict[str, str]]) -> int:
    """About how many tokens a prompt has."""
    return round(sum(len(message["content"]) for message in messages) / CHARS_PER_TOKEN)
