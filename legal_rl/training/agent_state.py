"""What all trajectories of one process share: connection to the Legal Assistant, reward judge, dumps and notices."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envs.env import EnvConfig
from envs.records import RolloutWriter
from envs.types import Rollout, StopReason
from retrieval_server.client import AssistantClient, Outage
from rewards import compute_reward
from rewards.presets import resolve_preset
from rewards.types import RewardBreakdown

STOP_FILE = "stopped.txt"
"""Written into the run's folder when the retrieval server stays away; the trainer then stops."""
NOTICE_INTERVAL_S = 5.0


class AgentOptions(BaseModel):
    """What an agent loop needs besides verl's config; travels as JSON in the agent loop file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: EnvConfig
    retrieval_url: str
    retrieval_timeout_s: float = 30.0
    retrieval_patience_s: float = 600.0
    reward_preset: str = "default"
    reward_weights: dict[str, float] = Field(default_factory=dict)
    judge: dict[str, Any] | None = None
    """Settings of `retrieval_server.llm.LLMConfig` for the reward judge; None = no judge."""
    dump_dir: str = ""
    """Folder for `step_N.jsonl`; empty = no dump."""
    run_dir: str = ""
    """Folder for `notices.txt` (pauses), `invalid.jsonl` and the stop file; empty = console only."""


class AgentState:
    """Shared by the trajectories of one process; all of them run in one event loop."""

    def __init__(self, options: AgentOptions) -> None:
        self.options = options
        self.retriever = AssistantClient(
            options.retrieval_url,
            timeout_s=options.retrieval_timeout_s,
            outage_patience_s=options.retrieval_patience_s,
            on_outage=self._on_outage,
            on_recovery=self._on_recovery,
        )
        preset = resolve_preset(options.reward_preset)
        self._preset = replace(preset, weights=replace(preset.weights, **options.reward_weights))
        self._judge = _make_judge(options.judge)
        self._writer: tuple[int, RolloutWriter] | None = None
        self._last_notice = 0.0
        self._away = False

    async def score(self, rollout: Rollout) -> RewardBreakdown:
        """The breakdown; the judge, if there is one, is asked first."""
        verdict = None
        if self._judge is not None and not rollout.stop_reason.invalid:
            from rewards.judge import judge_rollout

            verdict = await judge_rollout(rollout, rollout.question.reference, self._judge)
        return compute_reward(rollout, rollout.question.reference, preset=self._preset, judge=verdict)

    def dump(self, rollout: Rollout, step: int) -> None:
        """Appends the rollout to the file of its training step."""
        if not self.options.dump_dir:
            return
        if self._writer is None or self._writer[0] != step:
            if self._writer:
                self._writer[1].close()
            self._writer = (step, RolloutWriter(Path(self.options.dump_dir) / f"step_{step:05d}.jsonl"))
        self._writer[1].write(rollout)

    def count_invalid(self, rollout: Rollout, breakdown: RewardBreakdown, mismatch: bool) -> None:
        """An invalid rollout has no row in the batch, so it is counted in a file of its own."""
        failed = {name: term.reason for name, term in breakdown.terms.items() if not term.valid}
        reason = "token_mismatch" if mismatch else rollout.stop_reason.value
        detail = rollout.error or next(iter(failed.values()), "")
        print(f"[grpo] invalid rollout of {rollout.question.id}: {reason} {detail}", flush=True)
        entry = {"question": rollout.question.id, "reason": reason, "detail": detail, "terms": list(failed)}
        self._append("invalid.jsonl", json.dumps(entry, ensure_ascii=False))
        if rollout.stop_reason is StopReason.RETRIEVAL_ERROR and self._away:
            self._append(STOP_FILE, f"{rollout.error}; the run stopped with its checkpoint kept: start it again")

    def _on_outage(self, outage: Outage) -> None:
        self._away = True
        if time.monotonic() - self._last_notice > NOTICE_INTERVAL_S:  # every waiting rollout reports; once is enough
            self._last_notice = time.monotonic()
            self._notice(f"paused: {outage}")

    def _on_recovery(self, seconds: float) -> None:
        if self._away:
            self._away, self._last_notice = False, 0.0
            self._notice(f"goes on: the Legal Assistant answers again after {seconds:.0f} s")

    def _notice(self, text: str) -> None:
        print(f"[grpo] {text}", flush=True)
        self._append("notices.txt", text)

    def _append(self, name: str, line: str) -> None:
        if self.options.run_dir:
            with (Path(self.options.run_dir) / name).open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def _make_judge(settings: Mapping[str, Any] | None) -> Any:
    if settings is None:
        return None
    from retrieval_server.llm import LLMConfig
    from rewards.judge import RewardJudge

    return RewardJudge(LLMConfig(**settings))
