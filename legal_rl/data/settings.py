"""Settings of the data construction; unknown keys fail."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

FAMILIES = (
    "recite",
    "locate",
    "sentencing_range",
    "multiple_choice",
    "proviso",
    "compare_precedents",
    "no_retrieval",
)


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class QuestionSettings(_Settings):
    """How many questions of which kind, and how short they are."""

    seed: int = 0
    families: tuple[str, ...] = FAMILIES
    train_per_family: int = Field(default=500, ge=0)
    """SFT questions; a family with fewer possible ones gives what it has."""
    grpo_per_family: int = Field(default=150, ge=0)
    """Train-part questions set aside for GRPO, none of them an SFT question."""
    dev_per_family: int = Field(default=12, ge=0)
    test_per_family: int = Field(default=35, ge=0)
    visible_chars: int = Field(default=78, ge=20)
    """An answer must stand in this many first characters of its article: evidence is shown clipped."""
    max_law_chars: int = Field(default=9, ge=2)
    max_answer_chars: int = Field(default=24, ge=4)
    benchmarks: tuple[str, ...] = ()
    """Files or folders of benchmarks whose texts must not be among the questions; empty = not compared."""
    latest_effective_date: str = "2026-01-01"
    """Only law in force by this day is asked for, so the set does not depend on the day it is made."""


class TeacherSettings(_Settings):
    """How often the scripted teacher is imperfect on purpose; each kind is marked in the trajectory's metadata."""

    seed: int = 0
    needless_search: float = Field(default=0.04, ge=0, le=1)
    repeated_search: float = Field(default=0.03, ge=0, le=1)
    vague_query: float = Field(default=0.05, ge=0, le=1)
    wrong_source: float = Field(default=0.04, ge=0, le=1)
    from_memory: float = Field(default=0.03, ge=0, le=1)
    """Answers rightly without a search, as a teacher who knows the law by heart would. Rejection sampling keeps such a
    trajectory; the student, who knows nothing by heart, learns to invent answers from it."""

    @classmethod
    def perfect(cls) -> TeacherSettings:
        """The teacher whose trajectories are the references of R_align."""
        return cls(needless_search=0, repeated_search=0, vague_query=0, wrong_source=0, from_memory=0)
