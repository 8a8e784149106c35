"""Quality control and assembly (paper, appendix G.7): principles, near-duplicates, splits, files, data card."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envs.records import write_questions
from legal_rl.data.pipeline.distractors import LETTERS
from legal_rl.data.pipeline.fingerprints import NUMERALS, characters, fingerprints
from legal_rl.data.pipeline.leakage import find_leak
from legal_rl.data.pipeline.profiles import TaskProfile
from legal_rl.data.pipeline.records import TrainingRecord, to_question
from legal_rl.data.readers.lines import write_lines
from legal_rl.data.splits import SPLITS, split_of_key
from rewards.graders import grade
from rewards.text import normalise

NEAR_DUPLICATE = 0.9
"""Two records whose question-and-answer texts share this much of their 20-grams (Jaccard) are one."""
SKETCH = 24
"""Smallest fingerprints kept of each text: two texts with a Jaccard of 0.9 share one of 24 almost surely."""


def principle_broken(record: TrainingRecord, profile: TaskProfile) -> str:
    """Which of the three principles a record violates; empty when none.

    1. answerable: it names evidence (or holds all itself), and its grader accepts its own answer; 2. no leakage,
    options included; 3. valid and concise: letters within the options, an answer of the task's length.
    """
    if not record.evidence and not profile.self_contained:
        return "not answerable: no evidence"
    if grade(record.grader, record.answer, record.answer) < 0.999:
        return f"not answerable: grader {record.grader} does not accept the answer itself"
    if profile.leakage and (leak := find_leak(record.question, record.answer, record.choices)):
        return f"leakage: {leak.kind} {leak.text}"
    if record.choices:
        letters = set(record.answer)
        if not letters <= set(LETTERS[: len(record.choices)]) or len(set(record.choices)) < len(record.choices):
            return "not valid: answer or options do not fit"
    elif len(record.answer) > profile.max_answer_chars:
        return f"not concise: {len(record.answer)} characters, the task takes {profile.max_answer_chars}"
    return ""


def near_duplicates(records: Sequence[TrainingRecord]) -> dict[int, int]:
    """Place of a record to drop -> place of the earlier one that it repeats."""
    buckets: dict[int, list[int]] = defaultdict(list)
    hashes: list[np.ndarray] = []
    repeated: dict[int, int] = {}
    exact: dict[str, int] = {}
    for place, record in enumerate(records):
        text = f"{record.question}\n{record.answer}\n{''.join(sorted(record.choices))}"
        first = exact.setdefault(f"{record.profile}/{normalise(text)}", place)
        mine = np.unique(fingerprints(characters(text, numerals=True)))
        hashes.append(mine)
        if first != place:
            repeated[place] = first
            continue
        sketch = [int(h) for h in mine[:SKETCH]]
        for other in dict.fromkeys(o for h in sketch for o in buckets[h]):
            if _alike(record, records[other]) and _jaccard(mine, hashes[other]) >= NEAR_DUPLICATE:
                repeated[place] = other
                break
        else:
            for h in sketch:
                buckets[h].append(place)
    return repeated


def _alike(one: TrainingRecord, other: TrainingRecord) -> bool:
    """Of one task, with the same numbers in the answer: 三千元 is no repeat of 五千元, however long the question."""
    numbers = [[ch for ch in unicodedata.normalize("NFKC", r.answer) if ch in NUMERALS] for r in (one, other)]
    return one.profile == other.profile and numbers[0] == numbers[1]


def _jaccard(one: np.ndarray, other: np.ndarray) -> float:
    if min(len(one), len(other)) < NEAR_DUPLICATE * max(len(one), len(other)):
        return 0.0
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / max(1, len(one) + len(other) - shared)


def ambiguous(records: Sequence[TrainingRecord]) -> set[int]:
    """Places of records whose question another record answers differently: none of them can be right."""
    answers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        if not record.choices:
            answers[record.profile, normalise(record.question)].add(normalise(record.answer))
    keys = ((record.profile, normalise(record.question)) for record in records)
    return {place for place, key in enumerate(keys) if len(answers[key]) > 1}


def assign_splits(records: Sequence[TrainingRecord], seed: int = 0) -> list[TrainingRecord]:
    """Give every record its split: no source text and no article stands on both sides.

    Records that share a source, an evidence unit or an article form one group (union-find); the hash of the group's
    smallest key decides. Held-out parts of statutes are those of `legal_rl.data.splits`, by law.
    """
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for record in records:
        keys = split_keys(record)
        for key in keys[1:]:
            one, other = sorted((root(keys[0]), root(key)))
            parent[other] = one
    return [record.model_copy(update={"split": split_of_key(root(split_keys(record)[0]), seed)}) for record in records]


def split_keys(record: TrainingRecord) -> list[str]:
    """What must not stand on two sides: articles first, then evidence and source."""
    return list(dict.fromkeys([*(f"article/{a}" for a in record.articles), *record.evidence, record.source_id]))


def write_set(
    records: Sequence[TrainingRecord],
    discarded: Iterable[dict[str, Any]],
    profiles: Sequence[TaskProfile],
    out_dir: Path,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Write all files of a data set; the manifest comes last, so a folder with one is complete.

    Args:
        facts: how the set was made (sources, benchmarks, teacher, thresholds), for manifest and card.

    Returns:
        The manifest.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    for stale in (out_dir / "manifest.json", out_dir / "grpo.parquet", *out_dir.glob("*.tmp[0-9]*")):
        stale.unlink(missing_ok=True)
    write_lines(out_dir / "records.jsonl", (record.model_dump(mode="json") for record in records))
    write_lines(out_dir / "discarded.jsonl", discarded)
    for split in SPLITS:
        chosen = [to_question(record) for record in records if record.split == split]
        write_questions(out_dir / f"{split}.questions.jsonl", chosen)
    _write_parquet(records, out_dir / "grpo.parquet")
    names = ("discarded.jsonl", "grpo.parquet", "records.jsonl", *(f"{split}.questions.jsonl" for split in SPLITS))
    written = [name for name in names if (out_dir / name).exists()]
    manifest = {
        **facts,
        "records": len(records),
        "splits": dict(sorted(Counter(record.split for record in records).items())),
        "counts": table9(records, profiles),
        "licences": dict(sorted(Counter(f"{r.source}: {r.licence or 'not stated'}" for r in records).items())),
        "files": {name: sha256_of(out_dir / name) for name in written},
    }
    _write(out_dir / "README.md", card(manifest))
    _write(out_dir / "manifest.json", json.dumps(manifest, ensure_ascii=False, indent=1))
    return manifest


def _write_parquet(records: Sequence[TrainingRecord], path: Path) -> None:
    from legal_rl.training.rows import write_grpo_rows

    questions = [to_question(record) for record in records if record.split == "train"]
    if questions:
        write_grpo_rows(questions, path)


def table9(records: Sequence[TrainingRecord], profiles: Sequence[TaskProfile]) -> dict[str, dict[str, Any]]:
    """Profile -> domain, sub-category, records and the paper's count."""
    counts = Counter(record.profile for record in records)
    return {
        p.id: {"domain": p.domain, "sub_category": p.sub_category, "records": counts[p.id], "quota": p.quota}
        for p in profiles
    }


def card(manifest: dict[str, Any]) -> str:
    """The data card in Markdown."""
    lines = ["# Data card", "", f"{manifest['records']} records, made by `{manifest['teacher']}`.", ""]
    if not manifest["benchmarks"]:
        lines += ["**Not compared with any benchmark: no claim about contamination can be made.**", ""]
    lines += ["| domain | sub-category | records | Table 9 |", "| --- | --- | ---: | ---: |"]
    lines += [
        f"| {row['domain']} | {row['sub_category']} | {row['records']} | {row['quota']} |"
        for row in manifest["counts"].values()
    ]
    titles = {
        "splits": "Splits", "discarded": "Discarded by stage (pairs of source and task)", "licences": "Licences",
        "benchmarks": "Benchmarks kept out (SHA-256)",
    }  # fmt: skip
    for key, title in titles.items():
        lines += ["", f"## {title}", "", *(f"* {name}: {value}" for name, value in manifest[key].items())]
    lines += ["", "## Files (SHA-256)", "", *(f"* `{name}` {digest}" for name, digest in manifest["files"].items()), ""]
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def sha256_of(path: Path) -> str:
    """Hash of a file, for manifests."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
