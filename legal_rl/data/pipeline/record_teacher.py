"""The scripted teacher for data-set records: it searches, reads what the evidence shows, and answers from that alone.

    RecordTeacher(question)      a `Policy` for `run_rollout`; it never looks at question.answer

Each task has a play: the searches, best first, and how the answer is read out of the question and the rendered
evidence. Tasks whose answer stands in the question's own text (events, corrections, sums) are answered without a
search. Tasks without a play are not for this teacher: a model behind an endpoint writes their trajectories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.actions import render_action
from envs.policy import Budget
from envs.tokens import Dialogue
from envs.types import Completion, Precedent, Question, Statute, Stop
from legal_rl.data.clauses import definition, sentencing_tiers
from legal_rl.data.pipeline.distractors import LETTERS
from legal_rl.data.pipeline.text_rules import ACCUSATION, ACCUSED, CONFUSED, DAY, MULTIPLE, events_of
from legal_rl.data.pipeline.values import find_values, plain_number
from legal_rl.data.reading import Unit, environment_units, overlap
from legal_rl.data.wording import teacher_words
from retrieval_server.amounts import parse_number

Search = Statute | Precedent
_NAMED = re.compile(r"《(?P<law>[^》]+)》(?P<label>第[^，。的情\s]+?条(?:之[一二三四五六七八九十]+)?)")
_TERM_ASKED = re.compile(r"《(?P<law>[^》]+)》所称的“(?P<term>[^”]+)”")
_CASE = re.compile(r"(?P<label>第\S+?条(?:之[一二三四五六七八九十]+)?)的情形：(?P<deed>.+?)。应当如何处刑")
_GAINS = re.compile(r"违法所得(\d+)元")
_ELLIPSIS = "…"
_QUERY_CHARS = 200
_MIN_OVERLAP = 0.6


@dataclass(frozen=True, slots=True)
class Play:
    """`searches` gives the searches, best first; `read` gives None when the evidence does not hold the answer."""

    searches: Callable[[Question], list[Search]]
    read: Callable[[Question, Sequence[Unit]], str | None]


class RecordTeacher:
    """Plays one question. Make a new one for every rollout.

    Raises:
        KeyError: the question's family has no play; ask `PLAYS` first.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self._play = PLAYS[question.family]
        self._left = self._play.searches(question)

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        """The next turn, from what the dialogue shows so far."""
        return Completion(text=render_action(self._next(environment_units(dialogue.messages), budget), "tags"))

    def _next(self, units: Sequence[Unit], budget: Budget) -> Search | Stop:
        words = teacher_words()
        answer = self._play.read(self.question, units)
        if answer is None and self._left and not budget.forced:
            return self._left.pop(0)
        if answer is None:
            return Stop(answer=words["unfound"]["answer"], thought=words["unfound"]["before"])
        searched = bool(self._play.searches(self.question))
        return Stop(answer=answer, thought=words["record"]["after"] if searched else words["no_retrieval"]["before"])


def _statutes(*queries: str) -> list[Search]:
    words = teacher_words()["record"]
    return [Statute(query=query, intent=words["intent"], thought=words["before"]) for query in queries]


def _by_citation(question: Question) -> list[Search]:
    found = _NAMED.search(question.text)
    return _statutes(f"{found['law']}{found['label']}") if found else []


def _named_unit(question: Question, units: Sequence[Unit]) -> Unit | None:
    found = _NAMED.search(question.text)
    return _unit(units, found["law"], found["label"]) if found else None


def _unit(units: Sequence[Unit], law: str, label: str) -> Unit | None:
    return next((unit for unit in units if unit.law == law and unit.label == label), None)


def _read_clause(question: Question, units: Sequence[Unit]) -> str | None:
    unit = _named_unit(question, units)
    return unit.text if unit and not unit.text.endswith(_ELLIPSIS) else None  # a clipped article is no whole answer


def _passage(question: Question) -> str:
    found = re.search(r"“(.+)”", question.text, re.DOTALL)
    return found[1] if found else ""


def _search_passage(question: Question) -> list[Search]:
    passage = _passage(question)
    return _statutes(passage[:_QUERY_CHARS], f"规定{passage[:40]}的法律") if passage else []


def _read_place(question: Question, units: Sequence[Unit]) -> str | None:
    passage = _passage(question)
    best = max(units, key=lambda u: (passage in u.text, overlap(passage, u.text)), default=None)
    return f"{best.law}{best.label}" if best and overlap(passage, best.text) >= _MIN_OVERLAP else None


def _search_term(question: Question) -> list[Search]:
    found = _TERM_ASKED.search(question.text)
    if not found:
        return []
    law, term = found["law"], found["term"]
    return _statutes(f"{law} 本法所称{term}，是指", f"{law} {term} 含义")


def _read_term(question: Question, units: Sequence[Unit]) -> str | None:
    found = _TERM_ASKED.search(question.text)
    for unit in units if found else ():
        meaning = definition(unit.text)
        if found and unit.law == found["law"] and meaning and meaning[0] == found["term"]:
            return meaning[1]
    return None


def _search_case(question: Question) -> list[Search]:
    found = _CASE.search(question.text)
    return _statutes(f"刑法{found['label']}") if found else []


def _read_case(question: Question, units: Sequence[Unit]) -> str | None:
    """The option that states the punishment of the tier whose condition the question tells."""
    found = _CASE.search(question.text)
    unit = _unit(units, "刑法", found["label"]) if found else None
    if found is None or unit is None:
        return None
    for tier in sentencing_tiers(unit.text):
        if found["deed"].endswith(tier.condition) and tier.penalty.value in question.choices:
            return LETTERS[question.choices.index(tier.penalty.value)]
    return None


def _read_fine(question: Question, units: Sequence[Unit]) -> str | None:
    unit, gains = _named_unit(question, units), _GAINS.search(question.text)
    found = MULTIPLE.search(unit.text) if unit is not None else None
    times = parse_number(found["high"]) if found is not None else None
    if gains is None or times is None:
        return None
    return f"{plain_number(int(gains[1]) * times)}元"


def _search_alike(question: Question) -> list[Search]:
    thought = teacher_words()["record"]["before"]
    return [Precedent(query=_body(question)[:_QUERY_CHARS], thought=thought)]


def _read_charges(question: Question, units: Sequence[Unit]) -> str | None:
    """The charges of the most similar case."""
    return next((unit.title.split(" ", 1)[1].strip() for unit in units if " " in unit.title), None)


def _body(question: Question) -> str:
    """The question without the task's instruction, which is its first line."""
    return question.text.split("\n", 1)[-1]


def _lines(question: Question) -> list[str]:
    return _body(question).split("\n")


def _read_events(question: Question, units: Sequence[Unit]) -> str | None:
    return "、".join(events_of("\n".join(_lines(question)[1:-1]))) or None


def _read_triggers(question: Question, units: Sequence[Unit]) -> str | None:
    return "、".join(events_of("\n".join(_lines(question)[:-1])).values()) or None


def _read_correction(question: Question, units: Sequence[Unit]) -> str | None:
    text = _body(question)
    return next((text.replace(wrong, right, 1) for right, wrong in CONFUSED if wrong in text), None)


def _read_day(question: Question, units: Sequence[Unit]) -> str | None:
    return next(iter(DAY.findall(_body(question))), None)


def _read_accusation(question: Question, units: Sequence[Unit]) -> str | None:
    found = ACCUSATION.search(_body(question))
    return found[1] if found else None


def _read_accused(question: Question, units: Sequence[Unit]) -> str | None:
    return "、".join(dict.fromkeys(ACCUSED.findall(_body(question)))) or None


def _read_sum(question: Question, units: Sequence[Unit]) -> str | None:
    fines = [value.key for value in find_values(_body(question)) if value.kind == "fine"]
    return f"{plain_number(sum(key for key in fines if isinstance(key, float)))}元" if fines else None


def _nothing(question: Question) -> list[Search]:
    return []


PLAYS: dict[str, Play] = {
    "clause_recall": Play(_by_citation, _read_clause),
    "clause_retrieval": Play(_search_passage, _read_place),
    "concept_comprehension": Play(_search_term, _read_term),
    "scenario_analysis": Play(_search_case, _read_case),
    "legal_calculation": Play(_by_citation, _read_fine),
    "charge_prediction": Play(_search_alike, _read_charges),
    "event_detection": Play(_nothing, _read_events),
    "trigger_extraction": Play(_nothing, _read_triggers),
    "document_correction": Play(_nothing, _read_correction),
    "reading_comprehension": Play(_nothing, _read_day),
    "plaintiff_opinion": Play(_nothing, _read_accusation),
    "subject_identification": Play(_nothing, _read_accused),
    "amount_calculation": Play(_nothing, _read_sum),
}
"""Profile id -> its play."""
