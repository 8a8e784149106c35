"""R_align: how close the sampled trajectory comes to the synthesised one (paper, section 3.3; weight w2)."""

from __future__ import annotations

from collections.abc import Sequence

from envs.types import Reference, Rollout
from rewards.graders import f1
from rewards.types import RewardTerm


def align(rollout: Rollout, reference: Reference | None) -> RewardTerm:
    """0.5 · (1 − normalised edit distance of the action sequences) + 0.5 · F1 of the retrieved evidence ids."""
    if reference is None or not reference.actions:
        return RewardTerm("align", 0.0, reason="no reference trajectory", applies=False)
    actions = action_similarity(rollout.action_kinds, reference.actions)
    evidence = f1(frozenset(unit.id for unit in rollout.evidence), frozenset(reference.evidence_ids))
    return RewardTerm("align", 0.5 * actions + 0.5 * evidence, reason=f"actions {actions:.2f}, evidence {evidence:.2f}")


def action_similarity(sampled: Sequence[str], reference: Sequence[str]) -> float:
    """1 − edit distance / length of the longer sequence.

    Example: (statute, stop) against (statute, precedent, stop) -> 1 − 1/3.
    """
    longest = max(len(sampled), len(reference))
    return 1.0 - edit_distance(sampled, reference) / longest if longest else 1.0


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Levenshtein distance of two sequences."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]
