"""The terms about form and economy: R_fmt, the small bonus and ρ (paper, section 3.3 and appendix B.2)."""

from __future__ import annotations

from envs.types import Malformed, Provenance, Reference, Rollout, Stop
from rewards.query import repeated_searches
from rewards.types import RewardTerm

MAX_RHO = 0.5
EXTRA_TURNS = 2
_PER_TURN, _PER_REPEAT = 0.05, 0.1
_MAX_LENGTH, _MAX_TURNS, _MAX_REPEATS = 0.2, 0.15, 0.15


def fmt(rollout: Rollout, value: float = 0.1) -> RewardTerm:
    """`value` for a rollout of well-formed turns only with exactly one answer; the same with and without searches."""
    malformed = sum(isinstance(turn.action, Malformed) for turn in rollout.turns)
    answers = sum(isinstance(turn.action, Stop) for turn in rollout.turns)
    good = malformed == 0 and answers == 1
    return RewardTerm("fmt", value if good else 0.0, reason=f"{malformed} malformed turns, {answers} answers")


def bonus(rollout: Rollout, reference: Reference | None, value: float = 0.05) -> RewardTerm:
    """`value` for an answered rollout whose number of searches is within one of the reference's."""
    if reference is None or not reference.actions:
        return RewardTerm("bonus", 0.0, reason="no reference trajectory", applies=False)
    close = abs(len(rollout.searches) - reference.num_searches) <= 1 and bool(rollout.answer)
    reason = f"{len(rollout.searches)} searches, reference {reference.num_searches}"
    return RewardTerm("bonus", value if close else 0.0, reason=reason)


def rho(rollout: Rollout, reference: Reference | None, token_budget: int) -> RewardTerm:
    """Penalty in [0, 0.5] for tokens beyond the budget, turns beyond the reference's + 2 and repeated searches.

    Parts: 0.2 · min(1, excess tokens / budget) + 0.05 per extra turn (at most 0.15) + 0.1 per repeat (at most 0.15).
    """
    tokens = policy_tokens(rollout)
    length = _MAX_LENGTH * min(max(tokens - token_budget, 0) / token_budget, 1.0)
    extra = max(len(rollout.turns) - len(reference.actions) - EXTRA_TURNS, 0) if reference and reference.actions else 0
    repeats = repeated_searches(rollout)
    value = length + min(_PER_TURN * extra, _MAX_TURNS) + min(_PER_REPEAT * repeats, _MAX_REPEATS)
    reason = f"{tokens} tokens of {token_budget}, {extra} extra turns, {repeats} repeats"
    return RewardTerm("rho", min(value, MAX_RHO), reason=reason)


def policy_tokens(rollout: Rollout) -> int:
    """Tokens that the policy wrote; characters for text-only rollouts."""
    if rollout.tokens is not None:
        return sum(who == Provenance.POLICY for who in rollout.tokens.provenance)
    return sum(len(turn.completion.text) for turn in rollout.turns)
