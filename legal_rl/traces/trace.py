"""`legal-rl trace view FILE`: any rollout file as a page to search and read."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import Any

from legal_rl.traces.examples import find_tokens
from legal_rl.traces.logprob_gap import GapMeter
from legal_rl.traces.pages import render, template_module, write_page
from legal_rl.traces.run_folder import RunFolder, read_run_folder
from legal_rl.traces.trajectories import Scoring, Trajectory, read_trajectories

MAX_PAGE_CHARS = 40_000_000
"""Browsers stay quick below it; the page says how many trajectories it leaves out."""

TOKEN_VIEWS = 200
"""Trajectories shown token by token; the ones after them message by message."""

INLINE = 100
"""With more trajectories, what is inside them is packed: the browser unpacks it when one is opened."""

BLOCK = 50
"""Trajectories packed together."""


def write_trace_page(file: Path, out: Path, limit: int = 5_000, model: Path | None = None) -> Path:
    """Write a page with the first `limit` trajectories of a rollout file.

    Args:
        file: our rollouts (`envs.records`), or a file of verl's `rollout_data_dir`.
        out: the page.
        model: folder whose weights the sampler's log-probabilities are compared with.

    Raises:
        RecordError: the file cannot be read; names file, line and field.
        ModelError: `model` is no model folder.
    """
    scoring, run = _scoring(file)
    reader = find_tokens(file) if run else None
    gaps = GapMeter.from_folder(model) if model else None
    shown = list(islice(read_trajectories(file, scoring, reader, TOKEN_VIEWS, gaps), max(0, limit)))
    packed = _packed(shown) if len(shown) > INLINE else []
    shown, packed = _within_size(shown, packed)
    totals = [t.total for t in shown if t.total is not None]
    total = _count(file)
    notice = "" if len(shown) == total else f"Showing the first {len(shown)} of {total:,} trajectories in this file."
    html = render(
        "trace.html.jinja",
        title=f"Trajectories: {file.name}",
        file=file.name,
        summary=_summary(shown),
        notice=notice,
        filters=_filters(shown),
        rewards=(min(totals), max(totals)) if totals else None,
        trajectories=shown,
        packed=packed,
        block_size=BLOCK,
    )
    return write_page(out, html)


def _scoring(file: Path) -> tuple[Scoring, RunFolder | None]:
    """A file inside a run's folder is scored as the run scored it, any other with the default preset."""
    for folder in list(file.resolve().parents)[:3]:
        if (folder / "run.json").is_file():
            run = read_run_folder(folder)
            return Scoring.of_config(run.config), run
    return Scoring(), None


def _packed(trajectories: Sequence[Trajectory]) -> list[str]:
    """Inside and search text of `BLOCK` trajectories each, as JSON, gzip, base64."""
    show = template_module("trajectory.html.jinja").inside
    blocks = []
    for start in range(0, len(trajectories), BLOCK):
        entries = [{"html": str(show(t)), "text": t.haystack} for t in trajectories[start : start + BLOCK]]
        raw = json.dumps(entries, ensure_ascii=False).encode("utf-8", "replace")
        blocks.append(base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode())
    return blocks


def _within_size(trajectories: list[Trajectory], packed: list[str]) -> tuple[list[Trajectory], list[str]]:
    """As much as a browser takes well: whole blocks where they are packed."""
    if packed:
        fitting = sum(1 for _ in takewhile(lambda size: size <= MAX_PAGE_CHARS, accumulate(map(len, packed))))
        kept = max(fitting, 1)
        return trajectories[: kept * BLOCK], packed[:kept]
    return _inline_within_size(trajectories), []


def _inline_within_size(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    kept, size = [], 0
    for trajectory in trajectories:
        size += 4 * len(trajectory.raw) + sum(14 * len(s.pieces) + 2 * len(s.text) for s in trajectory.segments)
        size += sum(len(unit.evidence.text[:260]) + 300 for step in trajectory.steps for unit in step.evidence)
        if kept and size > MAX_PAGE_CHARS:
            break
        kept.append(trajectory)
    return kept


def _count(file: Path) -> int:
    with file.open("rb") as lines:
        return sum(bool(line.strip()) for line in lines)


def _summary(trajectories: Sequence[Trajectory]) -> str:
    verdicts = Counter(t.verdict for t in trajectories if t.verdict)
    totals = [t.total for t in trajectories if t.total is not None]
    parts = [f"{len(trajectories)} trajectories"]
    parts += [f"{verdicts[name]} {name}" for name in ("correct", "partly", "wrong", "invalid") if verdicts[name]]
    if totals:
        parts.append(f"mean reward {sum(totals) / len(totals):.3f}")
    return ", ".join(parts)


def _filters(trajectories: Sequence[Trajectory]) -> list[tuple[str, str, list[str]]]:
    def values(pick: Any) -> list[str]:
        return sorted({text for t in trajectories if (text := pick(t))})

    return [
        ("family", "Family", values(lambda t: t.family)),
        ("verdict", "Answer", values(lambda t: t.verdict)),
        ("stop", "Ended by", values(lambda t: t.stop_reason)),
    ]
