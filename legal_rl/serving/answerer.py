"""From a question to a cited answer: the Lawyer's rollout, the Judge, the citation check; told as events on the way.

async for event in answerer.events(Ask("入户盗窃三千元怎么量刑？")): ...
answer = await answerer.answer(Ask(...))            # without events
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from envs.errors import PolicyError
from envs.policy import Policy
from envs.prompt_files import fill, load_prompt, read_prompt
from envs.rendering import render_unit
from envs.rollout import run_rollout
from envs.tokens import Tokenizer
from envs.types import Question, Rollout, StopReason
from legal_rl.serving.answer import Answer, language_of, notices_for
from legal_rl.serving.citations import AnswerCitation, CitationStatus, cite
from legal_rl.serving.engines import TokenEngine
from legal_rl.serving.events import AnswerError, Event, EventType
from legal_rl.serving.hygiene import PromptGuard, clean_question, neutral
from legal_rl.serving.judges import AGAIN_PROMPT, Judge
from legal_rl.serving.knowledge import Knowledge
from legal_rl.serving.lawyer import Emit, EngineLawyer, Meter, ShownPolicy, WatchedEnv
from legal_rl.serving.metrics import ServeMetrics
from legal_rl.serving.settings import LAWYER_AS_JUDGE, ServeConfig
from legal_rl.serving.turn_view import TurnView, judge_answer
from retrieval_server.errors import RetrievalError

NO_EVIDENCE = "（无）"
MIN_EVIDENCE_CHARS = 40
CITATION_CHECK_S = 10.0
MAY_CITE = re.compile(r"[条号§\d]")
"""A text without any of these cites nothing: articles have 条 or a number right behind a law's name, cases 号."""
_WAITING_EVENTS = 64
"""Events that may wait for a slow client before the work waits too."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question with the caller's wishes; None = as configured."""

    question: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    as_of: date | None = None
    judge: str | None = None
    strict: bool | None = None
    max_turns: int | None = None
    deadline_s: float | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    """Of the Judge's answer."""


class Answerer:
    """Answers questions with one Lawyer, any of several Judges, and one knowledge base. Shared by all requests.

    Args:
        lawyer: the Lawyer's engine (with `tokenizer`), or a policy that speaks text.
        judges: by the names of `ServeConfig.judges`.
    """

    def __init__(
        self,
        config: ServeConfig,
        knowledge: Knowledge,
        lawyer: TokenEngine | Policy,
        tokenizer: Tokenizer | None = None,
        judges: Mapping[str, Judge] | None = None,
        metrics: ServeMetrics | None = None,
    ) -> None:
        self.config, self.knowledge, self.lawyer, self.tokenizer = config, knowledge, lawyer, tokenizer
        self.judges = dict(judges or {})
        self.metrics = metrics or ServeMetrics()
        prompts = [load_prompt(config.environment.system_prompt).template]
        prompts += [load_prompt(judge.settings.prompt).template for judge in self.judges.values()]
        self.guard = PromptGuard(prompts)
        self._again = read_prompt(AGAIN_PROMPT, {"prompt", "answer", "missing"})

    async def answer(self, ask: Ask) -> Answer:
        """The finished answer.

        Raises:
            AnswerError: an outage, a deadline or an impossible wish; never an answer that pretends.
        """

        async def silent(_: Event) -> None:
            pass

        return await self._work(ask, silent)

    async def events(self, ask: Ask, on_answer: Callable[[Answer], None] = lambda answer: None) -> AsyncIterator[Event]:
        """The same as events; the last one is `done` or `error`. Closing the iterator cancels the work.

        Args:
            on_answer: told the finished answer after its last event.
        """
        queue: asyncio.Queue[Event] = asyncio.Queue(_WAITING_EVENTS)
        work = asyncio.create_task(self._work(ask, queue.put))
        try:
            while not work.done() or not queue.empty():
                getting = asyncio.create_task(queue.get())
                try:
                    await asyncio.wait({getting, work}, return_when=asyncio.FIRST_COMPLETED)
                    if getting.done():
                        yield getting.result()
                finally:
                    getting.cancel()
            on_answer(work.result())
        except AnswerError as error:
            yield error.event()
        finally:
            if not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError, AnswerError):
                    await work

    async def _work(self, ask: Ask, emit: Emit) -> Answer:
        deadline_s = min(ask.deadline_s or self.config.limits.deadline_s, self.config.limits.deadline_s)
        with self.metrics.question() as seen:
            try:
                async with asyncio.timeout(deadline_s) as limit:
                    return await self._answer(_Task(self, ask, emit, deadline_s, seen))
            except AnswerError as error:
                seen.failed(error.code)
                raise
            except TimeoutError as error:
                if not limit.expired():
                    raise
                seen.failed("deadline")
                raise AnswerError("deadline", f"no answer within {deadline_s:g} s", 504) from error

    async def _answer(self, task: _Task) -> Answer:
        await task.start()
        rollout = await self._rollout(task)
        text, evidence_cut = await self._final(task, rollout)
        citations = await self._check(task, rollout, text)
        if task.strict and citations and (missing := _missing(citations)):
            text = await self._again_without(task, rollout, text, missing)
            citations = await self._check(task, rollout, text)
        notices = notices_for(rollout, text, task.meter, citations, evidence_cut)
        answer = Answer(
            id=task.ask.id, model=self.config.model_id, judge=task.judge_name, question=task.question, text=text,
            language=task.language, rollout=rollout, meter=task.meter, citations=citations or (), notices=notices,
            texts=self.config.texts, total_s=task.elapsed, first_event_s=task.first_event_s,
        )  # fmt: skip
        await task.finish(answer)
        self.metrics.answered(answer)
        return answer

    async def _rollout(self, task: _Task) -> Rollout:
        env = WatchedEnv(self.knowledge, task.environment, task.emit, self.guard, task.meter)
        asked = Question(task.ask.id, task.question, "", as_of=task.ask.as_of.isoformat() if task.ask.as_of else None)
        rollout = await run_rollout(asked, self._policy(task), env, self.tokenizer)
        if rollout.stop_reason is StopReason.RETRIEVAL_ERROR:
            raise AnswerError("retrieval_unavailable", f"the knowledge base cannot be searched: {rollout.error}", 503)
        if rollout.stop_reason is StopReason.POLICY_ERROR:
            raise AnswerError("lawyer_unavailable", f"the Lawyer failed: {rollout.error}", 503)
        if rollout.stop_reason is StopReason.DEADLINE:
            raise AnswerError("deadline", rollout.error, 504)
        return rollout

    def _policy(self, task: _Task) -> Policy:
        if self.tokenizer is None:
            return ShownPolicy(self.lawyer, task.emit, self.guard)  # type: ignore[arg-type]
        assert self.config.lawyer is not None
        temperature = self.config.temperature if task.ask.temperature is None else task.ask.temperature
        return EngineLawyer(
            self.lawyer, self.tokenizer, task.ask.id, task.emit, self.guard, task.meter, temperature,  # type: ignore[arg-type]
            self.config.lawyer.chunk_ms / 1000,
        )  # fmt: skip

    async def _final(self, task: _Task, rollout: Rollout) -> tuple[str, bool]:
        """(answer, was evidence cut): the Lawyer's own, or the Judge's from question, way and evidence."""
        own = neutral(self.guard.visible(rollout.answer)).strip()
        if task.judge is None:
            return own, False
        if own:
            await task.emit(Event(EventType.DRAFT, {"text": own}))
        prompt, evidence_cut = _fitting_prompt(task.judge, task.question, rollout)
        return await self._judged(task, prompt, shown=not task.strict), evidence_cut

    async def _judged(self, task: _Task, prompt: str, shown: bool) -> str:
        assert task.judge is not None
        view, text = TurnView(self.guard), ""
        try:
            async for text in task.judge.stream(prompt, task.ask.id, task.left_s, task.meter):
                if shown and (fresh := view.answer(text)):
                    await task.emit(Event(EventType.ANSWER_DELTA, {"text": fresh}))
        except PolicyError as error:
            raise AnswerError("judge_unavailable", f"the Judge failed: {error}", 503) from error
        if shown and (fresh := view.answer(text, finished=True)):
            await task.emit(Event(EventType.ANSWER_DELTA, {"text": fresh}))
        return self.guard.visible(judge_answer(text)).strip()

    async def _again_without(self, task: _Task, rollout: Rollout, text: str, missing: list[str]) -> str:
        """Ask the Judge once more, telling it which citations do not exist."""
        if task.judge is None:
            return text
        prompt, _ = _fitting_prompt(task.judge, task.question, rollout)
        again = self._again.substitute(prompt=prompt, answer=text, missing="\n".join(f"- {name}" for name in missing))
        return await self._judged(task, again, shown=False) if task.judge.fits(again) else text

    async def _check(self, task: _Task, rollout: Rollout, text: str) -> list[AnswerCitation] | None:
        """None when the knowledge base could not be asked: that is said, not hidden."""
        if not MAY_CITE.search(text):
            return []
        try:
            async with asyncio.timeout(CITATION_CHECK_S):
                looked_up = await self.knowledge.citations(text, task.ask.as_of)
        except (RetrievalError, TimeoutError):
            task.seen.failed("citation_check")
            return None
        return cite(text, rollout.evidence, looked_up)


class _Task:
    """One question in work: the caller's wishes resolved, the clock, and what has been emitted."""

    def __init__(self, answerer: Answerer, ask: Ask, emit: Emit, deadline_s: float, seen: Any) -> None:
        config = answerer.config
        self.ask, self._emit, self.deadline_s, self.seen = ask, emit, deadline_s, seen
        self.question = clean_question(ask.question)
        if not self.question:
            raise AnswerError("empty_question", "the question is empty", 422)
        self.language = language_of(self.question)
        self.judge_name = ask.judge or config.judge
        if self.judge_name != LAWYER_AS_JUDGE and self.judge_name not in answerer.judges:
            known = ", ".join([LAWYER_AS_JUDGE, *answerer.judges])
            raise AnswerError("unknown_judge", f"no Judge {self.judge_name[:40]!r}; there are {known}", 422)
        self.judge = answerer.judges.get(self.judge_name)
        if self.judge is not None and ask.max_tokens is not None:
            self.judge = _with_max_tokens(self.judge, ask.max_tokens)
        self.strict = config.strict_citations if ask.strict is None else ask.strict
        self.environment = _environment(config, ask, deadline_s)
        self.meter = Meter()
        self.model_id = config.model_id
        self.started = time.perf_counter()
        self.first_event_s = 0.0

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    @property
    def left_s(self) -> float:
        return max(self.deadline_s - self.elapsed, 0.01)

    async def emit(self, event: Event) -> None:
        if not self.first_event_s and event.type is not EventType.START:
            self.first_event_s = self.elapsed
            self.seen.first_event(self.first_event_s)
        await self._emit(event)

    async def start(self) -> None:
        data = {"id": self.ask.id, "model": self.model_id, "judge": self.judge_name, "question": self.question}
        await self.emit(Event(EventType.START, data))

    async def finish(self, answer: Answer) -> None:
        shown = {"text": answer.text, "content": answer.content, "language": answer.language}
        await self.emit(Event(EventType.ANSWER, shown))
        await self.emit(Event(EventType.CITATIONS, {"citations": [c.as_dict() for c in answer.citations]}))
        full = answer.as_dict(PromptGuard(()), trajectory=False)
        kept = ("id", "notices", "disclaimer", "stop_reason", "searches", "degraded", "usage", "timings")
        await self.emit(Event(EventType.DONE, {name: full[name] for name in kept}))


def _environment(config: ServeConfig, ask: Ask, deadline_s: float) -> Any:
    turns = min(ask.max_turns or config.environment.max_turns, config.limits.max_turns)
    changed = {"max_turns": turns, "deadline_s": min(deadline_s, config.environment.deadline_s)}
    changed["tool_timeout_s"] = min(config.environment.tool_timeout_s, deadline_s)
    return config.environment.model_copy(update=changed)


def _with_max_tokens(judge: Judge, limit: int) -> Judge:
    import copy

    limited = copy.copy(judge)
    limited.settings = judge.settings.model_copy(update={"max_tokens": min(limit, judge.settings.max_tokens)})
    return limited


def _missing(citations: list[AnswerCitation]) -> list[str]:
    return [citation.name for citation in citations if citation.status is CitationStatus.NOT_FOUND]


def _fitting_prompt(judge: Judge, question: str, rollout: Rollout) -> tuple[str, bool]:
    """The Judge's prompt (paper, appendix A.3), evidence halved until it fits; (prompt, was it cut)."""
    chars = judge.settings.evidence_chars
    while True:
        prompt = _judge_prompt(judge.settings.prompt, question, rollout, chars)
        if judge.fits(prompt):
            return prompt, chars < judge.settings.evidence_chars
        if chars <= MIN_EVIDENCE_CHARS:
            raise AnswerError("too_long", "question and evidence do not fit the Judge's context", 422)
        chars //= 2


def _judge_prompt(name: str, question: str, rollout: Rollout, chars: int) -> str:
    units = [render_unit(number, unit, chars) for number, unit in enumerate(rollout.evidence, start=1)]
    steps = [f"{i}. {neutral(search.query)[:200]}" for i, search in enumerate(rollout.searches, start=1)]
    return fill(
        name,
        question=question,
        trajectory="\n".join(steps) or NO_EVIDENCE,
        evidence="\n".join(units) or NO_EVIDENCE,
    )
