"""The unified training record (paper, appendix G.7) and its JSON Schema.

One record in miniature::

    {"schema_version": 1, "id": "charge_prediction:gen-0-0007", "instruction": "根据案件事实判断罪名。", "question": "",
     "answer": "盗窃罪", "choices": [], "evidence": ["gen-0-0007"], "domain": "Reasoning",
     "sub_category": "Charge Prediction", "profile": "charge_prediction", "grader": "set_f1", "split": "train",
     "source": "generated", "source_id": "gen-0-0007", "licence": "…", "articles": ["刑法第二百六十四条"],
     "history": [{"stage": "gate1", "outcome": "kept", "detail": ""}, …]}
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.types import Question, Reference
from legal_rl.data.readers.lines import DataError

SCHEMA_VERSION = 1


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Step(_Record):
    """What one stage did with a record."""

    stage: str
    outcome: str = Field(pattern="^(kept|dropped|changed|made)$")
    detail: str = ""


class TrainingRecord(_Record):
    """One question with its answer, where it came from and what every stage did with it."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=1, le=SCHEMA_VERSION)
    id: str = Field(min_length=1)
    instruction: str = Field(description="Task instruction of the profile")
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1, description="Reference answer; letters for choice questions")
    choices: tuple[str, ...] = Field(default=(), description="Options in the order of their letters")
    evidence: tuple[str, ...] = Field(default=(), description="Ids of articles and cases that support the answer")
    domain: str
    sub_category: str
    profile: str
    grader: str = Field(description="Name of a grader in rewards.graders")
    split: str = Field(default="", pattern="^(train|dev|test|)$")
    source: str = Field(description="Name of the data set or corpus")
    source_id: str = Field(description="Id of the source text")
    licence: str = ""
    articles: tuple[str, ...] = Field(default=(), description="Articles that the question hangs on, for the splits")
    history: tuple[Step, ...] = ()

    def after(self, stage: str, outcome: str, detail: str = "", **changes: Any) -> TrainingRecord:
        """The record with one more step, and changed fields."""
        step = Step(stage=stage, outcome=outcome, detail=detail)
        return self.model_copy(update={**changes, "history": (*self.history, step)})


def json_schema() -> dict[str, Any]:
    """The JSON Schema that `docs/training-record.schema.json` publishes."""
    return TrainingRecord.model_json_schema()


def record_from_dict(data: dict[str, Any], where: str) -> TrainingRecord:
    """A record from its plain form; raises `DataError` naming place and field."""
    try:
        return TrainingRecord.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise DataError(f"{where}: field '{field}': {first['msg']}") from None


def to_question(record: TrainingRecord) -> Question:
    """The record as a question of the environment, for synthesis, GRPO and evaluation."""
    options = "\n".join(f"{chr(65 + i)}. {choice}" for i, choice in enumerate(record.choices))
    text = "\n".join(part for part in (record.instruction, record.question, options) if part)
    answer = (record.answer,) if len(record.answer) > 1 else ()
    spans = tuple(dict.fromkeys(record.articles + answer))
    return Question(
        id=record.id,
        text=text,
        answer=record.answer,
        grader=record.grader,
        family=record.profile,
        split=record.split,
        choices=record.choices,
        reference=Reference(evidence_ids=record.evidence, key_spans=spans),
        metadata={"source": record.source, "source_id": record.source_id, "domain": record.domain},
    )
