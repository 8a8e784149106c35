"""Task profiles: the 5 domains and 29 sub-categories of the paper's Table 9, one YAML file each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from legal_rl.data.readers.lines import DataError
from legal_rl.data.readers.sources import KINDS
from rewards.graders import GRADERS

DOMAINS = ("Knowledge Retrieval", "Understanding", "Reasoning", "Generation", "Consultation")


class TaskProfile(BaseModel):
    """One sub-category: what its task is, which material suits it, and how many records are wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern="^[a-z_]+$")
    domain: str
    sub_category: str
    description: str = Field(min_length=5)
    """What the task asks for, in Chinese: both gates read it."""
    input_format: str
    output_format: str
    instruction: str
    """What the trained model is told."""
    prompt: str
    """What the teacher is told when it writes a question."""
    source_kinds: tuple[str, ...]
    """Kinds of `SourceText` that suit the task (gate 1)."""
    needs: tuple[str, ...] = ()
    """Metadata that a source must have (gate 1)."""
    min_chars: int = 20
    max_chars: int = 6_000
    grader: str
    choice: bool = False
    """Options are added by rule after the synthesis."""
    leakage: bool = True
    """False where the answer is taken out of the question's own text (extraction)."""
    self_contained: bool = False
    """True where the question holds all that its answer needs: no evidence is asked for."""
    max_question_chars: int = 8_000
    max_answer_chars: int = 200
    quota: int = Field(ge=0)
    """Records wanted: the count of Table 9."""

    @field_validator("grader")
    @classmethod
    def _known_grader(cls, name: str) -> str:
        if name not in GRADERS:
            raise ValueError(f"unknown grader {name!r}; known: {', '.join(sorted(GRADERS))}")
        return name

    @field_validator("domain")
    @classmethod
    def _known_domain(cls, name: str) -> str:
        if name not in DOMAINS:
            raise ValueError(f"unknown domain {name!r}; known: {', '.join(DOMAINS)}")
        return name

    @field_validator("source_kinds")
    @classmethod
    def _known_kinds(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names or set(names) - set(KINDS):
            raise ValueError(f"unknown kinds {sorted(set(names) - set(KINDS))}; known: {', '.join(KINDS)}")
        return names


def read_profile(path: Path) -> TaskProfile:
    """One YAML file as a profile; raises `DataError` naming file and field."""
    try:
        return TaskProfile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DataError(f"{path}: field '{'.'.join(map(str, first['loc']))}': {first['msg']}") from None
    except (OSError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None


@cache
def builtin_profiles() -> dict[str, TaskProfile]:
    """Id -> profile of Table 9, in the table's order."""
    folder = Path(str(resources.files("legal_rl.data.pipeline").joinpath("profiles")))
    profiles = [read_profile(path) for path in sorted(folder.glob("*.yaml"))]
    return {profile.id: profile for profile in profiles}


def choose_profiles(names: Sequence[str]) -> list[TaskProfile]:
    """Profiles by id, by domain or by file; no name = all of Table 9.

    Raises:
        DataError: a name that is none of these.
    """
    known = builtin_profiles()
    chosen: dict[str, TaskProfile] = {}
    for name in names or list(known):
        if name in known:
            found = [known[name]]
        elif name in DOMAINS:
            found = [profile for profile in known.values() if profile.domain == name]
        elif Path(name).suffix in (".yaml", ".yml"):
            found = [read_profile(Path(name))]
        else:
            raise DataError(f"no profile {name!r}; give a .yaml file, a domain, or one of: {', '.join(known)}")
        chosen.update({profile.id: profile for profile in found})
    return list(chosen.values())
