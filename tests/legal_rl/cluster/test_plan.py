"""The plan's arithmetic on the paper's node and on layouts that must be refused."""

import pytest
from pydantic import ValidationError

from legal_rl.cluster.layout import Layout, ServicePlacement
from legal_rl.cluster.plan import nearest_batches, plan

PAPER = Layout(
    gpus_per_node=4,
    gpu_memory_gib=141,
    trainer_gpus=(0, 1, 2),
    billions_of_parameters=8.2,
    services={
        "retrieval": ServicePlacement(gpu=3, memory_gib=8),
        "assistant": ServicePlacement(gpu=3, fraction=0.40, billions_of_parameters=8.2),
        "reward_judge": ServicePlacement(gpu=3, fraction=0.50, billions_of_parameters=8.2),
    },
)


def test_the_papers_32_by_8_over_three_gpus_is_refused_and_the_fix_named():
    result = plan(PAPER, prompts_per_step=32, group_size=8, rollout_memory_fraction=0.4)
    assert not result.ok
    assert "30 or 33" in result.problems[0]


def test_thirty_prompts_divide_and_the_papers_node_fits():
    result = plan(PAPER, prompts_per_step=30, group_size=8, rollout_memory_fraction=0.4)
    assert result.problems == ()
    assert result.effective_batch == 240
    fourth = sum(s.gib for s in result.shares if s.gpus == "3")
    assert fourth == pytest.approx(8 + 0.9 * 141)


def test_trainer_memory_is_hand_worked():
    layout = Layout(gpu_memory_gib=80, billions_of_parameters=1.0)
    trainer = plan(layout, 8, 8, 0.3).shares[0]
    assert trainer.gib == pytest.approx(18e9 / 2**30 + 0.8)


def test_a_model_too_big_for_one_gpu_is_refused():
    result = plan(Layout(gpu_memory_gib=80, billions_of_parameters=8.2), 8, 8, 0.5)
    assert any("GPU 0 would carry" in p for p in result.problems)


def test_a_rollout_share_smaller_than_the_weights_is_refused():
    result = plan(PAPER, 30, 8, 0.05)
    assert any("vllm_memory" in p for p in result.problems)


def test_a_group_of_one_is_refused():
    assert "group of one" in plan(PAPER, 30, 1, 0.4).problems[0]


@pytest.mark.parametrize(("args", "expected"), [((32, 8, 3), (30, 33)), ((32, 8, 4), (32, 32)), ((1, 8, 3), (0, 3))])
def test_nearest_batches(args, expected):
    assert nearest_batches(*args) == expected


def test_a_service_on_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ValidationError, match="names GPU 4"):
        Layout(gpus_per_node=4, services={"assistant": ServicePlacement(gpu=4, fraction=0.4)})


def test_a_service_needs_exactly_one_measure():
    with pytest.raises(ValidationError, match="exactly one"):
        ServicePlacement(gpu=0)


def test_on_cpu_memory_is_not_checked():
    assert plan(Layout(device="cpu", gpu_memory_gib=1), 8, 8, 0.3).ok
