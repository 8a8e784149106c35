"""Builders of rollouts for hand-worked rewards."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import settings

from envs.types import Action, Completion, Question, Reference, Rollout, Statute, Stop, StopReason, Turn
from retrieval_server.types import Evidence, SearchResult, Status

settings.register_profile("shared_machine", deadline=None)  # a loaded machine is slow, not wrong
settings.load_profile("shared_machine")

GOLD = "law/刑法@2023-12-29#264"
REFERENCE = Reference(("statute", "stop"), (GOLD,), ("盗窃公私财物",), ("刑法第264条",))


def unit(id: str, text: str = "盗窃公私财物，处三年以下有期徒刑", score: float = 1.0) -> Evidence:
    return Evidence(id=id, source="statute", title="刑法", label="第二百六十四条", text=text, score=score)


def found(*units: Evidence | str) -> SearchResult:
    evidence = tuple(unit(u) if isinstance(u, str) else u for u in units)
    return SearchResult(status=Status.OK if evidence else Status.EMPTY, evidence=evidence)


def make_rollout(
    *steps: tuple[Action, SearchResult | None] | Action,
    answer: str = "盗窃公私财物",
    reference_answer: str = "盗窃公私财物",
    grader: str = "exact",
    stop_reason: StopReason = StopReason.ANSWER,
    error: str = "",
    texts: Sequence[str] = (),
) -> Rollout:
    """A rollout of (action, result) steps; `Stop(answer)` closes it when `answer` is given."""
    pairs = [step if isinstance(step, tuple) else (step, None) for step in steps]
    if answer:
        pairs.append((Stop(answer), None))
    turns = tuple(
        Turn(i, Completion(texts[i] if i < len(texts) else "条"), action, result)
        for i, (action, result) in enumerate(pairs)
    )
    messages = tuple({"role": "assistant", "content": turn.completion.text} for turn in turns)
    question = Question("q", "盗窃罪如何处罚？", reference_answer, grader)
    return Rollout(question, turns, stop_reason, answer, messages, error=error)


SEARCH = Statute("刑法第264条", "条文")


@pytest.fixture
def world() -> SimpleNamespace:
    """The builders above, under one name: test folders are no packages, so tests cannot import from here."""
    return SimpleNamespace(make=make_rollout, found=found, unit=unit, gold=GOLD, reference=REFERENCE, search=SEARCH)


@pytest.fixture
def good(world: SimpleNamespace) -> Rollout:
    """The reference's own trajectory."""
    return world.make((SEARCH, found(GOLD)))
