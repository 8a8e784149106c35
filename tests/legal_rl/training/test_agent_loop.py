"""The agent loop without verl's servers: toy engine, real rollout loop, real rewards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from envs.records import question_to_dict, read_rollouts

pytest.importorskip("verl")
pytestmark = pytest.mark.slow  # importing verl takes a quarter of a minute


class ToyEngine:
    """Plays given turns through verl's client interface, with weights of version 3, then 4."""

    def __init__(self, tokenizer, texts):
        self._turns = [
            tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] for text in texts
        ]
        self.requests = []

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        ids = self._turns[len(self.requests)]
        self.requests.append((request_id, list(prompt_ids), sampling_params))
        fields = {"global_steps": 2 + len(self.requests)}
        return SimpleNamespace(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=fields)


class BrokenEngine:
    async def generate(self, request_id, **_):
        raise RuntimeError("engine core died")


@pytest.fixture
def make_loop(toy_world, toy_server, toy_environment, tmp_path):
    """A loop as verl would make it, around any engine."""
    from transformers import AutoTokenizer

    from legal_rl.training.agent_loop import LegalAgentLoop
    from legal_rl.training.agent_state import AgentOptions, AgentState

    tokenizer = AutoTokenizer.from_pretrained(toy_world.model)
    options = AgentOptions(
        environment=toy_environment,
        retrieval_url=toy_server.url,
        retrieval_timeout_s=2,
        retrieval_patience_s=0.5,
        dump_dir=str(tmp_path / "rollouts"),
        run_dir=str(tmp_path),
    )
    toy_server.down = False

    def make(engine):
        loop = object.__new__(LegalAgentLoop)
        loop.server_manager, loop.tokenizer, loop.state = engine, tokenizer, AgentState(options)
        loop.rollout_config = SimpleNamespace(max_model_len=512)
        return loop

    make.tokenizer = tokenizer
    return make


def row(question) -> dict:
    text = json.dumps(question_to_dict(question), ensure_ascii=False)
    return {"extra_info": {"question": text}, "global_steps": 7}


SEARCH = '<think>查第一条</think><search>{"source": "statute", "query": "第一条"}</search>'
ANSWER = "<think>看第一条</think><answer>甲罪处罚金</answer>"


async def test_a_good_rollout(make_loop, toy_question, tmp_path):
    engine = ToyEngine(make_loop.tokenizer, [SEARCH, ANSWER])
    output = await make_loop(engine).run({"temperature": 1.0}, **row(toy_question))
    first, second = engine.requests
    assert first[0] == second[0], "one conversation, one replica"
    assert first[1] == output.prompt_ids
    trained = [token for token, mask in zip(output.response_ids, output.response_mask, strict=True) if mask]
    assert trained == engine._turns[0] + engine._turns[1]
    assert second[1] == output.prompt_ids + output.response_ids[: len(second[1]) - len(output.prompt_ids)]
    assert {p for p, m in zip(output.response_logprobs, output.response_mask, strict=True) if m} == {-0.5}
    info = output.extra_fields["reward_extra_info"]
    assert (info["acc"], info["num_searches"], info["token_mismatch"], info["malformed_share"]) == (1.0, 1.0, 0.0, 0.0)
    assert output.reward_score == info["reward/total"] > 1.0
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (3, 4)
    assert (tmp_path / "rollouts" / "step_00007.jsonl").exists()


async def test_every_rollout_reports_the_same_keys(make_loop, toy_question):
    good = await make_loop(ToyEngine(make_loop.tokenizer, [SEARCH, ANSWER])).run({}, **row(toy_question))
    bad = await make_loop(ToyEngine(make_loop.tokenizer, ["乱"] * 4)).run({}, **row(toy_question))
    keys = [list(output.extra_fields["reward_extra_info"]) for output in (good, bad)]
    assert keys[0] == keys[1]
    assert bad.extra_fields["reward_extra_info"]["malformed_share"] == 1.0


async def test_an_outage_gives_an_empty_list_and_stops_the_run(make_loop, toy_question, toy_server, tmp_path):
    toy_server.down = True
    output = await make_loop(ToyEngine(make_loop.tokenizer, [SEARCH, ANSWER])).run({}, **row(toy_question))
    toy_server.down = False
    assert output == []
    assert json.loads((tmp_path / "invalid.jsonl").read_text())["reason"] == "retrieval_error"
    assert (tmp_path / "notices.txt").read_text().startswith("paused: ")
    assert "its checkpoint" in (tmp_path / "stopped.txt").read_text()


async def test_a_dead_engine_is_invalid_not_zero(make_loop, toy_question, tmp_path):
    assert await make_loop(BrokenEngine()).run({}, **row(toy_question)) == []
    entry = json.loads((tmp_path / "invalid.jsonl").read_text())
    assert entry["reason"] == "policy_error"
    assert "engine core died" in entry["detail"]
    assert not (tmp_path / "stopped.txt").exists()


async def test_a_mismatch_is_seen(make_loop, toy_question):
    from legal_rl.training.agent_loop import token_mismatch

    engine = ToyEngine(make_loop.tokenizer, [SEARCH, ANSWER])
    loop = make_loop(engine)
    await loop.run({}, **row(toy_question))
    file = next(Path(loop.state.options.dump_dir).iterdir())
    rollout = next(read_rollouts(file))
    turns = [(tuple(prompt), tuple(ids)) for (_, prompt, _), ids in zip(engine.requests, engine._turns, strict=True)]
    assert token_mismatch(rollout, turns) is False
    assert rollout.tokens is not None
    changed = list(rollout.tokens.token_ids)
    changed[-2] += 1  # as decoding and tokenising again would
    tokens = replace(rollout.tokens, token_ids=tuple(changed))
    assert token_mismatch(replace(rollout, tokens=tokens), turns) is True
    assert token_mismatch(replace(rollout, tokens=None), turns) is True
