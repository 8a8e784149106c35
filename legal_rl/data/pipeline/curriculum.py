"""The quickstart's questions through the pipeline: unified records, checks, a data set with its card and manifest.

    sets, manifest = through_pipeline(build_questions(articles, cases), Path("runs/quickstart/trajectories/set"))

The question families write by rule from the index's own articles and cases; here every question becomes a record and
passes the stages that judge records: contamination (where benchmarks are named), leakage, principles, repeats across
all parts, and what stands on two sides of the split. What a stage drops is in `discarded.jsonl`, and not in the sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from envs.types import Question
from legal_rl.data.pipeline.assemble import ambiguous, near_duplicates, principle_broken, split_keys, write_set
from legal_rl.data.pipeline.contamination import Thresholds, judge
from legal_rl.data.pipeline.leakage import find_leak
from legal_rl.data.pipeline.library import build_library, digests_of
from legal_rl.data.pipeline.profiles import TaskProfile
from legal_rl.data.pipeline.records import Step, TrainingRecord
from legal_rl.data.questions import QuestionSets
from retrieval_server.corpus import DEFAULT_CORPUS, load_articles

PARTS = ("test", "dev", "train", "grpo")
"""In this order: of two records that repeat each other, the one of the later part goes."""
TEACHER = "question families v1"


@cache
def family_profiles() -> dict[str, TaskProfile]:
    """Family -> its profile, from `families.yaml`."""
    text = resources.files("legal_rl.data.pipeline").joinpath("families.yaml").read_text(encoding="utf-8")
    common = {"source_kinds": ["statute"], "instruction": "", "prompt": "", "quota": 0}
    profiles = [TaskProfile.model_validate(common | row) for row in yaml.safe_load(text)]
    return {profile.id: profile for profile in profiles}


def through_pipeline(
    sets: QuestionSets,
    out_dir: Path,
    *,
    benchmarks: Sequence[Path] = (),
    thresholds: Thresholds | None = None,
    facts: dict[str, Any] | None = None,
) -> tuple[QuestionSets, dict[str, Any]]:
    """Check the sets, write the data set, and return the sets without what was dropped.

    Args:
        benchmarks: kept out; none = not compared, which the card says.
        facts: more about how the set was made, for the manifest.

    Raises:
        DataError: a benchmark is missing or broken.
    """
    parts = {"test": sets.test, "dev": sets.dev, "train": sets.train, "grpo": sets.grpo}
    records = [record_of(question, part) for part in PARTS for question in parts[part]]
    reasons = _reasons(records, benchmarks, thresholds or Thresholds())
    kept = [_passed(record) for record in records if record.id not in reasons]
    discarded = [
        {"source_id": record.source_id, "profile": record.profile, "stage": stage, "reason": reason, "count": 1}
        for record in records
        if record.id in reasons
        for stage, reason in (reasons[record.id],)
    ]
    by_stage = Counter(stage for stage, _ in reasons.values())
    told = {
        "teacher": TEACHER,
        "sources": ["the index"],
        "benchmarks": digests_of(benchmarks),
        **(facts or {}),
        "discarded": dict(sorted(by_stage.items())),
    }
    manifest = write_set(kept, discarded, list(family_profiles().values()), out_dir, told)
    chosen = {name: tuple(q for q in parts[name] if q.id not in reasons) for name in PARTS}
    return replace(sets, **chosen), manifest


def record_of(question: Question, part: str) -> TrainingRecord:
    """The unified record of a family's question; its id is the question's."""
    profile = family_profiles()[question.family]
    evidence = question.reference.evidence_ids if question.reference else ()
    law, label = question.metadata.get("law", ""), question.metadata.get("label", "")
    return TrainingRecord(
        id=question.id,
        instruction=profile.instruction,
        question=question.text,
        answer=question.answer,
        choices=question.choices,
        evidence=evidence,
        domain=profile.domain,
        sub_category=profile.sub_category,
        profile=profile.id,
        grader=question.grader,
        split="train" if part == "grpo" else part,
        source="index",
        source_id=evidence[0] if evidence else question.id,
        licence="statutes are outside copyright (PRC Copyright Law, art. 5); judgments are generated",
        articles=(f"{law}{label}",) if law and label else (),
        history=(Step(stage="synthesis", outcome="made", detail=TEACHER),),
    )


def _passed(record: TrainingRecord) -> TrainingRecord:
    checked = "" if family_profiles()[record.profile].leakage else "the question holds its answer on purpose"
    return record.after("leakage", "kept", checked).after("principles", "kept")


def _reasons(
    records: Sequence[TrainingRecord], benchmarks: Sequence[Path], thresholds: Thresholds
) -> dict[str, tuple[str, str]]:
    """Record id -> (stage, reason) of what drops it."""
    found: dict[str, tuple[str, str]] = {}
    for record_id, stage, reason in (
        *_contaminated(records, benchmarks, thresholds),
        *_unsound(records),
        *_repeated(records),
        *_on_two_sides(records),
    ):
        found.setdefault(record_id, (stage, reason))
    return found


def _contaminated(
    records: Sequence[TrainingRecord], benchmarks: Sequence[Path], thresholds: Thresholds
) -> Iterable[tuple[str, str, str]]:
    if not benchmarks:
        return
    library = build_library(benchmarks, (article.text for article in load_articles(DEFAULT_CORPUS)))
    texts = ([record.question, record.answer, f"{record.question}\n{record.answer}"] for record in records)
    for record, (overlap, drop) in zip(records, judge(library, texts, thresholds), strict=True):
        if drop:
            yield record.id, "contamination", f"{overlap.benchmark} {overlap.sample}"


def _unsound(records: Sequence[TrainingRecord]) -> Iterable[tuple[str, str, str]]:
    for record in records:
        profile = family_profiles()[record.profile]
        leak = find_leak(record.question, record.answer, record.choices) if profile.leakage else None
        if leak:
            yield record.id, "leakage", f"{leak.kind} {leak.text}"
        elif broken := principle_broken(record, profile):
            yield record.id, "principles", broken


def _repeated(records: Sequence[TrainingRecord]) -> Iterable[tuple[str, str, str]]:
    for place, first in near_duplicates(records).items():
        yield records[place].id, "duplicates", f"repeats {records[first].id}"
    for place in sorted(ambiguous(records)):
        yield records[place].id, "ambiguous", "the question has several answers"


def _on_two_sides(records: Sequence[TrainingRecord]) -> Iterable[tuple[str, str, str]]:
    """Training records about an article or case that a held-out record asks about."""
    held_out = {key: record.id for record in records if record.split != "train" for key in split_keys(record)}
    for record in records:
        shared = next((key for key in split_keys(record) if key in held_out), None)
        if record.split == "train" and shared is not None:
            yield record.id, "splits", f"{held_out[shared]} asks about {shared} too"
