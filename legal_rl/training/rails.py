"""What stops a run or warns while it trains: outages that eat the batch, empty searches, drifting and gamed rewards.

Light: no verl and no torch, so that every rule has a test that takes no time. `LegalTrainer` feeds them step by step.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from legal_rl.training.metrics import TrainingError
from rewards import TERM_NAMES


class AlarmSettings(BaseModel):
    """When a step is suspicious. Alarms are metrics and lines on the console; they stop nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window: int = Field(default=10, ge=1)
    """Steps whose mean is compared; the first window is the reference."""
    kl: float = Field(default=0.5, gt=0)
    """Mean KL loss per token (nats) to the reference policy."""
    entropy_floor: float = Field(default=0.02, ge=0)
    """Below it (nats per token) the policy no longer explores."""
    self_written: float = Field(default=0.05, ge=0, le=1)
    """Share of rollouts in which the policy writes evidence of its own."""
    length_drift: float = Field(default=2.0, gt=1)
    """Factor by which the mean answer may grow or shrink."""
    more_searches: float = Field(default=1.5, gt=1)
    """Factor of searches per rollout that is suspicious when the answers get no better."""


class EmptyEvidenceGuard:
    """Stops a run whose searches find nothing (decisions, trap 4): a broken service must not go unseen.

    Example: threshold 0.5, window 2: shares 0.9, 0.2 -> fine (mean 0.55 only after both) … raises when the mean of a
    full window exceeds the threshold.
    """

    def __init__(self, threshold: float, window: int) -> None:
        self._threshold = threshold
        self._shares: deque[float] = deque(maxlen=window)

    def observe(self, searches: float, empty: float, step: int) -> None:
        """Takes one step's number of searches and of those that came back empty."""
        if searches <= 0:
            return
        self._shares.append(empty / searches)
        if _full(self._shares) and (mean := _mean(self._shares)) > self._threshold:
            raise TrainingError(
                f"step {step}: {mean:.0%} of the searches of the last {len(self._shares)} steps found nothing; "
                "check the retrieval server's index (legal-rl retrieve) and start again, the checkpoint is kept"
            )


class InvalidShareGuard:
    """Stops a run that loses too many rollouts to outages and failed judges: what is left is no fair sample."""

    def __init__(self, threshold: float, window: int) -> None:
        self._threshold = threshold
        self._valid: deque[float] = deque(maxlen=window)
        self._invalid: deque[float] = deque(maxlen=window)
        self._reasons: Counter[str] = Counter()

    def observe(self, valid: float, reasons: Mapping[str, int], step: int) -> float:
        """Takes one step's valid rollouts and the reasons of its invalid ones; returns the step's invalid share."""
        lost = float(sum(reasons.values()))
        self._valid.append(valid)
        self._invalid.append(lost)
        self._reasons.update(reasons)
        total = sum(self._valid) + sum(self._invalid)
        share = sum(self._invalid) / total if total else 0.0
        if _full(self._invalid) and share > self._threshold:
            often = ", ".join(f"{reason} ({count})" for reason, count in self._reasons.most_common(3))
            raise TrainingError(
                f"step {step}: {share:.0%} of the rollouts of the last {len(self._invalid)} steps were invalid "
                f"(more than {self._threshold:.0%}; most often {often}); mend the service that failed and start again, "
                "the checkpoint is kept"
            )
        return lost / (valid + lost) if valid + lost else 0.0


class InvalidCounter:
    """Reads what the agent loops append to `invalid.jsonl`: those rollouts have no row in the batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def since_last(self) -> list[dict[str, Any]]:
        """The new entries: `reason`, and `terms`, the reward terms that could not be computed."""
        if not self._path.exists():
            return []
        with self._path.open(encoding="utf-8") as file:
            file.seek(self._offset)
            entries = [json.loads(line) for line in file.readlines()]
            self._offset = file.tell()
        return entries


def mean_infos(infos: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of the reward breakdowns of a batch, key by key; every rollout reports the same keys."""
    if not infos:
        return {}
    return {key: _mean([float(info[key]) for info in infos]) for key in infos[0]}


def health_metrics(infos: Sequence[Mapping[str, float]], invalid: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What a batch says of the services behind it.

    Returns:
        `invalid_rollouts`, `mismatched_rollouts`, `token_mismatch` (share), `invalid/<reason>` (counts),
        `valid/<term>` (share of the attempted rollouts whose term could be computed), `empty_evidence` (share of the
        searches), `tool_latency_s/p50` and `/p95` (seconds per search, over the rollouts that searched).
    """
    reasons = Counter(str(entry["reason"]) for entry in invalid)
    mismatched = float(reasons["token_mismatch"])
    attempted = max(len(infos) + len(invalid), 1)
    found = {
        "invalid_rollouts": float(len(invalid)),
        "mismatched_rollouts": mismatched,
        # mismatched rollouts never reach the batch, so their share is of all that were valid otherwise
        "token_mismatch": mismatched / max(1.0, mismatched + len(infos)),
    }
    found |= {f"invalid/{reason}": float(count) for reason, count in reasons.items()}
    lost = Counter(term for entry in invalid for term in entry.get("terms", ()))
    found |= {f"valid/{term}": 1.0 - lost[term] / attempted for term in TERM_NAMES}
    searches = sum(float(info.get("num_searches", 0.0)) for info in infos)
    empty = sum(float(info.get("num_empty_searches", 0.0)) for info in infos)
    found["empty_evidence"] = empty / searches if searches else 0.0
    latencies = sorted(
        float(info["tool_seconds"]) / float(info["num_searches"]) for info in infos if info.get("num_searches")
    )
    if latencies:
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            found[f"tool_latency_s/{name}"] = latencies[min(int(share * len(latencies)), len(latencies) - 1)]
    return found


WATCHED = ("actor/kl_loss", "entropy_estimate", "self_written_evidence", "answer_chars", "num_searches", "acc")
"""Metrics that the alarms read."""


class Alarms:
    """Watches metrics for drift and for rewards that are gamed.

    kl                the policy leaves its reference
    entropy           it no longer explores (estimated by the mean negative log-probability of what it sampled)
    self_written      it writes <information> itself
    answer_length     answers grow or shrink by a factor
    search_for_reward more searches, while the answers get no better
    """

    NAMES = ("kl", "entropy", "self_written", "answer_length", "search_for_reward")

    def __init__(self, settings: AlarmSettings | None = None) -> None:
        self.settings = settings or AlarmSettings()
        self._first: dict[str, list[float]] = {}
        self._last: dict[str, deque[float]] = {}
        self._on: set[str] = set()

    def observe(self, metrics: Mapping[str, Any], step: int, say: Any = print) -> dict[str, float]:
        """Takes one step's metrics; returns `alarm/<name>` as 0 or 1 and says each alarm when it begins and ends."""
        for name in WATCHED:
            if name in metrics:
                self._note(name, float(metrics[name]))
        reasons = self._reasons()
        for name in self.NAMES:
            if name in reasons and name not in self._on:
                say(f"[grpo] alarm at step {step}: {name}: {reasons[name]}")
            if name not in reasons and name in self._on:
                say(f"[grpo] step {step}: {name} is quiet again")
        self._on = set(reasons)
        return {f"alarm/{name}": float(name in reasons) for name in self.NAMES}

    def _note(self, name: str, value: float) -> None:
        first = self._first.setdefault(name, [])
        if len(first) < self.settings.window:
            first.append(value)
        self._last.setdefault(name, deque(maxlen=self.settings.window)).append(value)

    def _now(self, name: str) -> float | None:
        return _mean(self._last[name]) if name in self._last else None

    def _ratio(self, name: str) -> float | None:
        """Last window over first window; None until there are two that do not overlap."""
        first = self._first.get(name, [])
        if len(first) < self.settings.window or not self._moved(name) or _mean(first) <= 0:
            return None
        return _mean(self._last[name]) / _mean(first)

    def _moved(self, name: str) -> bool:
        return list(self._last[name]) != self._first[name]

    def _reasons(self) -> dict[str, str]:
        s, found = self.settings, {}
        kl, entropy, own = (self._now(n) for n in ("actor/kl_loss", "entropy_estimate", "self_written_evidence"))
        if kl is not None and kl > s.kl:
            found["kl"] = f"KL to the reference is {kl:.3f} (over {s.kl:g}); lower grpo.learning_rate"
        if entropy is not None and entropy < s.entropy_floor:
            found["entropy"] = f"entropy is {entropy:.4f} (under {s.entropy_floor:g}): the policy has stopped exploring"
        if own is not None and own > s.self_written:
            found["self_written"] = f"{own:.0%} of the rollouts write evidence of their own"
        drift = self._ratio("answer_chars")
        if drift is not None and not 1 / s.length_drift <= drift <= s.length_drift:
            found["answer_length"] = f"answers are {drift:.1f} times as long as in the first {s.window} steps"
        more, better = self._ratio("num_searches"), self._ratio("acc")
        if more is not None and more > s.more_searches and (better is None or better <= 1.0):
            found["search_for_reward"] = f"{more:.1f} times the searches, and no better answers"
        return found


def _full(values: deque[float]) -> bool:
    return len(values) == values.maxlen


def _mean(values: Sequence[float] | deque[float]) -> float:
    return sum(values) / len(values)
