"""Predictions of other systems as a run folder, so that the report can stand them beside our own runs.

import_predictions(find_files(Path("predictions/lawbench/GPT4"), "lawbench"), "GPT4", Path("runs/eval/GPT4"))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legal_rl.errors import ConfigError
from legal_rl.evaluation.benchmarks.predictions import (
    PredictionFile,
    read_examples,
    read_records,
    write_json,
    write_lines,
)
from legal_rl.evaluation.benchmarks.runner import finish
from legal_rl.evaluation.benchmarks.samples import Sample

NO_QUESTION = "(the file does not hold the question)"


def import_predictions(files: Sequence[PredictionFile], name: str, out: Path) -> dict[str, Any]:
    """Write a run folder from prediction files; `name` stands where a run has its mode.

    Nothing is known of cost, turns or evidence: these stay empty.

    Returns:
        The content of scores.json.

    Raises:
        ConfigError: `out` holds something already.
        BenchmarkError: a file cannot be read.
    """
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out}: is not empty; choose another --out")
    samples: list[Sample] = []
    entries: list[dict[str, Any]] = []
    for file in files:
        for index, (record, example) in enumerate(
            zip(read_records(file.path), read_examples(file.path, file.task), strict=True)
        ):
            question = example.source or _question(record)
            samples.append(Sample(file.task, index, "", question, example.reference))
            entries.append(_entry(samples[-1], example.prediction))
    benchmark = files[0].task.benchmark
    write_json(out / "run.json", {"benchmark": benchmark, "mode": name, "imported": True, "wall_s": 0.0})
    write_lines(out / "trace.jsonl", entries)
    scores = finish(out, benchmark, name, samples, entries)
    unknown: dict[str, Any] = {"by_task": {}, "by_category": {}, "by_complexity": {}, "output_tokens_per_s": None}
    write_json(out / "efficiency.json", {"all": {"n": len(samples)}, **unknown})  # unknown costs are no zeros
    return scores


def _entry(sample: Sample, prediction: str) -> dict[str, Any]:
    """A journal entry in which only the answer is known."""
    return {
        "id": sample.id,
        "task": sample.task.id,
        "idx": sample.index,
        "status": "ok",
        "prediction": prediction,
        "reference": sample.reference,
        "question": sample.question or NO_QUESTION,
        **{name: [] for name in ("queries", "evidence", "turns")},
        "usage": {},
        "seconds": 0.0,
        "tool_s": 0.0,
    }


def _question(record: dict[str, Any]) -> str:
    prompt = record.get("origin_prompt", record.get("input", ""))
    if isinstance(prompt, list):
        return "\n".join(str(turn.get("prompt", "")) for turn in prompt if isinstance(turn, dict))
    return str(prompt)
