"""Rollouts as the pages show them: from our own records, and from the files of verl's `rollout_data_dir`.

A trajectory is a question, its turns (thought, action, evidence), the tokens by who wrote them, and the reward's terms.
verl's files hold decoded text only: who wrote which token is not in them, and the page says so instead of guessing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.errors import RecordError
from envs.records import rollout_from_dict
from envs.types import Malformed, Precedent, Provenance, Rollout, Statute, Stop, TokenRecord, Turn
from legal_rl.traces.logprob_gap import GapMeter
from legal_rl.traces.token_strip import Segment, TokenReader, segments
from retrieval_server.types import Evidence
from rewards import TERM_NAMES, RewardBreakdown, RewardWeights, compute_reward
from rewards.presets import resolve_preset

CORRECT = 0.999


@dataclass(frozen=True, slots=True)
class Term:
    """One reward term with its share of the total; `share` is None where the term does not apply or is invalid."""

    name: str
    value: float
    share: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """One evidence unit; `gold` when the reference needs it."""

    evidence: Evidence
    gold: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One turn: what the Lawyer thought and did, and what came back."""

    number: int
    kind: str
    thought: str
    text: str
    fields: tuple[tuple[str, str], ...] = ()
    evidence: tuple[Unit, ...] = ()
    status: str = ""
    note: str = ""
    """What the environment said besides evidence: a correction, the notice of the last turn."""
    forced: bool = False
    policy_s: float = 0.0
    tool_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """Tokens of one turn by who wrote them, and how sure the sampler was (nats); gaps only where a model was given."""

    number: int
    policy: int
    environment: int
    mean_logprob: float | None
    mean_gap: float | None = None
    max_gap: float | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One rollout, ready for the template. `raw` is verl's text when there are no turns."""

    id: str
    family: str = ""
    question: str = ""
    reference: str = ""
    answer: str = ""
    stop_reason: str = ""
    error: str = ""
    grade: float | None = None
    total: float | None = None
    terms: tuple[Term, ...] = ()
    steps: tuple[Step, ...] = ()
    segments: tuple[Segment, ...] = ()
    token_counts: dict[str, int] = field(default_factory=dict)
    turn_tokens: tuple[TurnTokens, ...] = ()
    searches: int = 0
    seconds: float = 0.0
    raw: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`correct`, `partly`, `wrong`, `invalid`, or empty when the file does not tell."""
        if self.grade is None:
            return "invalid" if self.error else ""
        return "correct" if self.grade >= CORRECT else "partly" if self.grade > 0 else "wrong"

    @property
    def haystack(self) -> str:
        """What the page's search box looks through."""
        texts = [self.id, self.family, self.question, self.reference, self.answer, self.stop_reason, self.raw[:2000]]
        for step in self.steps:
            texts += [step.thought, *(value for _, value in step.fields)]
            texts += [f"{unit.evidence.title} {unit.evidence.label}" for unit in step.evidence]
        return " ".join(texts).lower()


@dataclass(frozen=True, slots=True)
class Scoring:
    """How the reward of a shown rollout is computed: as in the run."""

    preset: str = "default"
    weights: RewardWeights | None = None

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> Scoring:
        """From the resolved configuration in `run.json`."""
        rewards = config.get("rewards") or {}
        return cls(rewards.get("preset", "default"), RewardWeights(**(rewards.get("weights") or {})))


def read_trajectories(
    path: Path,
    scoring: Scoring,
    tokens: TokenReader | None = None,
    token_views: int | None = None,
    gaps: GapMeter | None = None,
) -> Iterator[Trajectory]:
    """The trajectories of a file, one line each.

    Args:
        tokens: the model's tokenizer.
        token_views: only the first so many are decoded token by token; None = all.
        gaps: recomputes the sampler's log-probabilities of the same first ones.

    Raises:
        RecordError: a line is neither a rollout of ours nor one of verl's; names file and line.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    closely = token_views is None or number <= token_views
                    reader, meter = (tokens, gaps) if closely else (None, None)
                    yield _trajectory(line, f"{path}: line {number}", number, scoring, reader, meter)
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None


def _trajectory(
    line: str, where: str, number: int, scoring: Scoring, tokens: TokenReader | None, gaps: GapMeter | None
) -> Trajectory:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise RecordError(f"{where}: not valid JSON ({error})") from None
    if not isinstance(record, dict):
        raise RecordError(f"{where}: must be a JSON object")
    if "input" in record and "output" in record:
        return of_verl(record, number)
    try:
        return of_rollout(rollout_from_dict(record), scoring, tokens, gaps)
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from None


def of_rollout(
    rollout: Rollout, scoring: Scoring, tokens: TokenReader | None = None, gaps: GapMeter | None = None
) -> Trajectory:
    """A rollout of ours; the reward is computed here, so that every term comes with its reason."""
    breakdown = compute_reward(rollout, weights=scoring.weights, preset=scoring.preset)
    weights = scoring.weights or resolve_preset(scoring.preset).weights
    reference = rollout.question.reference
    gold = frozenset(reference.evidence_ids if reference else ())
    acc = breakdown.terms["acc"]
    return Trajectory(
        id=rollout.question.id,
        family=rollout.question.family,
        question=rollout.question.text,
        reference=rollout.question.answer,
        answer=rollout.answer,
        stop_reason=rollout.stop_reason.value,
        error=rollout.error,
        grade=acc.value if acc.valid else None,
        total=breakdown.total if breakdown.valid else None,
        terms=_terms(breakdown, weights),
        steps=tuple(_step(turn, gold) for turn in rollout.turns),
        segments=segments(rollout, tokens),
        token_counts=_token_counts(rollout),
        turn_tokens=_turn_tokens(rollout.tokens, gaps) if rollout.tokens else (),
        searches=len(rollout.searches),
        seconds=rollout.elapsed_s,
    )


def of_verl(record: Mapping[str, Any], number: int) -> Trajectory:
    """A line of verl's dump: input, output and score as text, every further number as it is."""
    known = {"input", "output", "gts", "score", "step", "request_id"}
    extra = {name: _plain(value) for name, value in record.items() if name not in known and _plain(value)}
    return Trajectory(
        id=f"step {record.get('step', '?')} · line {number}",
        question=str(record["input"]),
        reference=_plain(record.get("gts")),
        grade=_finite(record.get("acc")),
        total=_finite(record.get("score")),
        raw=str(record["output"]),
        extra=extra,
    )


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _terms(breakdown: RewardBreakdown, weights: RewardWeights) -> tuple[Term, ...]:
    factors = {"acc": weights.acc, "align": weights.align, "gain": weights.gain, "query": weights.query, "rho": -1.0}
    found = []
    for name in TERM_NAMES:
        term = breakdown.terms[name]
        counts = term.valid and term.applies
        reason = term.reason if counts else f"{'outage' if not term.valid else 'does not apply'}: {term.reason}"
        found.append(Term(name, term.value, factors.get(name, 1.0) * term.value + 0.0 if counts else None, reason))
    return tuple(found)


def _step(turn: Turn, gold: frozenset[str]) -> Step:
    action = turn.action
    evidence = turn.result.evidence if turn.result else ()
    status = turn.result.status.value if turn.result else ""
    return Step(
        number=turn.index + 1,
        kind=action.kind,
        thought="" if isinstance(action, Malformed) else action.thought,
        text=turn.completion.text,
        fields=_fields(turn),
        evidence=tuple(Unit(unit, unit.id in gold) for unit in evidence),
        status=status if status != "ok" else "",
        note=turn.observation if turn.result is None else "",
        forced=turn.forced,
        policy_s=turn.policy_s,
        tool_s=turn.tool_s,
    )


def _fields(turn: Turn) -> tuple[tuple[str, str], ...]:
    match turn.action:
        case Statute(query=query, intent=intent):
            pairs = (("query", query), ("intent", intent))
        case Precedent(query=query, circumstances=circumstances, charge=charge):
            pairs = (("query", query), ("circumstances", circumstances), ("charge", charge))
        case Stop(answer=answer):
            pairs = (("answer", answer),)
        case Malformed(reason=reason):
            pairs = (("problem", reason),)
    return tuple((name, value) for name, value in pairs if value)


def _turn_tokens(record: TokenRecord, gaps: GapMeter | None) -> tuple[TurnTokens, ...]:
    policy = [i for i, mask in enumerate(record.policy_mask) if mask]
    found = dict(zip(policy, gaps.gaps(record), strict=True)) if gaps else {}
    rows = []
    for number in range(max(record.turn, default=-1) + 1):
        places = [i for i, turn in enumerate(record.turn) if turn == number]
        own = [i for i in places if record.provenance[i] == Provenance.POLICY]
        apart = [abs(found[i]) for i in own if i in found]
        rows.append(
            TurnTokens(
                number + 1, len(own), len(places) - len(own),
                sum(record.logprobs[i] for i in own) / len(own) if own else None,
                sum(apart) / len(apart) if apart else None, max(apart) if apart else None,
            )
        )  # fmt: skip
    return tuple(rows)


def _token_counts(rollout: Rollout) -> dict[str, int]:
    if rollout.tokens is None:
        return {}
    provenance = rollout.tokens.provenance
    return {
        "prompt": sum(p == Provenance.PROMPT for p in provenance),
        "policy": sum(p == Provenance.POLICY for p in provenance),
        "environment": sum(p == Provenance.ENVIRONMENT for p in provenance),
    }
