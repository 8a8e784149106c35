"""The plan's arithmetic on the paper's node and on layouts that must be refused; model sizes against published ones."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from legal_rl.cli import main
from legal_rl.cluster.layout import Layout, ServicePlacement
from legal_rl.cluster.model_shape import ModelShape
from legal_rl.cluster.plan import GIB, Work, moved, nearest_batches, plan, plan_run, work_of
from legal_rl.config import load_config
from legal_rl.errors import ModelError

PAPER = load_config("h20_4gpu")
QWEN = ModelShape.named("Qwen/Qwen3-8B")
WORK = Work(prompts_per_step=30, group_size=8, vllm_memory=0.4)


# -- sizes of models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "kv_bytes"),
    [
        ("Qwen3-0.6B", 596_049_920, 114_688),
        ("Qwen3-8B", 8_190_735_360, 147_456),
        ("Qwen3-32B", 32_762_123_264, 262_144),
    ],
)
def test_parameters_are_the_published_ones(name: str, parameters: int, kv_bytes: int) -> None:
    shape = ModelShape.of(f"Qwen/{name}")
    assert shape is not None and shape.parameters == parameters and shape.kv_bytes_per_token() == kv_bytes


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "kv_heads", "tied"), [(4, 4, True), (4, 2, False)])
def test_parameters_are_those_of_the_library_s_model(heads: int, kv_heads: int, tied: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3Config(
        vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=32, tie_word_embeddings=tied,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config)
    count = sum(p.numel() for p in model.parameters())
    assert ModelShape.of_config(config.to_dict(), "x").parameters == count


def test_a_folder_s_config_is_read_and_a_damaged_one_named(tmp_path: Path) -> None:
    raw = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2,
        "intermediate_size": 16, "vocab_size": 10,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    shape = ModelShape.of(str(tmp_path))
    # by hand: embeddings 2 x 80, per layer 4 x 64 attention + 3 x 128 feed-forward + 16 norms, final norm 8
    assert shape is not None and shape.parameters == 160 + 2 * (256 + 384 + 16) + 8
    (tmp_path / "config.json").write_text(json.dumps(raw | {"hidden_size": None}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json lacks"):
        ModelShape.of(str(tmp_path))
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        ModelShape.of(str(tmp_path))
    assert ModelShape.of("somebody/unknown-7B") is None


# -- the plan --------------------------------------------------------------------------------------------------------


def test_the_papers_32_by_8_over_three_gpus_is_refused_and_the_fix_named() -> None:
    result = plan(PAPER.layout, replace(WORK, prompts_per_step=32), QWEN)
    assert not result.ok and "30 or 33" in result.problems[0]


def test_the_papers_node_fits() -> None:
    result = plan_run(PAPER)
    assert result.problems == () and result.nearest == ()
    assert result.effective_batch == 264 and result.tokens_per_step == 264 * 8192
    fourth = sum(share.gib for share in result.shares if share.gpus == "3")
    assert fourth < 141 and fourth == pytest.approx(8 + 0.9 * 141)


def test_trainer_memory_is_hand_worked() -> None:
    trainer, reference, rollout = plan(Layout(gpu_memory_gib=80, billions_of_parameters=1.0), WORK).shares
    assert (trainer.weights, trainer.gradients) == (pytest.approx(4e9 / GIB), pytest.approx(4e9 / GIB))
    assert trainer.optimizer == pytest.approx(8e9 / GIB) and trainer.activations == pytest.approx(0.8)
    assert reference.gib == pytest.approx(2e9 / GIB)
    assert rollout.gib == pytest.approx(0.4 * 80) and rollout.weights == pytest.approx(2e9 / GIB)


def test_activations_and_cache_are_hand_worked() -> None:
    shape = ModelShape(2, 8, 2, 1, 4, 16, 10, True, qk_norm=False)
    # logits 2 x 3 x 10 x 4; kept 3 x 8 x 2 x 2; a layer 3 x (16 x 8 + 4 x 16) x 2
    assert shape.activation_bytes(3, checkpointing=True) == 240 + 96 + 1152
    assert shape.activation_bytes(3, checkpointing=False) == 240 + 2 * 1152
    assert shape.kv_bytes_per_token() == 2 * 2 * 1 * 4 * 2


def test_sequences_in_one_engine_follow_from_its_cache() -> None:
    result = plan(PAPER.layout, work_of(PAPER), QWEN)
    rollout = result.shares[2]
    assert result.concurrent_sequences == int(rollout.kv_cache * GIB // (147_456 * 8192))


def test_a_model_too_big_for_one_gpu_is_refused_in_each_phase() -> None:
    result = plan(Layout(gpu_memory_gib=80), WORK, QWEN)
    assert any("GPU 0 would carry" in p and "while it updates" in p for p in result.problems)
    assert any("while it samples" in p for p in result.problems)


def test_a_rollout_share_smaller_than_the_weights_is_refused() -> None:
    assert any("vllm_memory" in p for p in plan(PAPER.layout, replace(WORK, vllm_memory=0.05), QWEN).problems)


def test_a_group_of_one_is_refused() -> None:
    assert "group of one" in plan(PAPER.layout, replace(WORK, group_size=1), QWEN).problems[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_response_tokens": 60_000, "micro_batch_tokens": 70_000}, "the model reads 40,960"),
        ({"max_response_tokens": 2_000}, "not one full search fits"),
        ({"micro_batch_tokens": 4_096}, "set grpo.tokens_per_micro_batch to 8192"),
        ({"tensor_parallel": 2}, "do not divide by grpo.tensor_parallel 2"),
    ],
)
def test_a_context_that_cannot_be_is_refused(change: dict[str, int], message: str) -> None:
    assert any(message in p for p in plan(PAPER.layout, replace(WORK, **change), QWEN).problems)


def test_the_context_budget_is_hand_worked() -> None:
    work = replace(
        WORK, max_turns=3, turn_tokens=100, evidence_tokens=50, forced_answer_tokens=30, max_response_tokens=300
    )
    budget = plan(PAPER.layout, work, QWEN).budget
    assert (budget.per_turn, budget.needed, budget.full_searches, budget.context) == (150, 400, 1, 2348)


@pytest.mark.parametrize(
    ("gpus", "memory", "trainers", "services"),
    [(8, 96.0, tuple(range(7)), {7}), (2, 141.0, (0,), {1}), (1, 300.0, (0,), {0}), (None, 80.0, (0, 1, 2), {3})],
)
def test_other_hardware(gpus: int | None, memory: float, trainers: tuple[int, ...], services: set[int]) -> None:
    layout = moved(PAPER.layout, gpus, memory)
    assert layout.trainer_gpus == trainers and {place.gpu for place in layout.services.values()} == services
    assert layout.gpu_memory_gib == memory


@pytest.mark.parametrize(("gpus", "memory"), [(8, 96.0), (4, 80.0), (6, 96.0), (11, 96.0)])
def test_the_nearest_plan_passes(gpus: int, memory: float) -> None:
    refused = plan_run(PAPER, gpus, memory)
    assert not refused.ok and refused.nearest
    batch = next((o for o in refused.nearest if "prompts_per_step" in o), "")
    assert plan_run(load_config("h20_4gpu", list(refused.nearest))).ok, (refused.nearest, batch)


def test_where_nothing_fits_no_plan_is_made_up() -> None:
    assert plan_run(PAPER, 2, 24.0).nearest == ()


def test_on_a_cpu_memory_is_not_checked_and_the_tiny_policy_is_counted() -> None:
    result = plan_run(load_config("quickstart"))
    assert result.ok and 900_000 < result.parameters < 1_300_000


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_json_and_refuses_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "h20_4gpu", "--gpus", "4", "--gpu-memory", "80", "--json"])
    body = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1 and body["ok"] is False and "grpo.vllm_memory=0.4" in body["nearest"]
    assert {"weights", "optimizer", "gradients", "activations", "kv_cache", "gib"} <= set(body["shares"][0])


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "h20_4gpu"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and "divides and fits" in shown and "8.19 billion parameters" in shown


def test_the_command_needs_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'ray', 'verl', 'vllm', 'transformers', 'faiss', 'datasets'): sys.modules[name] = None\n"
        "from legal_rl.cli import main\nmain(['plan', 'h20_4gpu', '--json'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-1500:]
    assert json.loads(done.stdout)["ok"] is True


# -- the layout ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "expected"), [((32, 8, 3), (30, 33)), ((32, 8, 4), (32, 32)), ((1, 8, 3), (0, 3))])
def test_nearest_batches(args: tuple[int, int, int], expected: tuple[int, int]) -> None:
    assert nearest_batches(*args) == expected


def test_a_service_on_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValidationError, match="names GPU 4"):
        Layout(gpus_per_node=4, services={"assistant": ServicePlacement(gpu=4, fraction=0.4)})


def test_a_service_needs_exactly_one_measure() -> None:
    with pytest.raises(ValidationError, match="exactly one"):
        ServicePlacement(gpu=0)
