"""What the teacher knows of each family: which search to make, and how to read the answer out of the evidence.

A playbook sees the question's own words (kept in its metadata) and the rendered evidence, never the reference answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.types import Precedent, Question, Statute
from legal_rl.data.clauses import first_clause, lead_in, provisos, sentencing_tiers
from legal_rl.data.families.base import LETTERS
from legal_rl.data.families.compare import sentence_parts
from legal_rl.data.reading import Unit, overlap
from legal_rl.data.splits import CRIMINAL_LAW
from legal_rl.data.wording import teacher_words
from retrieval_server.severity import punishment_severity_index

Search = Statute | Precedent
MIN_OVERLAP = 0.6


@dataclass(frozen=True, slots=True)
class Finding:
    """What the evidence says: the answer, and the words of the evidence that lead up to it."""

    answer: str
    found: str = ""


@dataclass(frozen=True, slots=True)
class Playbook:
    """`plan` gives the searches, best first; `read` gives None when the evidence does not hold the answer."""

    plan: Callable[[Question], list[Search]]
    read: Callable[[Question, Sequence[Unit]], Finding | None]
    key: Callable[[Question], str]


def citation(question: Question) -> str:
    """The article as the question writes it: 《刑法》第五条, or 刑法第五条 when the words are apart."""
    law, label = question.metadata["law"], question.metadata["label"]
    marked = f"《{law}》{label}"
    return marked if marked in question.text else f"{law}{label}"


def named_unit(question: Question, units: Sequence[Unit]) -> Unit | None:
    """The unit that the question names by law and label."""
    law, label = question.metadata["law"], question.metadata["label"]
    return next((u for u in units if u.law == law and u.label == label), None)


def matching_unit(passage: str, units: Sequence[Unit], law: str = "") -> Unit | None:
    """The unit that holds the passage, or most of it."""
    candidates = [u for u in units if not law or u.law == law]
    best = max(candidates, key=lambda u: (passage in u.text, overlap(passage, u.text)), default=None)
    return best if best is not None and overlap(passage, best.text) >= MIN_OVERLAP else None


def statute_plan(question: Question, *queries: str) -> list[Search]:
    """One statute search per query, with the family's intent."""
    words = teacher_words()[question.family]
    thought = words["before"].format(key=PLAYBOOKS[question.family].key(question))
    return [Statute(query=query, intent=words["intent"], thought=thought) for query in queries]


def _by_citation(question: Question) -> list[Search]:
    law, label = question.metadata["law"], question.metadata["label"]
    return statute_plan(question, citation(question), f"中华人民共和国{law}{label}")


def _by_passage(question: Question) -> list[Search]:
    snippet, law = question.metadata["snippet"], question.metadata["law"]
    revised = f"{law} {snippet}" if law in question.text else f"规定{snippet}的法律"
    return statute_plan(question, snippet, revised)


def _read_recite(question: Question, units: Sequence[Unit]) -> Finding | None:
    unit = named_unit(question, units)
    clause = first_clause(unit.text) if unit else ""
    return Finding(clause, unit.heading) if unit and clause else None


def _read_proviso(question: Question, units: Sequence[Unit]) -> Finding | None:
    unit = named_unit(question, units)
    found = provisos(unit.text) if unit else []
    return Finding(found[0].value, lead_in(unit.text, found[0].start)) if unit and found else None


def _read_locate(question: Question, units: Sequence[Unit]) -> Finding | None:
    unit = matching_unit(question.metadata["snippet"], units)
    return Finding(f"{unit.law}{unit.label}", unit.heading) if unit else None


def _sentencing_plan(question: Question) -> list[Search]:
    if question.metadata["style"] == "article":
        return _by_citation(question)
    condition = question.metadata["condition"]
    return statute_plan(question, condition, f"{CRIMINAL_LAW} {condition} 处")


def _read_sentencing(question: Question, units: Sequence[Unit]) -> Finding | None:
    condition = question.metadata["condition"]
    if question.metadata["style"] == "article":
        unit = named_unit(question, units)
    else:
        unit = matching_unit(condition, units, law=CRIMINAL_LAW)
    tiers = sentencing_tiers(unit.text) if unit else []
    return next(
        (Finding(tier.penalty.value, f"{condition}，处") for tier in tiers if tier.condition == condition), None
    )


def _choice_plan(question: Question) -> list[Search]:
    return _by_citation(question) if question.metadata["kind"] == "choice_text" else _by_passage(question)


def _read_choice(question: Question, units: Sequence[Unit]) -> Finding | None:
    by_text = question.metadata["kind"] == "choice_text"
    unit = (
        named_unit(question, units) if by_text else matching_unit(question.metadata["snippet"], units, _law(question))
    )
    options = question.metadata["options"].split("|")
    right = (first_clause(unit.text) if by_text else unit.label) if unit else ""
    if right not in options:
        return None
    letter = LETTERS[options.index(right)]
    return Finding(
        letter, f"{letter}.{right}" if question.metadata["style"] == "letter_first" else f"{right}（{letter}）"
    )


def _law(question: Question) -> str:
    return question.metadata["law"]


def _sentencing_key(question: Question) -> str:
    return citation(question) if question.metadata["style"] == "article" else question.metadata["condition"]


def _choice_key(question: Question) -> str:
    return citation(question) if question.metadata["kind"] == "choice_text" else question.metadata["snippet"]


def _compare_plan(question: Question) -> list[Search]:
    """The named courts and the charge; the revision asks for the first court alone."""
    facts = question.metadata
    courts = dict.fromkeys((facts["court_a"], facts["court_b"]))
    words = teacher_words()["compare_precedents"]
    thought = words["before"].format(key=_compare_key(question))
    queries = (" ".join((*courts, facts["charge"])), f"{facts['court_b']} {facts['charge']}")
    return [Precedent(query=query, charge=facts["charge"], thought=thought) for query in queries]


def _compare_key(question: Question) -> str:
    return "、".join(dict.fromkeys((question.metadata["court_a"], question.metadata["court_b"])))


def _read_compare(question: Question, units: Sequence[Unit]) -> Finding | None:
    facts, found = question.metadata, {}
    for unit in units:
        court, _, charge = unit.title.partition(" ")
        parts = sentence_parts(unit.text)
        if charge == facts["charge"] and parts:
            found.setdefault(court, parts)
    wanted = list(dict.fromkeys((facts["court_a"], facts["court_b"])))
    if any(court not in found for court in wanted):
        return None
    said = "，".join(f"{court} {facts['charge']} {found[court][0]}" for court in wanted)
    if facts["kind"] == "precedent_sentence":
        return Finding(found[wanted[0]][0], f"{wanted[0]} {facts['charge']}")
    severity = {court: severity_of(found[court]) for court in wanted}
    return Finding(max(wanted, key=severity.__getitem__), said)


def severity_of(parts: Sequence[str]) -> float:
    """Index of a brief's penalties; a brief leaves out for how long a sentence is suspended, which does not count."""
    return punishment_severity_index("判处" + "，".join(parts).replace("（缓刑）", "，缓刑一年"))


PLAYBOOKS: dict[str, Playbook] = {
    "recite": Playbook(_by_citation, _read_recite, citation),
    "locate": Playbook(_by_passage, _read_locate, lambda question: question.metadata["snippet"]),
    "sentencing_range": Playbook(_sentencing_plan, _read_sentencing, _sentencing_key),
    "multiple_choice": Playbook(_choice_plan, _read_choice, _choice_key),
    "proviso": Playbook(_by_citation, _read_proviso, citation),
    "compare_precedents": Playbook(_compare_plan, _read_compare, _compare_key),
}
