"""Errors of the Legal Assistant, named by the boundary that they crossed."""

from __future__ import annotations


class LegalRLError(Exception):
    """Base of every error a user can meet; its text is one line that says what is wrong and what to do."""


class RetrievalError(LegalRLError):
    """The Legal Assistant could not be asked, or did not answer in time."""


class CorpusError(LegalRLError):
    """A corpus file cannot be used; the text names file, line and field."""


class IndexStateError(LegalRLError):
    """An index folder is missing, damaged or stale; the text names the command that mends it."""


class AssistantError(LegalRLError):
    """The Assistant LLM failed or answered in a form that cannot be read."""
