"""What happens while a question is answered, as it is sent to clients.

    start → thought* → search → evidence → … → answer_delta* → answer → citations → done
                                                                         (or: error)

Each event is a type and a JSON object; `docs/serving.md` lists the fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from retrieval_server.errors import LegalRLError


class EventType(StrEnum):
    """The words that clients see."""

    START = "start"
    THOUGHT = "thought"
    """A piece of the Lawyer's reasoning."""
    SEARCH = "search"
    EVIDENCE = "evidence"
    CORRECTION = "correction"
    """A turn that could not be read; the Lawyer is told why."""
    DRAFT = "draft"
    """The Lawyer's own short answer, where a Judge writes the final one."""
    ANSWER_DELTA = "answer_delta"
    ANSWER = "answer"
    """The whole final answer; it replaces the pieces."""
    CITATIONS = "citations"
    DONE = "done"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `data` holds JSON values only."""

    type: EventType
    data: dict[str, Any] = field(default_factory=dict)


class AnswerError(LegalRLError):
    """A question that could not be answered. `code` is for programs, `status` is the HTTP status before any event."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(message)
        self.code, self.status = code, status

    def event(self) -> Event:
        return Event(EventType.ERROR, {"code": self.code, "message": str(self), "status": self.status})
