"""Errors of the training system, named by the boundary they crossed. Each text is one line that says what to do."""

from __future__ import annotations

from retrieval_server.errors import LegalRLError


class ConfigError(LegalRLError):
    """A configuration file or override cannot be used."""


class StageError(LegalRLError):
    """A stage of a run failed; finished stages stay finished and the run may be started again."""


class ModelError(LegalRLError):
    """A model folder is missing or cannot be loaded."""


__all__ = ["ConfigError", "LegalRLError", "ModelError", "StageError"]
