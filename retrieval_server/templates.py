"""Prompts of the Assistant LLM: text files beside the code, with their placeholders checked when they are loaded."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "prompts"
_PLACEHOLDERS = {
    "rerank_system": {"topk"},
    "rerank_user": {"query", "context", "results"},
    "brief_system": set(),
    "brief_user": {"fact_query", "doc_fact", "doc_reason", "doc_result"},
}
_NAME = re.compile(r"\{([a-z_]+)\}")


@cache
def load_prompt(name: str) -> str:
    """Text of a prompt.

    Raises:
        ValueError: the file's placeholders are not the ones the code fills.
    """
    text = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip()
    found = set(_NAME.findall(text))
    if found != _PLACEHOLDERS[name]:
        raise ValueError(f"prompt {name}.txt has placeholders {sorted(found)}, not {sorted(_PLACEHOLDERS[name])}")
    return text


def fill_prompt(name: str, **values: str) -> str:
    """The prompt with its placeholders filled in one pass: values that look like placeholders stay as they are."""
    return _NAME.sub(lambda match: values[match[1]], load_prompt(name))
