"""From material and task to candidate questions: gate 2 and the synthesis by a teacher (paper, appendix G.2, G.3).

A teacher answers two questions about a (source, profile) pair: is the task feasible, and what is the question. The
rule-based one (`rules.RuleTeacher`) needs no model; `ModelTeacher` asks an endpoint. Every pair ends as a record or as
a discarded instance with its reason.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Protocol

from envs.prompt_files import read_prompt
from legal_rl.data.pipeline.endpoint import EndpointTeacher, Spending, TeacherEndpoint, estimate_tokens, request_key
from legal_rl.data.pipeline.gates import FEASIBILITY_SCHEMA, Decision, read_feasibility
from legal_rl.data.pipeline.profiles import TaskProfile
from legal_rl.data.pipeline.records import Step, TrainingRecord
from legal_rl.data.readers.sources import SourceText

WINDOW = 256
"""Pairs in work at a time: bounds memory, not concurrency."""
_PLACEHOLDERS = {
    "feasibility": {"description", "input_format", "output_format", "text"},
    "synthesis": {"description", "input_format", "output_format", "prompt", "task", "text"},
}


def synthesis_schema(profile: TaskProfile) -> dict[str, Any]:
    """Structured output of the synthesis: the task is fixed, the lengths are the profile's.

    Bounds are what keeps a small model from writing one endless string.
    """
    return {
        "type": "object",
        "properties": {
            "task": {"type": "string", "enum": [profile.id]},
            "question": {"type": "string", "minLength": 1, "maxLength": profile.max_question_chars},
            "answer": {"type": "string", "minLength": 1, "maxLength": profile.max_answer_chars},
        },
        "required": ["task", "question", "answer"],
        "additionalProperties": False,
    }


Pair = tuple[SourceText, TaskProfile]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pair's end: a record, or the stage and reason that discarded it.

    Example: Outcome("gen-0-0001", "contract_generation", None, "gate2", "材料没有交易要点").
    """

    source_id: str
    profile: str
    record: TrainingRecord | None
    stage: str = ""
    reason: str = ""


class Teacher(Protocol):
    """Who judges feasibility and writes questions."""

    name: str
    tasks: frozenset[str] | None
    """Ids of the profiles it can write; None = any."""

    async def feasible(self, source: SourceText, profile: TaskProfile) -> Decision:
        """Gate 2."""
        ...

    async def write(self, source: SourceText, profile: TaskProfile) -> tuple[dict[str, Any] | None, str]:
        """(question, answer and optional evidence; None when rejected, reason)."""
        ...


@cache
def load_prompt(name: str) -> Template:
    """A prompt of this package; raises `PromptError` when its placeholders are not the ones the code fills."""
    folder = Path(str(resources.files("legal_rl.data.pipeline").joinpath("prompts")))
    return read_prompt(folder / f"{name}.txt", _PLACEHOLDERS[name])


def messages_for(name: str, source: SourceText, profile: TaskProfile) -> list[dict[str, str]]:
    """The chat messages of one request."""
    text = load_prompt(name).safe_substitute(
        description=profile.description,
        input_format=profile.input_format,
        output_format=profile.output_format,
        prompt=profile.prompt,
        task=profile.id,
        text=source.text,
    )
    return [{"role": "user", "content": text}]


class ModelTeacher:
    """A remote or local model behind an OpenAI-compatible endpoint."""

    tasks: frozenset[str] | None = None

    def __init__(self, endpoint: EndpointTeacher) -> None:
        self.endpoint = endpoint
        self.name = endpoint.endpoint.model

    async def feasible(self, source: SourceText, profile: TaskProfile) -> Decision:
        """Gate 2 by structured output."""
        answer = await self.endpoint.ask(
            "feasibility", messages_for("feasibility", source, profile), FEASIBILITY_SCHEMA
        )
        return read_feasibility(_parse(answer.text))

    async def write(self, source: SourceText, profile: TaskProfile) -> tuple[dict[str, Any] | None, str]:
        """One question; invalid JSON, a missing answer and another task are rejected."""
        answer = await self.endpoint.ask(
            "synthesis", messages_for("synthesis", source, profile), synthesis_schema(profile)
        )
        if answer.finish_reason == "length":
            return None, "invalid JSON: cut off"
        return read_synthesis(_parse(answer.text), profile)


def read_synthesis(data: Any, profile: TaskProfile) -> tuple[dict[str, Any] | None, str]:
    """Check a teacher's answer: (what it wrote, "") or (None, why it is rejected)."""
    if not isinstance(data, dict):
        return None, "invalid JSON"
    if data.get("task") != profile.id:
        return None, "task mismatch"
    question, answer = data.get("question"), data.get("answer")
    if not isinstance(question, str) or not question.strip():
        return None, "missing question"
    if not isinstance(answer, str) or not answer.strip():
        return None, "missing answer"
    return {"question": question.strip(), "answer": answer.strip()}, ""


def _parse(text: str) -> Any:
    from envs.lenient_json import strip_fence

    try:
        data = json.loads(strip_fence(text), strict=False)  # models write line breaks into strings as they are
        json.dumps(data, ensure_ascii=False).encode()  # half a surrogate pair (\\ud83d) is no text
    except (ValueError, RecursionError):
        return None
    return data


async def make_one(pair: Pair, teacher: Teacher) -> Outcome:
    """One pair through gate 2 and synthesis."""
    source, profile = pair
    decision = await teacher.feasible(source, profile)
    if not decision.passed:
        return Outcome(source.id, profile.id, None, "gate2", decision.reason)
    written, reason = await teacher.write(source, profile)
    if written is None:
        return Outcome(source.id, profile.id, None, "synthesis", reason)
    history = (
        Step(stage="gate1", outcome="kept"),
        Step(stage="gate2", outcome="kept", detail=decision.reason),
        Step(stage="synthesis", outcome="made", detail=teacher.name),
    )
    return Outcome(source.id, profile.id, make_record(source, profile, written, history))


def make_record(
    source: SourceText, profile: TaskProfile, written: dict[str, Any], history: tuple[Step, ...]
) -> TrainingRecord:
    """The unified record of one question."""
    law, label = source.metadata.get("law"), source.metadata.get("label")
    cited = [f"刑法{name}" for name in list(source.metadata.get("articles") or ())[:1]]  # the first is the charge's own
    return TrainingRecord(
        id=f"{profile.id}:{source.id}",
        instruction=profile.instruction,
        question=written["question"],
        answer=written["answer"],
        evidence=tuple(written.get("evidence") or (source.id,)),
        domain=profile.domain,
        sub_category=profile.sub_category,
        profile=profile.id,
        grader=profile.grader,
        source=source.source,
        source_id=source.id,
        licence=source.licence,
        articles=tuple([f"{law}{label}"] if law and label else cited),
        history=history,
    )


def make_all(pairs: Sequence[Pair], teacher: Teacher) -> list[Outcome]:
    """All pairs, in their order; concurrency is the teacher's."""

    async def work() -> list[Outcome]:
        outcomes: list[Outcome] = []
        for window in _windows(pairs):
            outcomes += await _gather([make_one(pair, teacher) for pair in window])
        return outcomes

    return asyncio.run(_closing(work(), teacher))


async def _gather(calls: list[Any]) -> list[Outcome]:
    """All, or the first error once every call has ended: what is on its way is paid, so it is waited for and kept."""
    outcomes: list[Outcome] = []
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        outcomes.append(result)
    return outcomes


async def _closing(work: Any, teacher: Teacher) -> list[Outcome]:
    try:
        return await work
    finally:
        if isinstance(teacher, ModelTeacher):
            await teacher.endpoint.aclose()


def _windows(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    for start in range(0, len(pairs), WINDOW):
        yield pairs[start : start + WINDOW]


def estimate(pairs: Sequence[Pair], endpoint: TeacherEndpoint, cached: set[str]) -> dict[str, float]:
    """Requests, tokens and money for these pairs when all are feasible, answers in the cache left out."""
    spending = Spending()
    for source, profile in pairs:
        for name, schema in (("feasibility", FEASIBILITY_SCHEMA), ("synthesis", synthesis_schema(profile))):
            messages = messages_for(name, source, profile)
            if request_key(endpoint, messages, schema) in cached:
                continue
            spending.asked += 1
            spending.tokens_in += estimate_tokens(messages)
            spending.tokens_out += 60 if name == "feasibility" else round(profile.max_answer_chars / 1.5) + 200
    return {
        "requests": spending.asked,
        "tokens_in": spending.tokens_in,
        "tokens_out": spending.tokens_out,
        "cost": round(spending.cost(endpoint), 4),
    }
