"""`legal-rl plan`: does the configuration divide and fit, and who gets what. Pure arithmetic, no GPU needed.

Memory of the policy per trainer GPU follows mixed-precision Adam under full sharding: 4 bytes of parameters, 4 of
gradients and 8 of moments per weight, divided by the ranks (Rajbhandari et al., ZeRO, stage 3), 2 bytes per weight for
the sharded reference, and one unsharded bf16 copy (2 bytes per weight) in the rollout engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from legal_rl.cluster.layout import Layout

GIB = 2**30
TRAIN_BYTES, REFERENCE_BYTES, ROLLOUT_BYTES = 16, 2, 2
ACTIVATION_GIB_PER_BILLION = 0.8
"""Activations and workspace with gradient checkpointing, a few thousand tokens per micro-batch: a coarse allowance."""


@dataclass(frozen=True, slots=True)
class Share:
    """One row of the plan's table: a part, where it sits and what it takes there (GiB per GPU)."""

    part: str
    gpus: str
    gib: float
    note: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The table, and the problems, each with the fix named. No problem = the layout divides and fits."""

    shares: tuple[Share, ...]
    problems: tuple[str, ...]
    effective_batch: int
    """Trajectories per GRPO step."""

    @property
    def ok(self) -> bool:
        return not self.problems


def nearest_batches(prompts: int, group_size: int, ranks: int) -> tuple[int, int]:
    """The largest prompt count below and the smallest above `prompts` whose trajectories divide over the ranks.

    >>> nearest_batches(32, 8, 3)
    (30, 33)
    """
    below = next((p for p in range(prompts, 0, -1) if p * group_size % ranks == 0), 0)
    above = next(p for p in range(max(prompts, 1), prompts + ranks + 1) if p * group_size % ranks == 0)
    return below, above


def plan(layout: Layout, prompts_per_step: int, group_size: int, rollout_memory_fraction: float) -> Plan:
    """Check a layout against the GRPO batch.

    Args:
        prompts_per_step: questions per GRPO step over all ranks.
        group_size: rollouts per question.
        rollout_memory_fraction: share of a trainer GPU that the rollout engine may take (weights and KV cache).
    """
    problems = [*_divisibility(layout, prompts_per_step, group_size)]
    shares = [*_trainer_shares(layout, rollout_memory_fraction), *_service_shares(layout)]
    problems += _memory_problems(layout, shares, rollout_memory_fraction)
    return Plan(tuple(shares), tuple(problems), prompts_per_step * group_size)


def _divisibility(layout: Layout, prompts: int, group_size: int) -> list[str]:
    ranks = layout.num_trainers
    if group_size < 2:
        return [f"group size {group_size}: a group of one has no baseline; set grpo.group_size to 2 or more"]
    if prompts * group_size % ranks == 0:
        return []
    below, above = nearest_batches(prompts, group_size, ranks)
    options = " or ".join(str(p) for p in (below, above) if p)
    return [
        f"{prompts} prompts x {group_size} rollouts do not divide over {ranks} trainer GPUs; "
        f"set grpo.prompts_per_step to {options}"
    ]


def _trainer_shares(layout: Layout, rollout_memory_fraction: float) -> list[Share]:
    weights = layout.billions_of_parameters * 1e9
    gpus = ",".join(map(str, layout.trainer_gpus))
    state = weights * (TRAIN_BYTES + REFERENCE_BYTES) / layout.num_trainers / GIB
    state += ACTIVATION_GIB_PER_BILLION * layout.billions_of_parameters
    rollout = rollout_memory_fraction * layout.gpu_memory_gib
    return [
        Share("trainer (FSDP2)", gpus, state, f"{layout.num_trainers} ranks, parameters, Adam, reference, activations"),
        Share("rollout (vLLM)", gpus, rollout, f"{rollout_memory_fraction:.2f} of the GPU: weights and KV cache"),
    ]


def _service_shares(layout: Layout) -> list[Share]:
    rows = []
    for name, place in layout.services.items():
        note = f"{place.fraction:.2f} of the GPU" if place.fraction is not None else "fixed size"
        rows.append(Share(name, str(place.gpu), place.gib(layout.gpu_memory_gib), note))
    return rows


def _memory_problems(layout: Layout, shares: list[Share], rollout_memory_fraction: float) -> list[str]:
    if layout.device == "cpu":
        return []
    problems = []
    capacity = layout.gpu_memory_gib
    for gpu in range(layout.gpus_per_node):
        used = sum(s.gib for s in shares if str(gpu) in s.gpus.split(","))
        if used > capacity:
            problems.append(
                f"GPU {gpu} would carry {used:.1f} GiB of {capacity:.0f} GiB; "
                "use more trainer GPUs, a smaller rollout share or another GPU for a service"
            )
    weights_gib = layout.billions_of_parameters * 1e9 * ROLLOUT_BYTES / GIB
    if weights_gib > rollout_memory_fraction * capacity:
        problems.append(
            f"the rollout share of {rollout_memory_fraction * capacity:.1f} GiB does not hold the policy's "
            f"{weights_gib:.1f} GiB of weights; raise grpo.vllm_memory"
        )
    for name, place in layout.services.items():
        need = place.billions_of_parameters * 1e9 * ROLLOUT_BYTES / GIB
        if need > place.gib(capacity):
            problems.append(f"{name} needs {need:.1f} GiB for its weights but has {place.gib(capacity):.1f} GiB")
    return problems
