"""The numbers that every rollout reports, always under the same keys: verl takes the keys from the first sample."""

from __future__ import annotations

from envs.types import Malformed, Rollout, StopReason
from retrieval_server.types import Status
from rewards import RewardBreakdown


def reward_info(rollout: Rollout, breakdown: RewardBreakdown, mismatch: bool) -> dict[str, float]:
    """Reward terms, behaviour and health of one rollout, as floats.

    `acc` and `gain` stand under their bare names too: the group filter reads them.
    """
    searches = [turn for turn in rollout.turns if turn.result is not None]
    empty = sum(turn.result.status is Status.EMPTY for turn in searches if turn.result)
    malformed = sum(isinstance(turn.action, Malformed) for turn in rollout.turns)
    return {
        "acc": breakdown.terms["acc"].value,
        "gain": breakdown.terms["gain"].value,
        **breakdown.metrics(),
        "reward/total": breakdown.total,
        "num_searches": float(len(searches)),
        "num_empty_searches": float(empty),
        "malformed_share": malformed / max(1, len(rollout.turns)),
        "forced_answer": float(rollout.stop_reason is StopReason.FORCED_ANSWER),
        "truncated": float(rollout.stop_reason is StopReason.LENGTH),
        "out_of_turns": float(rollout.stop_reason is StopReason.MAX_TURNS),
        "tool_seconds": sum(turn.tool_s for turn in rollout.turns),
        "policy_seconds": sum(turn.policy_s for turn in rollout.turns),
        "policy_tokens": float(sum(rollout.tokens.policy_mask)) if rollout.tokens else 0.0,
        "evidence_tokens": float(sum(rollout.tokens.evidence)) if rollout.tokens else 0.0,
        "token_mismatch": float(mismatch),
    }
