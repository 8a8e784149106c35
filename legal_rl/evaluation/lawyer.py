"""Evaluation of Lawyers on held-out questions: the same rollout loop and the same graders as in training.

Files in the output folder::

    <model>.rollouts.jsonl   every rollout, in the order in which it ended (envs.records)
    <model>.scores.jsonl     one line per question: id, family and the metrics, null where a judge failed
    summary.json             means with bootstrap intervals, by model and by family, and paired differences
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from envs.env import EnvConfig, LegalEnv
from envs.policy import Budget
from envs.records import RolloutWriter, read_rollouts
from envs.rollout import run_rollout
from envs.tokens import Dialogue, TokenDialogue, Tokenizer
from envs.types import Completion, Malformed, Question, Rollout
from legal_rl.evaluation.local_engine import EngineSettings, LocalEngine
from legal_rl.evaluation.ray_engines import RayEngines
from legal_rl.evaluation.statistics import bootstrap_means, paired_difference
from retrieval_server.config import LLMConfig
from retrieval_server.types import Retriever
from rewards import TERM_NAMES, RewardBreakdown, RewardWeights, compute_reward
from rewards.verdict import JudgeVerdict

CORRECT = 0.999
JUDGE_CONCURRENCY = 16
METRICS = (
    "reward", "correct", *TERM_NAMES, "searches", "malformed_share", "policy_tokens", "evidence_tokens", "seconds",
)  # fmt: skip
"""Columns of the summary. `correct` is the share of answers with full marks, `acc` the mean grade."""

Progress = Callable[[str, int, int], None]


class EnginePolicy:
    """A model in the local engine as a `Policy`: continues the dialogue's token ids."""

    def __init__(
        self, engine: LocalEngine | RayEngines, tokenizer: Tokenizer, temperature: float = 0.0, seed: int = 0
    ) -> None:
        self.engine, self.tokenizer, self.temperature, self.seed = engine, tokenizer, temperature, seed

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        """Sample one turn; raises `PolicyError` when the engine fails."""
        assert isinstance(dialogue, TokenDialogue)
        prompt = dialogue.token_ids
        more = {"seed": turn_seed(self.seed, prompt)} if self.temperature > 0 else {}
        sample = await self.engine.generate(
            prompt,
            max_tokens=budget.max_tokens,
            stop_ids=(dialogue.turn_end_id,),
            temperature=self.temperature,
            **more,
        )
        ended = bool(sample.token_ids) and sample.token_ids[-1] == dialogue.turn_end_id
        return Completion(
            text=self.tokenizer.decode(list(sample.token_ids), skip_special_tokens=True),
            token_ids=sample.token_ids,
            logprobs=sample.logprobs,
            finish_reason="stop" if ended else "length",
        )


def turn_seed(seed: int, prompt_ids: Sequence[int]) -> int:
    """A seed of its own for every prompt. With one seed for all, every question would meet the same random numbers."""
    return zlib.crc32(f"{seed}:{','.join(map(str, prompt_ids))}".encode())


def evaluate_models(
    models: Mapping[str, Path],
    questions: Sequence[Question],
    retriever: Retriever,
    env_config: EnvConfig,
    out_dir: Path,
    *,
    preset: str = "default",
    weights: RewardWeights | None = None,
    judge: LLMConfig | None = None,
    engine: EngineSettings | None = None,
    temperature: float = 0.0,
    seed: int = 0,
    resamples: int = 2000,
    progress: Progress = lambda name, done, total: None,
) -> dict[str, Any]:
    """Play every question with every model and write the files above.

    Goes on with the questions that have no rollout yet, so that a killed evaluation loses nothing.

    Args:
        models: name -> Hugging Face folder, in the order in which they are compared.
        judge: endpoint of the reward judge; None = rules and graders only, as in training.
        progress: told (model, done, total).

    Returns:
        The summary. Rollouts that an outage ended are dropped and counted, never scored zero.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    scores: dict[str, list[dict[str, Any]]] = {}
    stops: dict[str, Counter[str]] = {}
    for name, folder in models.items():
        path = out_dir / f"{name}.rollouts.jsonl"
        lost = _play(name, folder, questions, retriever, env_config, path, engine, temperature, seed, progress)
        outages = asyncio.run(lost)
        by_id = {rollout.question.id: rollout for rollout in read_rollouts(path)}
        rollouts = [by_id[q.id] for q in questions if q.id in by_id]
        stops[name] = Counter(rollout.stop_reason.value for rollout in rollouts) + outages
        valid = [rollout for rollout in rollouts if _valid(rollout)]
        verdicts = asyncio.run(_verdicts(valid, judge))
        scores[name] = [
            _score(rollout, compute_reward(rollout, weights=weights, preset=preset, judge=verdict))
            for rollout, verdict in zip(valid, verdicts, strict=True)
        ]
        _write_lines(out_dir / f"{name}.scores.jsonl", scores[name])
    summary = summarise(scores, len(questions), seed, resamples)
    summary["temperature"] = temperature
    for name in models:
        summary["models"][name]["stop_reasons"] = dict(stops[name])  # outages too: why rollouts were dropped
    _write_text(out_dir / "summary.json", json.dumps(summary, ensure_ascii=False, indent=1))
    return summary


async def _play(
    name: str,
    folder: Path,
    questions: Sequence[Question],
    retriever: Retriever,
    env_config: EnvConfig,
    path: Path,
    settings: EngineSettings | None,
    temperature: float,
    seed: int,
    progress: Progress,
) -> Counter[str]:
    """All questions at once: rollouts that search make room in the engine's batch for those that generate.

    Returns:
        Stop reasons of the rollouts that an outage ended; they are not written.
    """
    outages: Counter[str] = Counter()
    done = {rollout.question.id for rollout in read_rollouts(path, allow_torn_end=True)} if path.exists() else set()
    missing = [question for question in questions if question.id not in done]
    progress(name, len(questions) - len(missing), len(questions))
    if not missing:
        return outages
    async with LocalEngine(folder, settings or EngineSettings()) as engine:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        policy = EnginePolicy(engine, tokenizer, temperature, seed)
        tasks = [run_rollout(q, policy, LegalEnv(retriever, env_config), tokenizer) for q in missing]
        with RolloutWriter(path) as writer:
            for count, task in enumerate(asyncio.as_completed(tasks), start=len(questions) - len(missing) + 1):
                rollout = await task
                if _valid(rollout):
                    writer.write(rollout)
                else:  # asked again by the next run
                    outages[rollout.stop_reason.value] += 1
                progress(name, count, len(questions))
    return outages


async def _verdicts(rollouts: Sequence[Rollout], config: LLMConfig | None) -> list[JudgeVerdict | None]:
    """What the reward judge says of every rollout, several at a time; a failed verdict makes its term invalid."""
    if config is None:
        return [None] * len(rollouts)
    from rewards.judge import RewardJudge, judge_rollout

    judge, room = RewardJudge(config), asyncio.Semaphore(JUDGE_CONCURRENCY)

    async def ask(rollout: Rollout) -> JudgeVerdict:
        async with room:
            return await judge_rollout(rollout, rollout.question.reference, judge)

    try:
        return list(await asyncio.gather(*map(ask, rollouts)))
    finally:
        await judge.aclose()


def _valid(rollout: Rollout) -> bool:
    return not rollout.stop_reason.invalid


def _score(rollout: Rollout, breakdown: RewardBreakdown) -> dict[str, Any]:
    """One question's metrics; an invalid reward is NaN and leaves the means, not a zero."""
    terms = {term: breakdown.terms[term].value if breakdown.terms[term].valid else math.nan for term in TERM_NAMES}
    malformed = sum(isinstance(turn.action, Malformed) for turn in rollout.turns)
    return {
        "id": rollout.question.id,
        "family": rollout.question.family,
        "reward": breakdown.total,
        "correct": math.nan if math.isnan(terms["acc"]) else float(terms["acc"] >= CORRECT),
        **terms,
        "searches": float(len(rollout.searches)),
        "malformed_share": malformed / max(1, len(rollout.turns)),
        "policy_tokens": float(sum(rollout.tokens.policy_mask)) if rollout.tokens else 0.0,
        "evidence_tokens": float(sum(rollout.tokens.evidence)) if rollout.tokens else 0.0,
        "seconds": rollout.elapsed_s,
    }


def summarise(
    scores: Mapping[str, Sequence[Mapping[str, Any]]], num_questions: int, seed: int, resamples: int
) -> dict[str, Any]:
    """Means with 95 % bootstrap intervals over questions, overall and by family; paired differences of neighbours."""
    models = {name: _model_summary(rows, num_questions, seed, resamples) for name, rows in scores.items()}
    names = list(scores)
    differences = {
        f"{after} - {before}": _differences(scores[before], scores[after], seed, resamples)
        for before, after in pairwise(names)
    }
    return {
        "n": num_questions, "seed": seed, "resamples": resamples, "level": 0.95,
        "models": models, "differences": differences,
    }  # fmt: skip


def _model_summary(rows: Sequence[Mapping[str, Any]], expected: int, seed: int, resamples: int) -> dict[str, Any]:
    families: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        families[row["family"]].append(row)
    return {
        "n": len(rows),
        "dropped": expected - len(rows),
        "metrics": _intervals(rows, seed, resamples),
        "by_family": {name: _intervals(group, seed, resamples) for name, group in sorted(families.items())},
    }


def _intervals(rows: Sequence[Mapping[str, Any]], seed: int, resamples: int) -> dict[str, Any]:
    valid = [row for row in rows if not math.isnan(row["reward"])]
    table = [[row[metric] for metric in METRICS] for row in valid] or [[math.nan] * len(METRICS)][:0]
    if not table:
        return {}
    found = bootstrap_means(table, seed=seed, resamples=resamples)
    return {metric: interval.as_dict() for metric, interval in zip(METRICS, found, strict=True)}


def _differences(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], seed: int, resamples: int
) -> dict[str, Any]:
    """Over the questions that both models have."""
    first, second = {row["id"]: row for row in before}, {row["id"]: row for row in after}
    common = [name for name in first if name in second]
    return {
        metric: paired_difference(
            [first[i][metric] for i in common], [second[i][metric] for i in common], seed=seed, resamples=resamples
        ).as_dict()
        for metric in METRICS
    }


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    plain = [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]
    _write_text(path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in plain))


def _write_text(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
