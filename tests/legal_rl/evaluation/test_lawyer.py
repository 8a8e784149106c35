"""The evaluation of Lawyers: its arithmetic on made-up scores, and one real engine with a tiny random model."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envs.env import EnvConfig, LegalEnv
from envs.policy import Budget
from envs.records import read_rollouts, write_rollouts
from envs.rollout import run_rollout
from envs.types import Question, Reference, Rollout, StopReason
from legal_rl.evaluation import lawyer
from legal_rl.evaluation.lawyer import METRICS, evaluate_models, summarise, turn_seed
from legal_rl.evaluation.local_engine import EngineSettings
from retrieval_server.config import LLMConfig
from retrieval_server.types import Evidence, SearchQuery, SearchResult, Source, Status
from rewards import RewardWeights, compute_reward

UNIT = Evidence(id="law/试验法@2024-01-01#1", source=Source.STATUTE, title="试验法", label="第一条", text="甲罪处罚金")


class ToyRetriever:
    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        return [SearchResult(status=Status.OK, evidence=(UNIT,)) for _ in queries]


class Script:
    """Says the given turns, one after the other."""

    def __init__(self, *turns: str) -> None:
        self.turns = list(turns)

    async def act(self, dialogue: Any, budget: Budget) -> Any:
        from envs.types import Completion

        return Completion(self.turns.pop(0) if len(self.turns) > 1 else self.turns[0])


def question(number: int) -> Question:
    reference = Reference(("statute", "stop"), (UNIT.id,), ("罚金",), ("第一条",))
    return Question(f"q{number}", "第一条是什么？", "罚金", "exact", family="ab"[number % 2], reference=reference)


async def play(number: int, *turns: str) -> Rollout:
    return await run_rollout(question(number), Script(*turns), LegalEnv(ToyRetriever(), EnvConfig(max_turns=3)))  # type: ignore[arg-type]


SEARCH = '<think>查</think><search>{"source": "statute", "query": "第一条"}</search>'


def row(name: str, family: str, value: float, **more: float) -> dict[str, Any]:
    return {"id": name, "family": family, **dict.fromkeys(METRICS, value), **more}


async def test_scores_of_a_right_and_a_broken_rollout() -> None:
    right = await play(0, SEARCH, "<think>看</think><answer>罚金</answer>")
    score = lawyer._score(right, compute_reward(right))
    assert (score["correct"], score["acc"], score["searches"], score["malformed_share"]) == (1.0, 1.0, 1.0, 0.0)
    assert score["reward"] == pytest.approx(compute_reward(right).total)
    broken = await play(1, "没有标签", "<answer>死刑</answer>")
    score = lawyer._score(broken, compute_reward(broken))
    assert (score["correct"], score["searches"], score["malformed_share"]) == (0.0, 0.0, 0.5)


async def test_an_outage_is_nan_and_no_zero() -> None:
    class Down:
        async def search(self, queries: Any) -> Any:
            from retrieval_server.errors import RetrievalError

            raise RetrievalError("down")

    rollout = await run_rollout(question(0), Script(SEARCH), LegalEnv(Down(), EnvConfig()))  # type: ignore[arg-type]
    assert rollout.stop_reason is StopReason.RETRIEVAL_ERROR
    score = lawyer._score(rollout, compute_reward(rollout))
    assert math.isnan(score["reward"]) and math.isnan(score["acc"])
    assert not lawyer._valid(rollout)


def test_summaries_by_hand() -> None:
    scores = {
        "untrained": [row("q0", "a", 0.0), row("q1", "b", 0.0)],
        "sft": [row("q0", "a", 0.5), row("q1", "b", 1.0), row("q2", "a", 0.0)],
        "grpo": [row("q1", "b", 1.0), row("q0", "a", 1.0)],
    }
    summary = summarise(scores, num_questions=3, seed=1, resamples=100)
    assert summary["n"] == 3 and summary["level"] == 0.95
    sft = summary["models"]["sft"]
    assert (sft["n"], sft["dropped"]) == (3, 0)
    assert sft["metrics"]["reward"]["mean"] == pytest.approx(0.5)
    assert {name: group["reward"]["n"] for name, group in sft["by_family"].items()} == {"a": 2, "b": 1}
    assert sft["by_family"]["a"]["reward"]["mean"] == pytest.approx(0.25)
    assert summary["models"]["untrained"]["dropped"] == 1
    assert list(summary["differences"]) == ["sft - untrained", "grpo - sft"]
    # paired over q0 and q1, whatever the order of the rows: (0.5 + 0) / 2
    difference = summary["differences"]["grpo - sft"]["correct"]
    assert (difference["mean"], difference["n"]) == (pytest.approx(0.25), 2)
    json.dumps(summary, allow_nan=False)


def test_invalid_rewards_leave_the_means() -> None:
    rows = [row("q0", "a", 0.5), row("q1", "a", math.nan)]
    summary = summarise({"grpo": rows}, 2, 0, 50)
    assert summary["models"]["grpo"]["metrics"]["reward"] == {"mean": 0.5, "low": 0.5, "high": 0.5, "n": 1}


def test_a_model_without_a_valid_rollout_has_no_numbers() -> None:
    summary = summarise({"sft": [row("q0", "a", 1.0)], "grpo": []}, 1, 0, 50)
    assert summary["models"]["grpo"] == {"n": 0, "dropped": 1, "metrics": {}, "by_family": {}}
    assert summary["differences"]["grpo - sft"]["reward"] == {"mean": None, "low": None, "high": None, "n": 0}


async def _finished(path: Path, *answers: str) -> None:
    write_rollouts(path, [await play(n, SEARCH, f"<answer>{answer}</answer>") for n, answer in enumerate(answers)])


def test_finished_rollouts_are_not_played_again(tmp_path: Path) -> None:
    asyncio.run(_finished(tmp_path / "sft.rollouts.jsonl", "罚金", "死刑"))
    asyncio.run(_finished(tmp_path / "grpo.rollouts.jsonl", "罚金", "罚金"))
    before = (tmp_path / "sft.rollouts.jsonl").read_bytes()
    told: list[tuple[str, int, int]] = []
    summary = evaluate_models(
        {"sft": Path("no model is needed"), "grpo": Path("here")},
        [question(0), question(1)],
        ToyRetriever(),
        EnvConfig(),
        tmp_path,
        weights=RewardWeights(acc=2.0),
        resamples=100,
        progress=lambda *args: told.append(args),
    )
    assert told == [("sft", 2, 2), ("grpo", 2, 2)]
    assert (tmp_path / "sft.rollouts.jsonl").read_bytes() == before
    assert summary["models"]["sft"]["metrics"]["correct"]["mean"] == 0.5
    assert summary["models"]["grpo"]["stop_reasons"] == {"answer": 2}
    assert summary["differences"]["grpo - sft"]["acc"]["mean"] == 0.5
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8")) == summary
    lines = (tmp_path / "grpo.scores.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["q0", "q1"]
    assert not list(tmp_path.glob("*.tmp"))


def test_a_judge_that_does_not_answer_leaves_no_zero(tmp_path: Path) -> None:
    asyncio.run(_finished(tmp_path / "sft.rollouts.jsonl", "罚金", "死刑"))
    judge = LLMConfig(base_url="http://127.0.0.1:9/v1", model="judge", max_retries=0, deadline_s=1.0)
    summary = evaluate_models(
        {"sft": Path("no model")},
        [question(0), question(1)],
        ToyRetriever(),
        EnvConfig(),
        tmp_path,
        judge=judge,
        resamples=50,
    )
    assert summary["models"]["sft"]["metrics"] == {}, "no number is made up where the judge failed"


@pytest.mark.slow
def test_a_real_engine_plays_a_random_model_and_resumes(tmp_path: Path) -> None:
    from legal_rl.policy_model.build import build_policy
    from legal_rl.policy_model.settings import PolicySettings

    settings = PolicySettings(
        vocab_size=700, layers=2, hidden_size=64, heads=2, kv_heads=2, ffn_size=64, steps=0, threads=1
    )
    texts = ["甲罪处罚金，但是法律另有规定的除外。" * 3, "乙罪处三年以下有期徒刑。" * 3]
    build_policy(settings, texts, [SEARCH, "<answer>罚金</answer>"] * 5, tmp_path / "model")
    env = EnvConfig(
        max_turns=2, top_k=1, max_response_tokens=128, max_turn_tokens=24, forced_answer_tokens=64,
        evidence_style="compact", system_prompt="lawyer_system_compact",
    )  # fmt: skip
    questions = [question(n) for n in range(6)]
    engine = EngineSettings(max_model_len=512, kv_cache_gib=0.25, threads=1)

    def run(asked: list[Question], out: str) -> dict[str, Any]:
        return evaluate_models(
            {"random": tmp_path / "model"}, asked, ToyRetriever(), env, tmp_path / out, engine=engine, resamples=50
        )

    summary = run(questions, "whole")
    assert (summary["models"]["random"]["n"], summary["models"]["random"]["dropped"]) == (6, 0)
    rollouts = {r.question.id: r for r in read_rollouts(tmp_path / "whole" / "random.rollouts.jsonl")}
    for rollout in rollouts.values():
        record = rollout.tokens
        assert record is not None and sum(record.policy_mask) == sum(len(t.completion.token_ids) for t in rollout.turns)
        sampled = tuple(i for i, mine in zip(record.token_ids, record.policy_mask, strict=True) if mine)
        assert sampled == tuple(i for turn in rollout.turns for i in turn.completion.token_ids)
        assert all(value <= 0.0 for turn in rollout.turns for value in turn.completion.logprobs)
    run(questions[:2], "parts")
    run(questions, "parts")
    again = {r.question.id: r for r in read_rollouts(tmp_path / "parts" / "random.rollouts.jsonl")}
    assert {k: r.tokens.token_ids for k, r in again.items() if r.tokens} == {
        k: r.tokens.token_ids for k, r in rollouts.items() if r.tokens
    }


def test_every_prompt_has_random_numbers_of_its_own_and_they_repeat():
    assert turn_seed(0, [1, 2, 3]) == turn_seed(0, [1, 2, 3])
    assert len({turn_seed(seed, [1, last]) for seed in range(3) for last in range(100)}) == 300
    assert turn_seed(0, [12]) != turn_seed(0, [1, 2])
