"""Rollout -> named terms -> total: R = w1·acc + w2·align + w3·gain + w4·query + fmt + bonus − ρ (paper, section 3.3).

A rollout that an outage ended, or a term whose judge failed, makes the breakdown invalid: it is dropped and counted,
never scored zero.
"""

from __future__ import annotations

import math

from envs.types import Reference, Rollout
from rewards import released
from rewards.align import align
from rewards.gain import gain, needs_evidence
from rewards.graders import grade
from rewards.presets import RewardPreset, resolve_preset
from rewards.query import query
from rewards.shape import bonus, fmt, rho
from rewards.types import TERM_NAMES, RewardBreakdown, RewardTerm, RewardWeights
from rewards.verdict import JudgeVerdict


def compute_reward(
    rollout: Rollout,
    reference: Reference | None = None,
    weights: RewardWeights | None = None,
    *,
    preset: str | RewardPreset = "default",
    judge: JudgeVerdict | None = None,
) -> RewardBreakdown:
    """Score one rollout. Pure: the judge, if any, was asked before (`rewards.judge.judge_rollout`).

    Args:
        rollout: the finished trajectory; its question carries the reference answer and the grader's name.
        reference: the synthesised trajectory; by default the question's own.
        weights: by default the preset's.
        preset: a name of `rewards.presets.PRESETS` or a preset of one's own.
        judge: the reward judge's verdict.

    Returns:
        All terms, always; `valid` is False and `total` NaN when an outage touched any of them.
    """
    chosen = resolve_preset(preset)
    reference = reference if reference is not None else rollout.question.reference
    if rollout.stop_reason.invalid and not chosen.released:
        reason = f"{rollout.stop_reason}: {rollout.error}"
        terms = [RewardTerm(name, 0.0, valid=False, reason=reason) for name in TERM_NAMES]
    elif chosen.released:
        terms = _released_terms(rollout, reference, judge)
    else:
        terms = _terms(rollout, reference, chosen, judge)
    return _breakdown(terms, weights or chosen.weights)


def _terms(
    rollout: Rollout, reference: Reference | None, preset: RewardPreset, judge: JudgeVerdict | None
) -> list[RewardTerm]:
    return [
        _acc(rollout, preset, judge),
        align(rollout, reference),
        _gain(rollout, reference, preset, judge),
        query(rollout, reference, preset.score_floor),
        fmt(rollout, preset.fmt_value),
        bonus(rollout, reference, preset.bonus_value),
        rho(rollout, reference, preset.token_budget),
    ]


def _released_terms(rollout: Rollout, reference: Reference | None, judge: JudgeVerdict | None) -> list[RewardTerm]:
    judged = judge is not None and judge.acc is not None and rollout.question.grader == "judge"
    acc = judge.acc if judged and judge else grade(rollout.question.grader, rollout.answer, rollout.question.answer)
    return [
        RewardTerm("acc", acc or 0.0, reason=rollout.question.grader),
        align(rollout, reference),
        released.gain(rollout, reference),
        released.query(),
        released.fmt(rollout),
        RewardTerm("bonus", 0.0, reason="released: none"),
        released.rho(rollout),
    ]


def _acc(rollout: Rollout, preset: RewardPreset, judge: JudgeVerdict | None) -> RewardTerm:
    name = rollout.question.grader
    if not rollout.answer:
        return RewardTerm("acc", 0.0, reason=f"no answer ({rollout.stop_reason})")
    if name == "judge" and (judge is not None or preset.judge_required):
        return _judged("acc", judge, None if judge is None else judge.acc, "" if judge is None else judge.acc_error)
    return RewardTerm("acc", grade(name, rollout.answer, rollout.question.answer), reason=name)


def _gain(
    rollout: Rollout, reference: Reference | None, preset: RewardPreset, judge: JudgeVerdict | None
) -> RewardTerm:
    computed = gain(rollout, reference)
    asked = judge is not None and (judge.gain is not None or bool(judge.gain_error))
    if asked:
        return _judged("gain", judge, judge.gain if judge else None, judge.gain_error if judge else "")
    # Without any evidence there is nothing to ask a judge: both ways of measuring agree.
    if preset.judge_required and rollout.evidence and needs_evidence(reference):
        return _judged("gain", judge, None, "")
    return computed


def _judged(name: str, judge: JudgeVerdict | None, value: float | None, error: str) -> RewardTerm:
    if value is None or not math.isfinite(value):
        return RewardTerm(name, 0.0, valid=False, reason=error or "no verdict of the reward judge")
    return RewardTerm(name, min(max(value, 0.0), 1.0), reason=(judge.reason if judge else "") or "judge")


def _breakdown(terms: list[RewardTerm], weights: RewardWeights) -> RewardBreakdown:
    by_name = {term.name: term for term in terms}
    factors = {
        "acc": weights.acc, "align": weights.align, "gain": weights.gain, "query": weights.query,
        "fmt": 1.0, "bonus": 1.0, "rho": -1.0,
    }  # fmt: skip
    valid = all(term.valid for term in terms)
    total = sum(factors[name] * by_name[name].value * by_name[name].applies for name in TERM_NAMES)
    return RewardBreakdown({name: by_name[name] for name in TERM_NAMES}, total if valid else math.nan, valid)
