"""Every citation of a final answer against the evidence and the knowledge base.

cite("依据刑法第二百六十四条[1]与第九百九十九条", evidence, looked_up)
-> [verified 刑法第二百六十四条, verified [1], not_found 刑法第九百九十九条]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from retrieval_server.types import CitedArticle, CitedStatus, Evidence

_NUMBER = re.compile(r"[\[［【](\d{1,3})[\]］】]")


class CitationStatus(StrEnum):
    """What stands behind a citation."""

    VERIFIED = "verified"
    """It is among the evidence that the answer was written from, and governs."""
    NOT_RETRIEVED = "not_retrieved"
    """It exists and governs, but nobody retrieved it for this answer."""
    NOT_IN_FORCE = "not_in_force"
    NOT_FOUND = "not_found"
    """Neither the evidence nor the knowledge base has it."""
    UNRESOLVED = "unresolved"
    """It names no law, and no evidence has its number."""


@dataclass(frozen=True, slots=True)
class AnswerCitation:
    """One citation; `evidence` are the numbers of the units that carry it, from 1."""

    kind: str
    """article, case, or reference (a number such as [1])."""
    status: CitationStatus
    law: str
    label: str
    note: str = ""
    article_id: str = ""
    evidence: tuple[int, ...] = ()
    span: tuple[int, int] = (0, 0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def name(self) -> str:
        return f"《{self.law}》{self.label}" if self.law else self.label


def cite(answer: str, evidence: Sequence[Evidence], looked_up: Sequence[CitedArticle]) -> list[AnswerCitation]:
    """The citations of `answer` in its order.

    Args:
        looked_up: what the knowledge base says of the answer (`Knowledge.citations`).
    """
    found = [_article(cited, evidence) if cited.kind == "article" else _case(cited, evidence) for cited in looked_up]
    found += [_reference(match, evidence) for match in _NUMBER.finditer(answer)]
    return sorted(found, key=lambda citation: citation.span)


def _article(cited: CitedArticle, evidence: Sequence[Evidence]) -> AnswerCitation:
    numbers = tuple(
        number
        for number, unit in enumerate(evidence, start=1)
        if (unit.id == cited.article_id if cited.article_id else not cited.law and unit.label == cited.label)
    )
    if cited.status is CitedStatus.UNRESOLVED:
        status = CitationStatus.VERIFIED if numbers else CitationStatus.UNRESOLVED
    elif cited.status is CitedStatus.IN_FORCE:
        status = CitationStatus.VERIFIED if numbers else CitationStatus.NOT_RETRIEVED
    else:
        status = CitationStatus(cited.status.value)
    law = cited.law
    if not law and numbers:
        law = evidence[numbers[0] - 1].title
    return AnswerCitation(
        "article", status, law.strip("《》"), cited.label, cited.note,
        cited.article_id or (evidence[numbers[0] - 1].id if numbers else ""), numbers, cited.span,
    )  # fmt: skip


def _case(cited: CitedArticle, evidence: Sequence[Evidence]) -> AnswerCitation:
    """A case number counts where some evidence carries it; the knowledge base alone makes it "not retrieved"."""
    numbers = tuple(
        number
        for number, unit in enumerate(evidence, start=1)
        if cited.label in unit.text or cited.label in unit.title or (cited.article_id and unit.id == cited.article_id)
    )
    known = cited.status is CitedStatus.IN_FORCE
    status = CitationStatus.VERIFIED if numbers else CitationStatus.NOT_RETRIEVED if known else CitationStatus.NOT_FOUND
    note = "" if numbers else cited.note
    return AnswerCitation("case", status, "", cited.label, note, cited.article_id, numbers, cited.span)


def _reference(match: re.Match[str], evidence: Sequence[Evidence]) -> AnswerCitation:
    number = int(match[1])
    there = 1 <= number <= len(evidence)
    if not there:
        note = f"证据只有 {len(evidence)} 份"
        return AnswerCitation("reference", CitationStatus.NOT_FOUND, "", match[0], note, span=match.span())
    unit = evidence[number - 1]
    return AnswerCitation(
        "reference", CitationStatus.VERIFIED, "", match[0], unit.title, unit.id, (number,), match.span()
    )
