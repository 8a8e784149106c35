"""The numbers that every rollout reports, always under the same keys: verl takes the keys from the first sample."""

from __future__ import annotations

from envs.types import Malformed, Precedent, Provenance, Rollout, Statute, StopReason, Turn
from retrieval_server.types import Status
from rewards import RewardBreakdown


def reward_info(rollout: Rollout, breakdown: RewardBreakdown, mismatch: bool) -> dict[str, float]:
    """Reward terms, behaviour and health of one rollout, as floats.

    `acc` and `gain` stand under their bare names too: the group filter reads them.
    """
    searches = [turn for turn in rollout.turns if turn.result is not None]
    empty = sum(_status(turn) is Status.EMPTY for turn in searches)
    malformed = sum(isinstance(turn.action, Malformed) for turn in rollout.turns)
    return {
        "acc": breakdown.terms["acc"].value,
        "gain": breakdown.terms["gain"].value,
        **breakdown.metrics(),
        "reward/total": breakdown.total,
        "num_searches": float(len(searches)),
        "num_empty_searches": float(empty),
        "num_degraded_searches": float(sum(_status(turn) is Status.DEGRADED for turn in searches)),
        "num_statute_searches": float(sum(isinstance(turn.action, Statute) for turn in searches)),
        "num_precedent_searches": float(sum(isinstance(turn.action, Precedent) for turn in searches)),
        "self_written_evidence": float(any("<information>" in turn.completion.text for turn in rollout.turns)),
        "answer_chars": float(len(rollout.answer)),
        "entropy_estimate": _surprise(rollout),
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


def _status(turn: Turn) -> Status | None:
    return turn.result.status if turn.result else None


def _surprise(rollout: Rollout) -> float:
    """Mean negative log-probability of the sampled tokens (nats): at temperature 1 an estimate of the entropy."""
    record = rollout.tokens
    if record is None:
        return 0.0
    own = [p for p, who in zip(record.logprobs, record.provenance, strict=True) if who == Provenance.POLICY]
    return -sum(own) / len(own) if own else 0.0
