"""What the answers cost (paper, appendices B.4 and C): turns, tokens, latency, tool time, throughput.

summarise_cost(entries)["all"] -> {"n": 500, "searches": 2.3, "tokens": 10861.9, "seconds_p50": 4.1, …}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from legal_rl.evaluation.benchmarks.records import Task

COMPLEXITY = {
    "Knowledge": "lower",
    "Understanding": "lower",
    "Reasoning": "higher",
    "Generation": "higher",
    "Consultation": "higher",
}
"""The paper's two groups: 1.2–1.7 turns for the first, 3.1–4.3 for the second (section 5.2)."""
_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens", "retrieval_tokens")
_ASSISTANT = ("assistant_input_tokens", "assistant_output_tokens")


def summarise_cost(entries: Sequence[Mapping[str, Any]], tasks: Mapping[str, Task]) -> dict[str, Any]:
    """Means per answered sample: `all`, `by_task`, `by_category`, `by_complexity`.

    Args:
        entries: journal entries; failed ones are left out of the means.
        tasks: the benchmark's tasks by id.
    """
    answered = [entry for entry in entries if entry["status"] == "ok"]
    groups: dict[str, dict[str, list[Mapping[str, Any]]]] = {
        "by_task": defaultdict(list), "by_category": defaultdict(list), "by_complexity": defaultdict(list)
    }  # fmt: skip
    for entry in answered:
        task = tasks[entry["task"]]
        groups["by_task"][task.id].append(entry)
        groups["by_category"][task.category].append(entry)
        groups["by_complexity"][COMPLEXITY[task.category]].append(entry)
    tables = {name: {key: _means(rows) for key, rows in group.items()} for name, group in groups.items()}
    return {"all": _means(answered), **tables}


def throughput(entries: Sequence[Mapping[str, Any]], wall_s: float) -> float:
    """Output tokens per second of the whole pipeline, thoughts and searches included (paper, appendix B.4)."""
    names = ("output_tokens", "assistant_output_tokens")
    total = sum(entry["usage"].get(name, 0) for entry in entries for name in names)
    return total / wall_s if wall_s > 0 else 0.0


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {"n": 0}
    usage = {name: _mean([row["usage"].get(name, 0) for row in rows]) for name in (*_TOKENS, *_ASSISTANT)}
    seconds = np.asarray([row["seconds"] for row in rows])
    p50, p95 = np.percentile(seconds, [50, 95])
    return {
        "n": len(rows),
        "searches": _mean([len(row["queries"]) for row in rows]),
        "turns": _mean([max(len(row["turns"]), 1) for row in rows]),
        **usage,
        "tokens": sum(usage[name] for name in ("input_tokens", "output_tokens", *_ASSISTANT)),
        "retrieval_estimated": any(row["usage"].get("retrieval_estimated") for row in rows),
        "seconds": float(seconds.mean()),
        "seconds_p50": float(p50),
        "seconds_p95": float(p95),
        "tool_s": _mean([row["tool_s"] for row in rows]),
        "retries": _mean([row["usage"].get("retries", 0) for row in rows]),
        "cut": sum(row["usage"].get("cut", 0) for row in rows),
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
