"""The LLM judge's second opinion on a finished run: kept apart from the rule scores, graded twice for consistency.

Every answer is put before the judge twice, once with the reference first and once with the answer first: a judge that
looks at the order more than at the content shows in `consistency`. Files in the run's folder::

    judge.jsonl    {"id": "3-8/17", "key": "0f3c…", "task": "3-8", "status": "ok", "scores": [7, 8], "reasons": […]}
    judge.json     mean of the two in [0, 1] by task, with intervals, failures, and how far the two agree

A verdict is written as it arrives, so that a killed judge pays for nothing twice; `key` covers the judge's model and
settings, the rubric and everything the judge was shown, so that another judge or answer is judged anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from envs.prompt_files import read_prompt
from envs.rendering import neutralise
from legal_rl.evaluation.benchmarks.journal import LineJournal
from legal_rl.evaluation.benchmarks.predictions import write_json
from legal_rl.evaluation.benchmarks.report_data import Run
from legal_rl.evaluation.benchmarks.samples import read_samples
from legal_rl.evaluation.statistics import bootstrap_mean
from retrieval_server.config import LLMConfig
from retrieval_server.errors import AssistantError
from retrieval_server.llm import ChatModel

MAX_SCORE = 10
CLOSE = 1
"""Two gradings of one answer agree when they differ by at most this."""
_MAX_CHARS = 4_000
_MAX_TOKENS = 256
_PROMPT = Path(__file__).parent / "prompts" / "judge_benchmark.txt"
_SCHEMA = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 0, "maximum": MAX_SCORE},
        "reason": {"type": "string"},
    },
    "required": ["score", "reason"],
    "additionalProperties": False,
}


def judge_run(
    folder: Path,
    config: LLMConfig,
    *,
    every_task: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Judge the answers of a finished run that have no verdict yet, and write the files above.

    Args:
        config: the judge's endpoint; temperature 0 and five retries unless set.
        every_task: also the tasks whose rule score is exact; otherwise those that the task table marks as judged.

    Returns:
        The content of judge.json. A judge that fails leaves its sample out and counts it, never a zero.
    """
    run = Run(folder)
    names = [name for name, task in run.tasks.items() if every_task or task.judged]
    wanted = [entry for entry in run.entries if entry["status"] == "ok" and entry["task"] in names]
    keys = {entry["id"]: _key(entry, config) for entry in wanted}
    journal = LineJournal(folder / "judge.jsonl")
    try:
        known = {name: row for name, row in journal.entries.items() if _holds(row, keys.get(name))}
        missing = [entry for entry in wanted if entry["id"] not in known]

        def told(row: dict[str, Any], count: int) -> None:
            journal.add(row | {"key": keys[row["id"]]})
            progress(len(known) + count, len(wanted))

        if missing:
            asyncio.run(_judge_all(missing, config, told))
    finally:
        rows = journal.close([entry["id"] for entry in wanted])
    summary = summarise_verdicts(rows, config.model, names)
    write_json(folder / "judge.json", summary)
    return summary


def calibrate(config: LLMConfig) -> dict[str, Any]:
    """Compare a judge with our own scores of 60 answers (`calibration.yaml`).

    Returns:
        `n`, `failed`, `spearman`, `mean_absolute_error` and `bias` in points of 10, `within_two` (share) and
        `consistency`.
    """
    entries, ours = _calibration()
    rows = {row["id"]: row for row in asyncio.run(_judge_all(entries, config, lambda row, n: None))}
    good = [entry["id"] for entry in entries if rows[entry["id"]]["status"] == "ok"]
    said = np.asarray([sum(rows[name]["scores"]) / 2 for name in good])
    meant = np.asarray([ours[name] for name in good], dtype=np.float64)
    return agreement(said, meant) | {
        "failed": len(entries) - len(good),
        "consistency": summarise_verdicts(list(rows.values()), config.model, ())["consistency"],
    }


def agreement(said_N: np.ndarray, meant_N: np.ndarray) -> dict[str, Any]:
    """Agreement of a judge's scores with ours, both 0 to 10."""
    from scipy.stats import spearmanr

    if not said_N.size:
        return {"n": 0, "spearman": None, "mean_absolute_error": None, "bias": None, "within_two": None}
    varied = np.ptp(said_N) > 0 and np.ptp(meant_N) > 0
    return {
        "n": int(said_N.size),
        "spearman": np.asarray(spearmanr(said_N, meant_N)[0]).item() if varied else None,
        "mean_absolute_error": float(np.abs(said_N - meant_N).mean()),
        "bias": float((said_N - meant_N).mean()),
        "within_two": float((np.abs(said_N - meant_N) <= 2).mean()),
    }


def _calibration() -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Entries to judge, and our scores by entry id."""
    items = yaml.safe_load((Path(__file__).parent / "calibration.yaml").read_text(encoding="utf-8"))
    samples = {sample.id: sample for sample in read_samples("mini", None, list(items))}
    entries, ours = [], {}
    for task, questions in items.items():
        for index, answers in questions.items():
            sample = samples[f"{task}/{index}"]
            for place, (score, answer) in enumerate(answers):
                name = f"{sample.id}/{place}"
                entry = {"id": name, "task": task, "question": sample.prompt, "reference": sample.reference}
                entries.append(entry | {"prediction": answer})
                ours[name] = score
    return entries, ours


def summarise_verdicts(rows: Sequence[dict[str, Any]], model: str, names: Sequence[str]) -> dict[str, Any]:
    """Means by task and over tasks, failures, and the agreement of the two gradings."""
    good = [row for row in rows if row["status"] == "ok"]
    tasks = {}
    for name in names:
        values = [sum(row["scores"]) / 2 / MAX_SCORE for row in good if row["task"] == name]
        if values:
            tasks[name] = bootstrap_mean(values, resamples=2000).as_dict()
    means = [row["mean"] for row in tasks.values()]
    pairs = np.asarray([row["scores"] for row in good], dtype=np.float64).reshape(-1, 2)
    return {
        "model": model,
        "average": float(np.mean(means)) if means else None,
        "tasks": tasks,
        "n": len(good),
        "failed": len(rows) - len(good),
        "consistency": {
            "within_one": float(np.mean(np.abs(pairs[:, 0] - pairs[:, 1]) <= CLOSE)) if good else None,
            "mean_difference": float(np.mean(pairs[:, 0] - pairs[:, 1])) if good else None,
        },
    }


def _key(entry: dict[str, Any], config: LLMConfig) -> str:
    """What a verdict depends on: another model, setting, rubric, question, reference or answer is another verdict."""
    asked = [config.model, config.temperature, config.seed, config.disable_thinking, dict(config.extra_body)]
    shown = [_PROMPT.read_text(encoding="utf-8"), entry["question"], entry["reference"], entry["prediction"]]
    text = json.dumps([asked, shown], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _holds(row: dict[str, Any], key: str | None) -> bool:
    return row["status"] == "ok" and row.get("key") == key


async def _judge_all(
    entries: Sequence[dict[str, Any]], config: LLMConfig, told: Callable[[dict[str, Any], int], None]
) -> list[dict[str, Any]]:
    model, rows = ChatModel(config), []
    gate = asyncio.Semaphore(config.max_concurrency)  # waiting in line is not part of a verdict's deadline

    async def one(entry: dict[str, Any]) -> dict[str, Any]:
        async with gate:
            return await _judge_one(model, entry)

    try:
        for count, task in enumerate(asyncio.as_completed([one(entry) for entry in entries]), start=1):
            rows.append(await task)
            told(rows[-1], count)
    finally:
        await model.aclose()
    return rows


async def _judge_one(model: ChatModel, entry: dict[str, Any]) -> dict[str, Any]:
    row = {"id": entry["id"], "task": entry["task"]}
    try:
        verdicts = [await _verdict(model, entry, reference_first) for reference_first in (True, False)]
    except AssistantError as error:
        return row | {"status": "failed", "reason": str(error)}
    return row | {"status": "ok", "scores": [v[0] for v in verdicts], "reasons": [v[1] for v in verdicts]}


async def _verdict(model: ChatModel, entry: dict[str, Any], reference_first: bool) -> tuple[int, str]:
    parts = [("参考答案", entry["reference"]), ("考生回答", entry["prediction"])]
    ordered = [("题目", entry["question"]), *(parts if reference_first else parts[::-1])]
    material = "\n\n".join(f"<{name}>\n{_bounded(text)}\n</{name}>" for name, text in ordered)
    prompt = read_prompt(_PROMPT, {"material"}).substitute(material=material)
    answer = await model.complete_json([{"role": "user", "content": prompt}], _SCHEMA, "judge", _MAX_TOKENS)
    score = answer.get("score") if isinstance(answer, dict) else None
    if isinstance(score, bool) or not isinstance(score, int) or not 0 <= score <= MAX_SCORE:
        raise AssistantError(f"judge {model.config.model}: {score!r} is no whole number from 0 to {MAX_SCORE}")
    return score, str(answer.get("reason", ""))


def _bounded(text: str) -> str:
    """Material cannot close its tag, nor crowd the rubric out."""
    return neutralise(text[:_MAX_CHARS]).replace("</", "＜/")
