"""FlashRAG's dataset files: questions with golden answers, in and out.

{"id": "q1", "question": "…", "golden_answers": ["…"], "choices": [], "metadata": {…}}
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envs.types import Question, Reference
from legal_rl.data.readers.lines import DataError, dump, need_text, read_lines


def write_dataset(questions: Iterable[Question], path: Path) -> int:
    """Questions in FlashRAG's form; returns their number. What its form lacks travels in `metadata`."""
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    count = 0
    with temporary.open("w", encoding="utf-8") as out:
        for question in questions:
            evidence = list(question.reference.evidence_ids) if question.reference else []
            metadata = {
                **question.metadata, "grader": question.grader, "family": question.family, "split": question.split,
                "evidence_ids": evidence,
            }  # fmt: skip
            row: dict[str, Any] = {
                "id": question.id, "question": question.text, "golden_answers": [question.answer], "metadata": metadata,
            }  # fmt: skip
            out.write(dump(row | ({"choices": list(question.choices)} if question.choices else {})))
            count += 1
    os.replace(temporary, path)
    return count


def read_dataset(path: Path, grader: str = "contains") -> Iterator[Question]:
    """Questions of a FlashRAG dataset; files of other makers get `grader`.

    Raises:
        DataError: names file, line and field.
    """
    for number, row in read_lines(path):
        text = need_text(path, number, row, "question")
        answers = row.get("golden_answers")
        if not isinstance(answers, list) or not answers or not all(isinstance(a, str) and a for a in answers):
            raise DataError(f"{path}, line {number}: field 'golden_answers' must be a list of texts, at least one")
        metadata = row.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise DataError(f"{path}, line {number}: field 'metadata' must be an object")
        known = ("grader", "family", "split", "evidence_ids")
        yield Question(
            id=str(row.get("id", number)),
            text=text,
            answer=answers[0],
            grader=str(metadata.get("grader", grader)),
            family=str(metadata.get("family", "")),
            split=str(metadata.get("split", "")),
            choices=tuple(row.get("choices") or ()),
            reference=Reference(evidence_ids=tuple(metadata.get("evidence_ids") or ())),
            metadata={name: str(value) for name, value in metadata.items() if name not in known},
        )
