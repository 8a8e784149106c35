"""Errors of the environment, named by the boundary that they crossed."""

from __future__ import annotations

from retrieval_server.errors import LegalRLError


class PolicyError(LegalRLError):
    """The policy's endpoint failed or did not answer in time: the rollout is invalid, not wrong."""


class PromptError(LegalRLError):
    """A prompt file is missing, or its placeholders are not the ones the code fills in."""


class RecordError(LegalRLError):
    """A rollout or question file cannot be read; the text names file, line and field."""


class EnvStateError(LegalRLError):
    """The environment was used out of order, such as one environment for two rollouts."""
