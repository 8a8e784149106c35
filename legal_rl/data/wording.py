"""The question templates: read once, checked once, filled by name."""

from __future__ import annotations

import random
import string
from functools import cache
from importlib import resources

import yaml

from retrieval_server.errors import LegalRLError

MIN_TEMPLATES = 4


class TemplateError(LegalRLError):
    """A template file lacks wordings or its wordings disagree about their placeholders."""


def placeholders(template: str) -> frozenset[str]:
    """Names between braces."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name)


def check_templates(templates: dict[str, list[str]], where: str) -> dict[str, tuple[str, ...]]:
    """The templates as tuples; every kind has enough different wordings with the same placeholders.

    Raises:
        TemplateError: names the file and the kind.
    """
    for kind, wordings in templates.items():
        if len(set(wordings)) < MIN_TEMPLATES:
            raise TemplateError(f"{where}: {kind} has {len(set(wordings))} different wordings, needs {MIN_TEMPLATES}")
        if len({placeholders(wording) for wording in wordings}) != 1:
            raise TemplateError(f"{where}: the wordings of {kind} use different placeholders")
    return {kind: tuple(wordings) for kind, wordings in templates.items()}


@cache
def question_templates() -> dict[str, tuple[str, ...]]:
    """kind -> wordings of `templates/questions.yaml`."""
    text = resources.files("legal_rl.data").joinpath("templates/questions.yaml").read_text(encoding="utf-8")
    return check_templates(yaml.safe_load(text), "questions.yaml")


def ask(kind: str, rng: random.Random, **values: str) -> str:
    """One wording of `kind`, chosen by `rng` and filled."""
    return rng.choice(question_templates()[kind]).format(**values)


@cache
def teacher_words() -> dict[str, dict[str, str]]:
    """family or imperfection -> the teacher's words, from `templates/teacher.yaml`."""
    text = resources.files("legal_rl.data").joinpath("templates/teacher.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)
