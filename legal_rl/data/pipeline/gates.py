"""Two-stage applicability gating (paper, appendix G.3): a task is tried only on material that can support it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from legal_rl.data.pipeline.profiles import TaskProfile
from legal_rl.data.readers.sources import SourceText


@dataclass(frozen=True, slots=True)
class Decision:
    """A gate's answer. Example: Decision(False, "material of kind statute, the task needs judgment or fact")."""

    passed: bool
    reason: str = ""


def gate1(source: SourceText, profile: TaskProfile) -> Decision:
    """The coarse check by source type, metadata and length; costs nothing."""
    if source.kind not in profile.source_kinds:
        return Decision(False, f"material of kind {source.kind}, the task needs {' or '.join(profile.source_kinds)}")
    missing = [name for name in profile.needs if not source.metadata.get(name)]
    if missing:
        return Decision(False, f"metadata lacks {', '.join(missing)}")
    if not profile.min_chars <= len(source.text) <= profile.max_chars:
        return Decision(
            False, f"{len(source.text)} characters, the task takes {profile.min_chars} to {profile.max_chars}"
        )
    return Decision(True)


NO_REASON = "gate 2: refused without a reason"
FEASIBILITY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"feasible": {"type": "boolean"}, "reason": {"type": "string", "minLength": 1, "maxLength": 100}},
    "required": ["feasible", "reason"],
    "additionalProperties": False,
}
"""Structured output of gate 2."""


def read_feasibility(answer: Any) -> Decision:
    """The teacher's decision; anything but the agreed form counts as a refusal, with the reason."""
    if not isinstance(answer, dict) or not isinstance(answer.get("feasible"), bool):
        return Decision(False, "gate 2: no binary decision in the answer")
    reason = " ".join(str(answer.get("reason", "")).split())[:200]
    return Decision(answer["feasible"], reason or ("" if answer["feasible"] else NO_REASON))
