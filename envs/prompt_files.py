"""Prompt files of the environment: Chinese text with `$name` placeholders that are checked when a file is loaded.

The first line of each file is its version, `# lawyer_system v1`; it is not part of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from string import Template

from envs.errors import PromptError

PROMPT_DIR = Path(__file__).parent / "prompts"

PLACEHOLDERS: dict[str, frozenset[str]] = {
    "lawyer_system": frozenset({"max_turns"}),
    "lawyer_system_tool_call": frozenset({"max_turns"}),
    "lawyer_system_compact": frozenset(),
    "correction": frozenset({"reason"}),
    "last_turn": frozenset(),
    "forced_answer": frozenset(),
    "judge_answer": frozenset({"question", "trajectory", "evidence"}),
}
"""The prompts of this package and the placeholders that the code fills in."""

_HEADER = re.compile(r"\A# (?P<name>\S+) v(?P<version>\d+)\n")


@cache
def load_prompt(name: str) -> Template:
    """Load a prompt of this package by name, or any file by its path (placeholders are then those of `lawyer_system`).

    Raises:
        PromptError: no such file, no version line, or an unknown placeholder.
    """
    if name in PLACEHOLDERS:
        return read_prompt(PROMPT_DIR / f"{name}.txt", PLACEHOLDERS[name])
    return read_prompt(Path(name), PLACEHOLDERS["lawyer_system"], exact=False)


def read_prompt(path: Path, placeholders: Collection[str], *, exact: bool = True) -> Template:
    """Read one prompt file and check it: every placeholder is known and, with `exact`, every known one is used."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PromptError(
            f"{path}: prompt file cannot be read ({error.strerror}); name one of {sorted(PLACEHOLDERS)}"
        ) from error
    header = _HEADER.match(text)
    if header is None:
        raise PromptError(f"{path}:1: the first line must be '# <name> v<number>'")
    template = Template(text[header.end() :].strip())
    if not template.is_valid():
        raise PromptError(f"{path}: a lone '$'; write '$$' for the character itself")
    found = set(template.get_identifiers())
    wrong = found ^ set(placeholders) if exact else found - set(placeholders)
    if wrong:
        raise PromptError(f"{path}: placeholders {sorted(wrong)} do not match, expected {sorted(placeholders)}")
    return template


def prompt_version(name: str) -> str:
    """`lawyer_system v1`, for the manifest of a run."""
    load_prompt(name)
    path = PROMPT_DIR / f"{name}.txt" if name in PLACEHOLDERS else Path(name)
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def fill(name: str, **values: object) -> str:
    """The prompt `name` with its placeholders filled in; unused values are ignored."""
    return load_prompt(name).substitute({key: str(value) for key, value in values.items()})
