"""The reward judge: an LLM that grades open answers and the support that evidence gives (paper, appendix B.2).

    judge = RewardJudge(LLMConfig(base_url="http://127.0.0.1:8002/v1", model="Qwen/Qwen3-8B"))
    verdict = await judge_rollout(rollout, reference, judge)
    breakdown = compute_reward(rollout, reference, judge=verdict)

A judge that fails or cannot be read never gives a zero: the verdict carries the error and the term becomes invalid.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol

from envs.prompt_files import read_prompt
from envs.rendering import neutralise, render_unit
from envs.types import Reference, Rollout
from retrieval_server.config import LLMConfig
from retrieval_server.errors import AssistantError
from retrieval_server.llm import ChatModel
from rewards.errors import JudgeError
from rewards.gain import needs_evidence
from rewards.verdict import JudgeVerdict

MAX_SCORE = 10
SUPPORT = {"yes": 1.0, "partly": 0.5, "no": 0.0}
MAX_TEXT_CHARS = 4_000
"""Of each text put before the judge."""
_EVIDENCE_CHARS = 600
_MAX_TOKENS = 256
_PROMPT_DIR = Path(__file__).parent / "prompts"
_REASON = {"type": "string"}
_ACC_SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 0, "maximum": MAX_SCORE}, "reason": _REASON},
    "required": ["score", "reason"],
    "additionalProperties": False,
}
_GAIN_SCHEMA = {
    "type": "object",
    "properties": {"support": {"type": "string", "enum": list(SUPPORT)}, "reason": _REASON},
    "required": ["support", "reason"],
    "additionalProperties": False,
}


class Judge(Protocol):
    """What `judge_rollout` needs; toy judges in tests implement it without a server.

    Raises:
        rewards.errors.JudgeError: no readable verdict.
    """

    async def score_answer(self, question: str, reference: str, answer: str) -> float: ...
    async def score_support(self, question: str, reference: str, evidence: str) -> float: ...


class RewardJudge:
    """The judge behind an OpenAI-compatible endpoint, with deadline, retries and a cache of its verdicts.

    Args:
        config: the endpoint; its `deadline_s` bounds one verdict with all retries.
        cache_size: verdicts kept; rollouts of one group often put the same evidence before the judge.
    """

    def __init__(self, config: LLMConfig, cache_size: int = 10_000) -> None:
        self.model = ChatModel(config)
        self.hits = 0
        self.failures = 0
        self._cache: OrderedDict[str, float] = OrderedDict()
        self._cache_size = cache_size

    async def score_answer(self, question: str, reference: str, answer: str) -> float:
        """Rubric score of an open answer, 0–10 divided by 10."""
        prompt = _fill("judge_acc", question=question, reference=reference, answer=answer)
        return await self._verdict("acc", prompt, _ACC_SCHEMA)

    async def score_support(self, question: str, reference: str, evidence: str) -> float:
        """1, 0.5 or 0 for evidence that supports the reference answer wholly, partly or not."""
        prompt = _fill("judge_gain", question=question, reference=reference, evidence=evidence)
        return await self._verdict("gain", prompt, _GAIN_SCHEMA)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self.model.aclose()

    async def _verdict(self, kind: str, prompt: str, schema: dict[str, Any]) -> float:
        key = hashlib.sha256(f"{kind}\n{prompt}".encode("utf-8", "surrogatepass")).hexdigest()
        if key in self._cache:
            self.hits += 1
            self._cache.move_to_end(key)
            return self._cache[key]
        try:
            messages = [{"role": "user", "content": prompt}]
            value = _read(kind, await self.model.complete_json(messages, schema, f"judge_{kind}", _MAX_TOKENS))
        except AssistantError as error:
            self.failures += 1
            raise JudgeError(f"reward judge: {str(error).removeprefix('Assistant LLM ')}") from error
        except JudgeError:
            self.failures += 1
            raise
        self._cache[key] = value
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)
        return value


async def judge_rollout(rollout: Rollout, reference: Reference | None, judge: Judge) -> JudgeVerdict:
    """Ask the judge what it has to say about one rollout; never raises on a failing judge.

    Only answers whose grader is `judge` are scored, and only evidence that the environment inserted is shown.
    """
    if rollout.stop_reason.invalid:
        return JudgeVerdict(reason="not asked: the rollout is invalid")
    question, answer = rollout.question.text, rollout.question.answer
    acc, acc_error, gain, gain_error = None, "", None, ""
    if rollout.question.grader == "judge" and rollout.answer:
        try:
            acc = await judge.score_answer(question, answer, rollout.answer)
        except JudgeError as error:
            acc_error = str(error)
    if rollout.evidence and needs_evidence(reference if reference is not None else rollout.question.reference):
        try:
            gain = await judge.score_support(question, answer, evidence_text(rollout))
        except JudgeError as error:
            gain_error = str(error)
    return JudgeVerdict(acc, gain, acc_error, gain_error)


def evidence_text(rollout: Rollout) -> str:
    """The evidence units of a rollout, numbered, for a judge's prompt."""
    return "\n".join(
        render_unit(number, unit, _EVIDENCE_CHARS) for number, unit in enumerate(rollout.evidence, start=1)
    )


def _fill(name: str, **texts: str) -> str:
    template = read_prompt(_PROMPT_DIR / f"{name}.txt", texts)
    return template.substitute({key: _bounded(text) for key, text in texts.items()})


def _bounded(text: str) -> str:
    """Texts under judgment cannot close the tag that holds them, nor crowd the rubric out."""
    return neutralise(text[:MAX_TEXT_CHARS]).replace("</", "＜/")


def _read(kind: str, answer: Any) -> float:
    if not isinstance(answer, dict):
        raise JudgeError("reward judge: the verdict is no JSON object")
    if kind == "gain":
        support = answer.get("support")
        if support not in SUPPORT:
            raise JudgeError(f"reward judge: support {support!r} is not one of {', '.join(SUPPORT)}")
        return SUPPORT[support]
    score = answer.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= MAX_SCORE:
        raise JudgeError(f"reward judge: score {score!r} is not a number from 0 to {MAX_SCORE}")
    return score / MAX_SCORE
