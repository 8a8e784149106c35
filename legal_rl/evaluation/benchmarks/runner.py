"""Runs a system over a benchmark's questions; a killed run goes on where it stopped.

Files in the output folder::

    run.json                 benchmark, mode, settings, data fingerprint
    trace.jsonl              the journal, in the end in the order of the questions (see `journal`)
    predictions/<task>.json  in the benchmark's own published form
    scores.json              score, interval, abstention, failures per task, upstream and fixed
    samples.jsonl            every sample's grade and what was read from its answer
    efficiency.json          turns, tokens, latency, throughput
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.errors import PolicyError
from legal_rl.errors import ConfigError
from legal_rl.evaluation.benchmarks.efficiency import summarise_cost, throughput
from legal_rl.evaluation.benchmarks.endpoints import metering
from legal_rl.evaluation.benchmarks.graders import grade_example
from legal_rl.evaluation.benchmarks.journal import Entry, Journal, answered_entry, failed_entry, skipped_entry
from legal_rl.evaluation.benchmarks.predictions import write_json, write_lines
from legal_rl.evaluation.benchmarks.records import BenchmarkError, Mode, NotApplicableError, ReferenceFormatError
from legal_rl.evaluation.benchmarks.samples import Sample
from legal_rl.evaluation.benchmarks.scoring import TaskScore, average, plain, score_examples
from legal_rl.evaluation.benchmarks.settings import BenchmarkConfig, RunMode, check_mode
from legal_rl.evaluation.benchmarks.systems import System, open_system
from legal_rl.evaluation.benchmarks.tasks import CATEGORIES, load_tasks
from retrieval_server.errors import RetrievalError

Progress = Callable[[int, int], None]


def run_benchmark(
    benchmark: str,
    samples: Sequence[Sample],
    config: BenchmarkConfig,
    mode: RunMode,
    out: Path,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Answer every sample that has no answer yet, then write the files above.

    Returns:
        The content of scores.json; `failed` counts samples that no retry could save.

    Raises:
        ConfigError: the settings do not fit the mode, or `out` holds another run.
        ReferenceFormatError: a reference that no answer could be graded with; told before anything is asked.
        BenchmarkError: nothing answered any more; what was answered is kept.
    """
    check_mode(config, mode)
    check_references(samples)
    _claim(out, benchmark, samples, config, mode)
    journal = Journal(out / "trace.jsonl")
    missing = [sample for sample in samples if not journal.done(sample)]
    clock = _Clock(max(journal.wall_s, _read_run(out).get("wall_s", 0.0)), time.perf_counter())
    try:
        if missing:
            asyncio.run(_answer_all(samples, missing, config, mode, journal, clock, progress))
    finally:  # an interrupted run has taken its time too; a killed one has it in its journal
        entries = journal.close([sample.id for sample in samples])
        if missing:
            write_json(out / "run.json", _read_run(out) | {"wall_s": clock.seconds})
    return finish(out, benchmark, mode, samples, entries)


def check_references(samples: Sequence[Sample]) -> None:
    """Grade a stand-in for every answer, so that a broken reference is told before hours of questions.

    Raises:
        ReferenceFormatError: names the sample.
    """
    for sample in samples:
        for mode in ("upstream", "fixed"):
            try:
                grade_example(sample.task, sample.example("甲"), mode)
            except ReferenceFormatError as error:
                raise ReferenceFormatError(f"{sample.id}: {error}", error.upstream) from None


@dataclass(frozen=True, slots=True)
class _Clock:
    """Wall time of a run over all its starts."""

    before_s: float
    started: float

    @property
    def seconds(self) -> float:
        return round(self.before_s + time.perf_counter() - self.started, 3)


def finish(out: Path, benchmark: str, mode: str, samples: Sequence[Sample], entries: Sequence[Entry]) -> dict[str, Any]:
    """Write predictions, scores and costs from the journal; the same journal always gives the same files."""
    by_id = {entry["id"]: entry for entry in entries if entry["status"] == "ok"}
    _write_predictions(out / "predictions", benchmark, samples, by_id)
    upstream, fixed = (_score(samples, by_id, m) for m in ("upstream", "fixed"))
    skipped = {entry["id"] for entry in entries if entry["status"] == "not_applicable"}
    failed = {s.task.id: 0 for s in samples}
    for sample in samples:
        failed[sample.task.id] += sample.id not in by_id and sample.id not in skipped
    scores = {
        "benchmark": benchmark,
        "mode": mode,
        "n": len(samples),
        "failed": sum(failed.values()),
        "not_applicable": len(skipped),
        **{name: sum(entry.get(name, 0) for entry in by_id.values()) for name in ("degraded", "made_up", "short")},
        "average": plain(average(list(upstream.values()))),
        "average_fixed": plain(average(list(fixed.values()))),
        "by_category": _by_category(upstream),
        "tasks": {
            name: (
                upstream[name].as_dict() | {"fixed_score": fixed[name].as_dict()["score"]} if name in upstream else {}
            )
            | {"failed": failed[name]}
            for name in failed
        },
    }
    write_json(out / "scores.json", scores)
    write_lines(out / "samples.jsonl", _sample_rows(samples, by_id, upstream, fixed))
    wall = _read_run(out).get("wall_s", 0.0)
    cost = summarise_cost(entries, load_tasks(benchmark))
    write_json(out / "efficiency.json", cost | {"wall_s": wall, "output_tokens_per_s": throughput(entries, wall)})
    return scores


async def _answer_all(
    samples: Sequence[Sample],
    missing: Sequence[Sample],
    config: BenchmarkConfig,
    mode: RunMode,
    journal: Journal,
    clock: _Clock,
    progress: Progress,
) -> None:
    neighbours = _neighbours(samples)
    gate = asyncio.Semaphore(config.concurrency)
    done, failures = len(samples) - len(missing), 0
    progress(done, len(samples))
    async with open_system(config, mode) as system:

        async def one(sample: Sample) -> Entry:
            async with gate:
                return await _answer_one(system, sample, neighbours[sample.id], config.sample_deadline_s)

        tasks = [asyncio.create_task(one(sample)) for sample in missing]
        try:
            for next_one in asyncio.as_completed(tasks):
                entry = await next_one
                journal.add(entry | {"wall_s": clock.seconds})
                failures = failures + 1 if entry["status"] == "failed" else 0
                if failures >= config.give_up_after:
                    raise BenchmarkError(f"{failures} samples in a row failed, the last one: {entry['reason']}")
                done += 1
                progress(done, len(samples))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _answer_one(system: System, sample: Sample, neighbour: Sample, deadline_s: float) -> Entry:
    started = time.perf_counter()
    with metering() as meter:
        try:
            async with asyncio.timeout(deadline_s):
                answered = await system.answer(sample, neighbour)
        except TimeoutError:
            reason = f"no answer within {deadline_s:g} s"
        except NotApplicableError as error:
            return skipped_entry(sample, str(error))
        except (PolicyError, RetrievalError) as error:
            reason = str(error)
        except Exception as error:  # one sample's surprise must not cost the others their answers
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        else:
            return answered_entry(sample, answered, meter, time.perf_counter() - started)
        return failed_entry(sample, reason, meter, time.perf_counter() - started)


def _neighbours(samples: Sequence[Sample]) -> dict[str, Sample]:
    """The sample behind each one in its task, the first behind the last; one alone in its task has another task's."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.task.id, []).append(sample)
    found = {s.id: group[(i + 1) % len(group)] for group in groups.values() for i, s in enumerate(group)}
    for place, sample in enumerate(samples):
        if found[sample.id] is sample:
            found[sample.id] = samples[(place + 1) % len(samples)]
    return found


def _score(samples: Sequence[Sample], by_id: dict[str, Entry], mode: Mode) -> dict[str, TaskScore]:
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.id in by_id:
            groups.setdefault(sample.task.id, []).append(sample)
    return {
        name: score_examples(group[0].task, [s.example(by_id[s.id]["prediction"]) for s in group], mode)
        for name, group in groups.items()
    }


def _by_category(scores: dict[str, TaskScore]) -> dict[str, float | None]:
    groups = {name: [s for s in scores.values() if s.task.category == name] for name in CATEGORIES}
    return {name: plain(average(group)) for name, group in groups.items() if group}


def _sample_rows(
    samples: Sequence[Sample], by_id: dict[str, Entry], upstream: dict[str, TaskScore], fixed: dict[str, TaskScore]
) -> list[dict[str, Any]]:
    """Both grades of every sample; a failed one has none."""
    grades = {name: iter(zip(upstream[name].grades, fixed[name].grades, strict=True)) for name in upstream}
    rows = []
    for sample in samples:
        row: dict[str, Any] = {"id": sample.id, "task": sample.task.id, "idx": sample.index}
        if sample.id in by_id:
            grade, mended = next(grades[sample.task.id])
            row |= {"score": grade.score if grade.counted else None, "abstained": grade.abstained}
            row |= {"extracted": grade.extracted, "note": grade.note}
            row |= {"fixed_score": mended.score if mended.counted else None, "fixed_extracted": mended.extracted}
            row |= {"edits": grade.edits} if grade.edits is not None else {}
        rows.append(row)
    return rows


def _write_predictions(folder: Path, benchmark: str, samples: Sequence[Sample], by_id: dict[str, Entry]) -> None:
    """LawBench: one object, position -> record; LexEval (and mini): JSON Lines."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.task.id, []).append(sample)
    for name, group in groups.items():
        answered = [(sample, by_id[sample.id]["prediction"]) for sample in group if sample.id in by_id]
        if benchmark == "lawbench":
            prompt = {s.index: [{"role": "HUMAN", "prompt": f"{s.instruction}\n{s.question}"}] for s, _ in answered}
            rows = {
                str(s.index): {"origin_prompt": prompt[s.index], "prediction": text, "refr": s.reference}
                for s, text in answered
            }
            write_json(folder / f"{name}.json", rows)
        else:
            lines = [{"idx": s.index, "input": s.prompt, "output": text, "answer": s.reference} for s, text in answered]
            write_lines(folder / f"{name}.jsonl", lines)


def _claim(out: Path, benchmark: str, samples: Sequence[Sample], config: BenchmarkConfig, mode: str) -> None:
    """Make the folder this run's own, or check that it is."""
    if not samples:
        raise BenchmarkError(f"{benchmark}: no question to answer")
    text = json.dumps([[s.id, s.prompt, s.reference] for s in samples], ensure_ascii=False)
    values = {
        "benchmark": benchmark,
        "mode": mode,
        "data": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        "config": config.model_dump(mode="json"),
    }
    path = out / "run.json"
    if path.is_file():
        old = _read_run(out)
        changed = [name for name in values if _answering(old.get(name)) != _answering(values[name])]
        if changed:
            raise ConfigError(f"{out}: holds a run with another {changed[0]}; choose another --out")
        return
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, values | {"wall_s": 0.0})


def _answering(value: Any) -> Any:
    """Settings without what only changes pace and place: these may differ when a run goes on."""
    if not isinstance(value, dict):
        return value
    pace = (
        "concurrency",
        "sample_deadline_s",
        "outage_patience_s",
        "give_up_after",
        "engine",
        "retrieval_url",
        "lawyer_replicas",
        "gpus_per_replica",
    )
    kept = {name: item for name, item in value.items() if name not in pace}
    for name in ("lawyer", "judge"):
        if isinstance(kept.get(name), dict):
            kept[name] = {key: kept[name][key] for key in ("model", "temperature", "extra_body")}
    return kept


def _read_run(out: Path) -> dict[str, Any]:
    path = out / "run.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path}: cannot be read ({error}); choose another --out") from None
    if not isinstance(values, dict):
        raise BenchmarkError(f"{path}: must be a JSON object; choose another --out")
    return values
