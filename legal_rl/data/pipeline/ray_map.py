"""The stages that look at one record at a time, as a Ray Data map: the same bytes as in one process.

Records carry their place in the file through the cluster and are sorted by it at the end. What a stage needs beside the
record (the fingerprint library) is put into the object store once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from legal_rl.data.pipeline.contamination import Thresholds, judge, source_texts
from legal_rl.data.pipeline.distractors import with_choices
from legal_rl.data.pipeline.leakage import find_leak
from legal_rl.data.pipeline.library import Library
from legal_rl.data.pipeline.stages import dropped_because, mark
from legal_rl.data.readers.lines import dump, read_lines

BATCH = 256

Stage = Callable[[list[tuple[int, dict[str, Any]]]], list[tuple[int, dict[str, Any]]]]
"""(place, record) pairs in, the same places out, each record with the key `stages` telling what became of it."""


def leakage_stage(rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """Marks each record with its leak, or an empty text."""
    marked = []
    for place, record in rows:
        if dropped_because(record):
            marked.append((place, record))
            continue
        leak = find_leak(str(record["question"]), str(record["answer"]), record.get("choices") or ())
        marked.append((place, mark(record, "leakage", f"{leak.kind} {leak.text}" if leak else "")))
    return marked


def distractor_stage(rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """Adds options; the answer's letter depends on the record's place, so blocks may be cut anywhere."""
    made = []
    for place, record in rows:
        if dropped_because(record):
            made.append((place, record))
            continue
        with_options, why = with_choices(record, place)
        made.append((place, mark(with_options, "distractors", why)))
    return made


class ContaminationStage:
    """Marks each record with the benchmark text it holds, or an empty text."""

    def __init__(self, library: Library, limits: Thresholds | None = None) -> None:
        self.library, self.limits = library, limits or Thresholds()

    def __call__(self, rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
        judged = judge(self.library, (source_texts(record, place + 1) for place, record in rows), self.limits)
        return [
            (place, mark(record, "contamination", overlap.sample if drop else ""))
            for (place, record), (overlap, drop) in zip(rows, judged, strict=True)
        ]


def map_in_process(source: Path, target: Path, stages: Iterable[Stage]) -> int:
    """Run the stages here, batch by batch; returns the number of records."""
    rows = [(place, record) for place, (_, record) in enumerate(read_lines(source))]
    for stage in stages:
        rows = [row for start in range(0, len(rows), BATCH) for row in stage(rows[start : start + BATCH])]
    return _write(target, (dump(record) for _, record in rows))


def map_on_ray(source: Path, target: Path, stages: Iterable[Stage]) -> int:
    """Run the stages on the Ray cluster that `ray.init` was called for; the output's bytes are those of one process."""
    import ray.data

    lines = [
        {"place": place, "line": json.dumps(record, ensure_ascii=False)}
        for place, (_, record) in enumerate(read_lines(source))
    ]
    data = ray.data.from_items(lines)
    for stage in stages:
        data = data.map_batches(_on_batch, fn_args=(ray.put(stage),), batch_size=BATCH)
    rows = data.sort("place").take_all()
    return _write(target, (dump(json.loads(row["line"])) for row in rows))


def _on_batch(batch: Any, stage: Any = None) -> Any:
    import ray

    if isinstance(stage, ray.ObjectRef):
        stage = ray.get(stage)
    rows = [(int(place), json.loads(line)) for place, line in zip(batch["place"], batch["line"], strict=True)]
    done = stage(rows)
    return {
        "place": [place for place, _ in done],
        "line": [json.dumps(record, ensure_ascii=False) for _, record in done],
    }


def _write(target: Path, lines: Iterable[str]) -> int:
    import os

    temporary = target.with_name(f"{target.name}.tmp{os.getpid()}")
    count = 0
    with temporary.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(line)
            count += 1
    os.replace(temporary, target)
    return count
