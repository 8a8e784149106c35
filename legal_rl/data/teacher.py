"""The scripted teacher: a `Policy` that plays the Lawyer through the same `run_rollout` and the real Assistant.

It searches with a source-specific query and an intent, reads the rendered evidence and answers from it; when the
evidence does not hold the answer it revises the query once. It never looks at the reference answer, except where it
plays the imperfection `memory`: a teacher who knows the article by heart and answers without a search.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from envs.actions import Dialect, render_action
from envs.policy import Budget
from envs.tokens import Dialogue
from envs.types import Completion, Precedent, Question, Statute, Stop
from legal_rl.data.families.direct import solve
from legal_rl.data.playbooks import PLAYBOOKS, Finding, Search
from legal_rl.data.reading import Unit, environment_units
from legal_rl.data.settings import TeacherSettings
from legal_rl.data.wording import teacher_words

NO_RETRIEVAL = "no_retrieval"
MEMORY = "memory"


class TeacherPolicy:
    """Plays one question. Make a new one for every rollout, as with `LegalEnv`.

    Example::

        teacher = TeacherPolicy(question, TeacherSettings.perfect())
        rollout = await run_rollout(question, teacher, LegalEnv(assistant))
    """

    def __init__(self, question: Question, settings: TeacherSettings | None = None, dialect: Dialect = "tags") -> None:
        self.question = question
        self.dialect: Dialect = dialect
        self.imperfection = choose_imperfection(question, settings or TeacherSettings())
        self._plan = plan(question)
        self._detours = detours(question, self.imperfection)

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        """The next turn, from what the dialogue shows so far."""
        action = self._next(environment_units(dialogue.messages), budget)
        return Completion(text=render_action(action, self.dialect))

    def _next(self, units: Sequence[Unit], budget: Budget) -> Search | Stop:
        if self.imperfection == MEMORY:
            return Stop(answer=self.question.answer, thought=teacher_words()[MEMORY]["before"])
        if self._detours and not budget.forced:
            return self._detours.pop(0)
        finding = self._read(units)
        if finding is None and self._plan and not budget.forced:
            return self._plan.pop(0)
        return self._answer(finding)

    def _read(self, units: Sequence[Unit]) -> Finding | None:
        if self.question.family == NO_RETRIEVAL:
            return Finding(solve(self.question))
        return PLAYBOOKS[self.question.family].read(self.question, units)

    def _answer(self, finding: Finding | None) -> Stop:
        words = teacher_words()
        if finding is None:
            return Stop(answer=words["unfound"]["answer"], thought=words["unfound"]["before"])
        if self.question.family == NO_RETRIEVAL:
            return Stop(
                answer=finding.answer, thought=words[NO_RETRIEVAL]["before" if not self.imperfection else "after"]
            )
        key = PLAYBOOKS[self.question.family].key(self.question)
        return Stop(
            answer=finding.answer, thought=words[self.question.family]["after"].format(key=key, found=finding.found)
        )


def plan(question: Question) -> list[Search]:
    """The searches in order: the best first, the revision second; none for questions that need no retrieval."""
    if question.family == NO_RETRIEVAL:
        return []
    searches = PLAYBOOKS[question.family].plan(question)
    revised = teacher_words()["revised"]["before"]
    return [searches[0], *(_with_thought(search, revised) for search in searches[1:])]


def choose_imperfection(question: Question, settings: TeacherSettings) -> str:
    """ "" (most often), or the kind of imperfection that this question is played with: a function of seed and id."""
    rng = random.Random(f"{settings.seed}/{question.id}/imperfection")
    rates = {
        "repeated": settings.repeated_search,
        "vague": settings.vague_query,
        "wrong_source": settings.wrong_source,
        MEMORY: settings.from_memory,
    }
    if question.family == NO_RETRIEVAL:
        rates = {"needless": settings.needless_search}
    point = rng.random()
    for kind, rate in rates.items():
        if point < rate:
            return kind
        point -= rate
    return ""


def detours(question: Question, imperfection: str) -> list[Search]:
    """The searches that a better Lawyer would not have made."""
    if imperfection in ("", MEMORY):
        return []
    thought = teacher_words()[imperfection]["before"]
    if imperfection == "needless":
        return [Statute(query=question.text[:20], intent=teacher_words()[NO_RETRIEVAL]["intent"], thought=thought)]
    first = plan(question)[0]
    if imperfection == "repeated":
        return [first, _with_thought(first, thought)]
    if imperfection == "vague":
        vague = question.metadata.get("law") or first.query[:6]
        return [_requery(first, vague, thought)]
    if isinstance(first, Statute):
        return [Precedent(query=first.query, thought=thought)]
    return [Statute(query=first.query, intent=teacher_words()[NO_RETRIEVAL]["intent"], thought=thought)]


def _with_thought(search: Search, thought: str) -> Search:
    return _requery(search, search.query, thought)


def _requery(search: Search, query: str, thought: str) -> Search:
    if isinstance(search, Statute):
        return Statute(query=query, intent=search.intent, thought=thought)
    return Precedent(query=query, circumstances=search.circumstances, charge=search.charge, thought=thought)
