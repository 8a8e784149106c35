"""The quickstart's questions through the pipeline: nothing sound is lost, everything planted is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from legal_rl.data.pipeline.assemble import split_keys
from legal_rl.data.pipeline.curriculum import family_profiles, record_of, through_pipeline
from legal_rl.data.pipeline.records import record_from_dict
from legal_rl.data.questions import QuestionSets
from legal_rl.data.readers.lines import DataError, read_lines, write_lines
from legal_rl.data.settings import FAMILIES


def test_every_family_has_a_profile() -> None:
    assert set(family_profiles()) == set(FAMILIES)


def test_sound_questions_stay_as_they_are(sets: QuestionSets, tmp_path: Path) -> None:
    checked, manifest = through_pipeline(sets, tmp_path)
    assert checked == sets and manifest["discarded"] == {}
    rows = [record_from_dict(row, "x") for _, row in read_lines(tmp_path / "records.jsonl")]
    assert len(rows) == manifest["records"] == sum(sum(counts.values()) for counts in sets.counts().values())
    held_out = {key for row in rows if row.split != "train" for key in split_keys(row)}
    assert not any(set(split_keys(row)) & held_out for row in rows if row.split == "train")
    assert all(row.history[-1].stage == "principles" for row in rows)
    assert "Not compared with any benchmark" in (tmp_path / "README.md").read_text("utf-8")


def test_what_is_planted_is_dropped_with_its_stage(sets: QuestionSets, tmp_path: Path) -> None:
    one, two, three, four, *rest = (q for q in sets.train if q.family == "recite")
    test = next(q for q in sets.test if q.family == "recite")
    planted = (
        replace(one, text=f"{one.text}答案是{one.answer}。"),
        replace(two, text=three.text, answer=three.answer),
        three,
        replace(four, reference=test.reference, metadata=test.metadata),
        *rest,
    )
    others = tuple(q for q in sets.train if q.family != "recite")
    checked, manifest = through_pipeline(replace(sets, train=planted + others), tmp_path)
    rows = {row["stage"]: row for _, row in read_lines(tmp_path / "discarded.jsonl")}
    assert manifest["discarded"] == {"duplicates": 1, "leakage": 1, "splits": 1}
    assert rows["leakage"]["reason"].startswith("copy") and rows["splits"]["reason"].startswith(test.id)
    assert checked.test == sets.test and len(checked.train) == len(sets.train) - 3


def test_a_benchmarks_text_is_kept_out_and_a_missing_benchmark_is_an_error(sets: QuestionSets, tmp_path: Path) -> None:
    asked = next(q for q in sets.train if q.family == "no_retrieval")
    write_lines(tmp_path / "bench.jsonl", [{"question": asked.text}])
    checked, manifest = through_pipeline(sets, tmp_path / "out", benchmarks=[tmp_path / "bench.jsonl"])
    assert manifest["discarded"] == {"contamination": 1} and asked not in checked.train
    assert list(manifest["benchmarks"]) == ["bench.jsonl"]
    with pytest.raises(DataError, match="no such file"):
        through_pipeline(sets, tmp_path / "out", benchmarks=[tmp_path / "gone.jsonl"])


def test_a_record_tells_where_its_question_comes_from(sets: QuestionSets) -> None:
    question = next(q for q in sets.train if q.family == "locate")
    record = record_of(question, "grpo")
    assert record.id == question.id and record.split == "train" and record.source_id == question.metadata["article"]
    assert record.articles == (f"{question.metadata['law']}{question.metadata['label']}",)
