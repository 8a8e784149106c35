"""Errors of the reward, named by the boundary that they crossed."""

from __future__ import annotations

from retrieval_server.errors import LegalRLError


class JudgeError(LegalRLError):
    """The reward judge could not be asked, or its verdict cannot be read: the term is invalid, never zero."""


class RewardConfigError(LegalRLError):
    """An unknown preset or grader; the text names the known ones."""
