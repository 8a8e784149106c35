"""The whole GRPO stack on a CPU: verl on Ray, FSDP2, vLLM, our agent loop; one rank with an outage, then two ranks."""

from __future__ import annotations

import json

import pytest

from envs.records import read_rollouts
from envs.types import Provenance
from legal_rl.training.grpo import run_grpo
from legal_rl.training.metrics import TrainingError, latest_step, read_metrics
from legal_rl.training.settings import GrpoSettings, SftSettings
from legal_rl.training.sft import run_sft

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

SFT = SftSettings(
    n_gpus_per_node=1,
    dtype="float32",
    learning_rate=3e-3,
    lr_schedule="constant",
    warmup_ratio=0.0,
    batch_size=16,
    epochs=100,
    max_steps=60,
    threads=1,
    mask="assistant",
    max_length=512,
)
GRPO = GrpoSettings(
    n_gpus_per_node=1,
    dtype="float32",
    learning_rate=1e-4,
    prompts_per_step=4,
    group_size=4,
    epochs=10,
    max_steps=3,
    threads=1,
    max_prompt_tokens=192,
    max_response_tokens=320,
    vllm_batch_tokens=1024,
    vllm_max_seqs=32,
    filter_groups=False,
    retrieval_patience_s=4,
    retrieval_timeout_s=2,
)


@pytest.fixture(scope="module")
def lawyer(toy_world, tmp_path_factory):
    return run_sft(SFT, toy_world.rollouts, toy_world.model, tmp_path_factory.mktemp("sft")).model_dir


@pytest.fixture(scope="module")
def run(toy_world, toy_server, toy_environment, lawyer, tmp_path_factory):
    """The server goes away after step 2: the run pauses, stops with its checkpoint, and goes on when called again."""
    out, notices = tmp_path_factory.mktemp("grpo"), []

    def go_away(row):
        toy_server.down = row["step"] >= 2

    def train(**more):
        return run_grpo(
            GRPO,
            toy_world.questions,
            None,
            lawyer,
            out,
            toy_server.url,
            toy_environment,
            on_notice=notices.append,
            **more,
        )

    with pytest.raises(TrainingError) as outage:
        train(on_step=go_away)
    stopped_at = latest_step(out / "checkpoints")
    toy_server.down = False
    return {
        "result": train(),
        "outage": str(outage.value),
        "stopped_at": stopped_at,
        "notices": notices,
        "out": out,
    }


def test_outage_pauses_says_so_and_stops_with_the_checkpoint(run):
    assert any(notice.startswith("paused: Legal Assistant at http://") for notice in run["notices"])
    assert "checkpoint kept" in run["outage"]
    assert "\n" not in run["outage"]
    assert run["stopped_at"] == 2


def test_every_step_once(run):
    assert [row["step"] for row in read_metrics(run["out"] / "metrics.jsonl")] == [1, 2, 3]
    assert run["result"].steps == 3


def test_trained_tokens_are_the_sampled_ones(run):
    for row in read_metrics(run["out"] / "metrics.jsonl"):
        assert row["token_mismatch"] == 0.0
        assert row["training/rollout_probs_diff_mean"] < 1e-3


def test_metrics_hold_terms_and_health(run):
    row = read_metrics(run["out"] / "metrics.jsonl")[-1]
    names = "acc gain reward/total reward/fmt num_searches malformed_share forced_answer tool_seconds actor/kl_loss"
    assert set(names.split()) <= set(row)
    assert row["num_searches"] > 0, "the policy never searched: the toy SFT did not take"


def test_rollouts_of_a_step_are_dumped_with_their_tokens(run):
    rollouts = list(read_rollouts(run["out"] / "rollouts" / "step_00003.jsonl"))
    assert len(rollouts) == GRPO.prompts_per_step * GRPO.group_size
    for rollout in rollouts:
        assert rollout.tokens is not None
        sampled = [token for turn in rollout.turns for token in turn.completion.token_ids]
        record = rollout.tokens
        policy = [t for t, who in zip(record.token_ids, record.provenance, strict=True) if who == Provenance.POLICY]
        assert policy == sampled
    assert any(rollout.evidence for rollout in rollouts)


def test_outage_rollouts_are_invalid_not_zero(run):
    lines = [json.loads(line) for line in (run["out"] / "invalid.jsonl").read_text().splitlines()]
    assert lines
    assert {line["reason"] for line in lines} == {"retrieval_error"}


def test_exported_model_has_the_checkpoints_logits(run):
    assert run["result"].max_logit_difference == 0.0
    assert (run["result"].model_dir / "config.json").exists()


def test_resolved_config_lies_with_the_run(run):
    text = (run["out"] / "verl_config.yaml").read_text()
    assert "kl_loss_coef: 0.08" in text
    assert "strategy: fsdp2" in text


def test_two_ranks_train_a_step(toy_world, toy_server, toy_environment, lawyer, tmp_path):
    toy_server.down = False
    settings = GRPO.model_copy(update={"n_gpus_per_node": 2, "max_steps": 1})
    result = run_grpo(settings, toy_world.questions, None, lawyer, tmp_path / "out", toy_server.url, toy_environment)
    row = read_metrics(result.metrics_file)[0]
    assert (row["step"], row["token_mismatch"]) == (1.0, 0.0)
    assert len(list((tmp_path / "out/checkpoints/global_step_1/actor").glob("model_world_size_2_rank_*.pt"))) == 2
    assert result.max_logit_difference < 1e-5
