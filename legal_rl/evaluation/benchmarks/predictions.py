"""Prediction files in each benchmark's own published form, and the plainer forms people keep them in.

| form | one record |
| --- | --- |
| LawBench, one JSON object | `"0": {"origin_prompt": [{"role": "HUMAN", "prompt": …}], "prediction": …, "refr": …}` |
| LexEval, JSON Lines | `{"input": …, "output": …, "answer": …}` |
| either, JSON Lines or a JSON list, also gzipped | `prediction` or `output`, `refr` or `answer`, in 2-1 `source` |
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legal_rl.evaluation.benchmarks.records import BenchmarkError, Example, Task
from legal_rl.evaluation.benchmarks.tasks import BENCHMARKS, load_tasks

_SENTENCE_MARK = "句子："
_SUFFIXES = (".jsonl.gz", ".json.gz", ".jsonl", ".json")


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """One file of predictions and the task it answers."""

    task: Task
    path: Path


def read_examples(path: Path, task: Task) -> list[Example]:
    """All examples of a file, in its order.

    Raises:
        BenchmarkError: the file cannot be read, or a record lacks a field; the text names file, record and field.
    """
    records = read_records(path)
    if not records:
        raise BenchmarkError(f"{path}: holds no predictions")
    return [_example(record, task, f"{path}: record {number}") for number, record in enumerate(records, start=1)]


def find_files(path: Path, benchmark: str, task_ids: Sequence[str] = ()) -> list[PredictionFile]:
    """Prediction files at `path`: a file named after its task, or a folder of such files.

    Args:
        task_ids: only these tasks; for a single file, its task when the name does not tell.

    Raises:
        BenchmarkError: nothing there belongs to the benchmark, a task asked for is missing or has two files.
    """
    tasks = load_tasks(benchmark)
    unknown = [task for task in task_ids if task not in tasks]
    if unknown:
        raise BenchmarkError(f"unknown task {unknown[0]!r} of {benchmark}; known: {', '.join(tasks)}")
    if path.is_file():
        name = task_ids[0] if len(task_ids) == 1 else task_of(path)
        if name not in tasks:
            raise BenchmarkError(f"{path}: the name tells no task of {benchmark}; give --task")
        return [PredictionFile(tasks[name], path)]
    if not path.is_dir():
        raise BenchmarkError(f"{path}: no such file or folder of predictions")
    named: dict[str, Path] = {}
    for file in sorted(file for file in path.iterdir() if file.name.endswith(_SUFFIXES)):
        name = task_of(file)
        if name in tasks and name in named:
            raise BenchmarkError(f"{path}: {named[name].name} and {file.name} both answer task {name}; keep one")
        named[name] = file
    if absent := [name for name in task_ids if name not in named]:
        raise BenchmarkError(f"{path}: holds no predictions for task {', '.join(absent)}")
    found = [PredictionFile(task, named[name]) for name, task in tasks.items() if name in named]
    if not found:
        raise BenchmarkError(f"{path}: no file is named after a task of {benchmark}, such as {next(iter(tasks))}.jsonl")
    return [file for file in found if not task_ids or file.task.id in task_ids]


def guess_benchmark(path: Path) -> str | None:
    """The benchmark that the file names fit: tasks of LawBench are 1-1, those of LexEval 1_1."""
    names = {task_of(file) for file in path.iterdir()} if path.is_dir() else {task_of(path)}
    fitting = [benchmark for benchmark in BENCHMARKS if names & set(load_tasks(benchmark))]
    return fitting[0] if len(fitting) == 1 else None


def task_of(path: Path) -> str:
    """The file's name without its endings."""
    return next((path.name.removesuffix(end) for end in _SUFFIXES if path.name.endswith(end)), path.name)


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """A JSON Lines file, written under a temporary name and renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    text = "".join(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)
    temporary.write_text(text, encoding="utf-8", errors="replace")  # half a surrogate pair fits no file
    os.replace(temporary, path)


def write_json(path: Path, value: Any) -> None:
    """A JSON file, written under a temporary name and renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", "utf-8", "replace")
    os.replace(temporary, path)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Records of a JSON Lines file, plain or gzipped; raises `BenchmarkError` naming file and line."""
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):  # U+2028 and the like may stand inside a text
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise BenchmarkError(f"{path}: line {number}: not valid JSON ({error.msg})") from None
            if not isinstance(row, dict):
                raise BenchmarkError(f"{path}: line {number}: must be a JSON object")
            rows.append(row)
    return rows


def read_records(path: Path) -> list[dict[str, Any]]:
    """Records of a JSON object, a JSON list or JSON Lines, whatever the ending; raises `BenchmarkError`."""
    if ".jsonl" in path.name:
        return read_lines(path)
    text = _text(path)
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return read_lines(path)  # LexEval's files end in .json and are JSON Lines.
    records = list(data.values()) if isinstance(data, dict) and "prediction" not in data else data
    records = records if isinstance(records, list) else [records]
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise BenchmarkError(f"{path}: record {number}: must be a JSON object")
    return records


def _text(path: Path) -> str:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise BenchmarkError(f"{path}: cannot be read ({error})") from None


def _example(record: dict[str, Any], task: Task, where: str) -> Example:
    prediction = _field(record, ("prediction", "output"), where)
    reference = _field(record, ("refr", "answer"), where)
    return Example(prediction, reference, _source(record, where) if task.grader == "correction" else "")


def _field(record: dict[str, Any], names: Sequence[str], where: str) -> str:
    for name in names:
        if name in record:
            value = record[name]
            if value is None or isinstance(value, dict | list):
                raise BenchmarkError(f"{where}: field {name!r}: must be text")
            return str(value)
    raise BenchmarkError(f"{where}: field {' or '.join(map(repr, names))} is missing")


def _source(record: dict[str, Any], where: str) -> str:
    """The sentence to correct: `source`, or what follows the prompt's first line that ends in 句子：."""
    if isinstance(record.get("source"), str):
        return record["source"]
    prompt = record.get("origin_prompt", record.get("input", ""))
    if isinstance(prompt, list):
        prompt = "\n".join(str(turn.get("prompt", "")) for turn in prompt if isinstance(turn, dict))
    mark = f"{_SENTENCE_MARK}\n"
    if mark in str(prompt):
        return str(prompt).split(mark, 1)[1].split("\n")[0]
    if _SENTENCE_MARK in str(prompt):
        return str(prompt).split(_SENTENCE_MARK, 1)[1].split("\n")[0]
    raise BenchmarkError(f"{where}: field 'source' (the sentence to correct) is missing")
