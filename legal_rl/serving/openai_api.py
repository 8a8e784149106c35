"""`POST /v1/chat/completions` in OpenAI's words: the last user message is the question, the ones before its context.

What OpenAI has no word for travels in `legal_rl`: in the request the wishes of `Wishes`, in every streamed chunk the
event it stands for, in the whole answer citations, notices, evidence and timings.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from legal_rl.serving.answer import NOTICES, Answer
from legal_rl.serving.answerer import Ask
from legal_rl.serving.events import AnswerError, Event, EventType
from legal_rl.serving.hygiene import PromptGuard

MAX_CONTEXT_CHARS = 2_000
"""Of the earlier turns of a conversation that are put before the question."""


class Wishes(BaseModel):
    """What a caller may choose beside the question."""

    model_config = ConfigDict(extra="forbid")

    judge: str | None = Field(default=None, max_length=100)
    strict: bool | None = None
    as_of: date | None = None
    """The day of the facts: the law of that day is searched and cited."""
    max_turns: int | None = Field(default=None, ge=1, le=100)
    deadline_s: float | None = Field(default=None, ge=1, le=86_400)


class ContentPart(BaseModel):
    """A part of a message; only text parts are read."""

    model_config = ConfigDict(extra="ignore")
    type: str
    text: str = ""


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="ignore")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        """Raises `AnswerError` for pictures and sound."""
        if isinstance(self.content, list):
            if other := next((part.type for part in self.content if part.type != "text"), None):
                raise AnswerError("unsupported", f"messages: parts of type {other[:40]!r} are not read, only text", 400)
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")
    include_usage: bool = False


class ChatRequest(BaseModel):
    """The fields that are read; others that OpenAI knows are accepted and have no effect."""

    model_config = ConfigDict(extra="ignore")
    model: str = Field(max_length=200)
    messages: list[Message] = Field(min_length=1, max_length=200)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: int | None = Field(default=None)
    tools: list[dict[str, Any]] | None = None
    legal_rl: Wishes = Field(default_factory=Wishes)

    def to_ask(self, model_id: str, max_chars: int) -> Ask:
        """The question with its wishes.

        Raises:
            AnswerError: another model, several choices, tools, no user message, or a question that is too long.
        """
        if self.model != model_id:
            raise AnswerError("model_not_found", f"no model {self.model[:80]!r}; there is {model_id}", 404)
        if self.n not in (None, 1):
            raise AnswerError("unsupported", "n: one answer per request", 400)
        if self.tools:
            raise AnswerError("unsupported", "tools: the Lawyer has its own; it calls no others", 400)
        if self.messages[-1].role != "user":
            raise AnswerError("no_question", "messages: the last message must be the user's", 400)
        question = self.messages[-1].text
        check_length(question, max_chars)
        return Ask(
            question=_context(self.messages[:-1]) + question,
            temperature=self.temperature,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            **self.legal_rl.model_dump(),
        )


def check_length(question: str, max_chars: int) -> None:
    """Raises `AnswerError` (413) for a question over the limit."""
    if len(question) > max_chars:
        raise AnswerError("too_long", f"the question has {len(question)} characters, at most {max_chars} are read", 413)


def _context(messages: list[Message]) -> str:
    """Earlier questions and answers, the newest kept; a client's system prompt does not reach the Lawyer."""
    names = {"user": "问", "assistant": "答"}
    lines = [f"{names[m.role]}：{m.text.strip()}" for m in messages if m.role in names and m.text.strip()]
    text = "\n".join(lines)[-MAX_CONTEXT_CHARS:]
    return f"此前的对话：\n{text}\n\n现在的问题：" if text else ""


def completion_of(answer: Answer, guard: PromptGuard) -> dict[str, Any]:
    """The whole answer as a `chat.completion`."""
    thoughts = [getattr(turn.action, "thought", "") for turn in answer.rollout.turns]
    message = {
        "role": "assistant",
        "content": answer.content,
        "reasoning_content": guard.visible("\n".join(filter(None, thoughts))) or None,
    }
    extra = answer.as_dict(guard, trajectory=False)
    return {
        "id": f"chatcmpl-{answer.id}", "object": "chat.completion", "created": int(time.time()), "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": answer.usage, "legal_rl": extra,
    }  # fmt: skip


async def chunks_of(
    events: AsyncIterator[Event], ask: Ask, model: str, include_usage: bool
) -> AsyncIterator[dict[str, Any]]:
    """Events as `chat.completion.chunk` objects; an `error` event becomes one object with `error`.

    Thoughts stream as `reasoning_content`, the Judge's pieces as `content`. What must stand before or behind the
    answer (notices, disclaimer) is known at its end and follows there; `legal_rl` carries every event as it is.
    """
    head = {
        "id": f"chatcmpl-{ask.id}", "object": "chat.completion.chunk", "created": int(time.time()), "model": model,
    }  # fmt: skip
    streamed = False
    final: dict[str, Any] = {}

    def chunk(delta: dict[str, Any], event: Event | None = None, finish: str | None = None) -> dict[str, Any]:
        made = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}
        return made | ({"legal_rl": {"type": event.type.value, **event.data}} if event else {})

    async for event in events:
        if event.type is EventType.ERROR:
            yield {"error": {"message": event.data["message"], "type": "server_error", "code": event.data["code"]}}
            return
        if event.type is EventType.START:
            yield chunk({"role": "assistant", "content": ""}, event)
        elif event.type is EventType.THOUGHT:
            yield chunk({"reasoning_content": event.data["text"]}, event)
        elif event.type is EventType.ANSWER_DELTA:
            streamed = True
            yield chunk({"content": event.data["text"]}, event)
        elif event.type is EventType.ANSWER:
            final = event.data
            yield chunk({} if streamed else {"content": final["content"]}, event)
        elif event.type is EventType.DONE:
            tail = _tail(final, event.data) if streamed else ""
            yield chunk({"content": tail} if tail else {}, event, finish="stop")
            if include_usage:
                yield {**head, "choices": [], "usage": event.data["usage"]}
        else:
            yield chunk({}, event)


def _tail(final: dict[str, Any], done: dict[str, Any]) -> str:
    """What an answer that was streamed piece by piece still lacks: notices and disclaimer."""
    language = final["language"]
    lines = [NOTICES[notice["code"]][language] for notice in done["notices"]]
    notices = "".join(f"\n［{line}］" if language == "zh" else f"\n[{line}]" for line in lines)
    disclaimer = done["disclaimer"] if done["disclaimer"] and final["content"].endswith(done["disclaimer"]) else ""
    return notices + (f"\n\n{disclaimer}" if disclaimer else "")
