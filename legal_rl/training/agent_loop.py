"""`LegalAgentLoop`: verl's agent loop around the one rollout loop, with rewards from the structured rollout.

verl's question row -> Question -> envs.rollout.run_rollout(VerlPolicy, LegalEnv) -> rewards.compute_reward -> token
ids, mask and score. Token ids in, token ids out: what vLLM sampled is what verl trains on, checked for every sample.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from envs.env import LegalEnv
from envs.errors import PolicyError
from envs.policy import Budget
from envs.records import question_from_dict
from envs.rollout import run_rollout
from envs.tokens import Dialogue, TokenDialogue
from envs.types import Completion, Rollout
from legal_rl.training.agent_state import AgentOptions, AgentState
from legal_rl.training.rollout_info import reward_info
from rewards.types import RewardBreakdown

TurnTokens = tuple[tuple[int, ...], tuple[int, ...]]


class VerlPolicy:
    """The trained policy behind verl's rollout server: continues the dialogue's token ids.

    Raises (from `act`):
        PolicyError: the engine failed.
    """

    def __init__(self, server: Any, tokenizer: Any, sampling_params: Mapping[str, Any], max_context: int) -> None:
        self._server, self._tokenizer, self._params = server, tokenizer, dict(sampling_params)
        self._max_context = max_context
        self._request_id = uuid4().hex  # one id for all turns keeps them on one replica and its prefix cache
        self.turns: list[TurnTokens] = []
        """(prompt ids, sampled ids) of every turn, as they went over the wire."""
        self._versions: list[int] = []
        self._extra: dict[str, Any] = {}

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        """Samples one turn."""
        assert isinstance(dialogue, TokenDialogue)
        prompt = dialogue.token_ids
        room = min(budget.max_tokens, self._max_context - len(prompt))
        if room < 1:
            raise PolicyError(f"prompt of {len(prompt)} tokens leaves no room in a context of {self._max_context}")
        try:
            output = await self._server.generate(
                self._request_id, prompt_ids=prompt, sampling_params={**self._params, "max_tokens": room}
            )
        except Exception as error:
            raise PolicyError(f"rollout engine: {' '.join(str(error).split())[:300]}") from error
        ids = tuple(int(token) for token in output.token_ids)
        if not ids:
            raise PolicyError("rollout engine: aborted before the first token")
        self._remember(tuple(prompt), ids, output.extra_fields or {})
        ended = ids[-1] == dialogue.turn_end_id
        text = self._tokenizer.decode(list(ids[:-1] if ended else ids), skip_special_tokens=False)
        return Completion(text, ids, tuple(map(float, output.log_probs or ())), "stop" if ended else "length")

    def _remember(self, prompt: tuple[int, ...], ids: tuple[int, ...], fields: Mapping[str, Any]) -> None:
        self.turns.append((prompt, ids))
        self._extra.update(fields)
        if (version := fields.get("global_steps")) is not None:
            self._versions.append(int(version))

    @property
    def extra_fields(self) -> dict[str, Any]:
        """What the server reported, with the oldest and newest weights used: verl's staleness metrics read them."""
        versions = self._versions or [0]
        return {**self._extra, "min_global_steps": min(versions), "max_global_steps": max(versions)}


def token_mismatch(rollout: Rollout, turns: Sequence[TurnTokens]) -> bool:
    """True when the record to train on differs from what was sent to and sampled from the engine.

    Every turn's prompt must be a prefix of the record, directly followed by the sampled ids; and the record's policy
    tokens must be exactly the sampled ones.
    """
    record = rollout.tokens
    if record is None:
        return True
    ids = record.token_ids
    for prompt, sampled in turns:
        end = len(prompt) + len(sampled)
        if ids[: len(prompt)] != prompt or ids[len(prompt) : end] != sampled:
            return True
    policy = tuple(t for t, mask in zip(ids, record.policy_mask, strict=True) if mask)
    return policy != tuple(t for _, sampled in turns for t in sampled)


@cache
def shared_state(options: str) -> AgentState:
    """One state per process and options: every trajectory uses the same connections and files."""
    return AgentState(AgentOptions.model_validate_json(options))


class LegalAgentLoop(AgentLoopBase):
    """One trajectory of GRPO.

    Returns an empty list for an invalid rollout (outage, failed judge): verl then leaves it out of the batch and of
    its group's statistics. A rollout whose tokens do not match what was sampled is left out in the same way.
    """

    def __init__(self, *args: Any, options: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.state = shared_state(options)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        """Plays, scores, checks and hands over one rollout.

        Args:
            sampling_params: verl's; greedy for validation.
            kwargs: the row; `extra_info["question"]` holds the question with its reference as JSON.
        """
        question = question_from_dict(json.loads(kwargs["extra_info"]["question"]))
        policy = VerlPolicy(self.server_manager, self.tokenizer, sampling_params, self.rollout_config.max_model_len)
        env = LegalEnv(self.state.retriever, self.state.options.environment)
        tokenizer: Any = self.tokenizer
        rollout = await run_rollout(question, policy, env, tokenizer)
        started = time.perf_counter()
        breakdown = await self.state.score(rollout)
        score_s = time.perf_counter() - started
        mismatch = bool(policy.turns) and not rollout.stop_reason.invalid and token_mismatch(rollout, policy.turns)
        self.state.dump(rollout, int(kwargs.get("global_steps", 0)))
        if rollout.stop_reason.invalid or not breakdown.valid or mismatch:
            self.state.count_invalid(rollout, breakdown, mismatch)
            return []
        return self._output(rollout, breakdown, policy, score_s)

    def _output(
        self, rollout: Rollout, breakdown: RewardBreakdown, policy: VerlPolicy, score_s: float
    ) -> AgentLoopOutput:
        record = rollout.tokens
        assert record is not None
        start = record.prompt_length
        info = reward_info(rollout, breakdown, mismatch=False)
        return AgentLoopOutput(
            prompt_ids=list(record.token_ids[:start]),
            response_ids=list(record.token_ids[start:]),
            response_mask=list(record.policy_mask[start:]),
            response_logprobs=list(record.logprobs[start:]),
            reward_score=breakdown.total,
            num_turns=len(rollout.turns),
            metrics=AgentLoopMetrics(
                generate_sequences=sum(turn.policy_s for turn in rollout.turns),
                tool_calls=sum(turn.tool_s for turn in rollout.turns),
                compute_score=score_s,
            ),
            extra_fields={**policy.extra_fields, "reward_extra_info": info},
        )


def write_agent_file(path: Path, name: str, options: AgentOptions) -> None:
    """The file that `rollout.agent.agent_loop_config_path` points to."""
    import yaml

    entry = {"name": name, "_target_": f"{__name__}.LegalAgentLoop", "options": options.model_dump_json()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump([entry], allow_unicode=True), encoding="utf-8")
