"""`legal-rl plan`: does a configuration divide and fit, and who gets what. Arithmetic only, no GPU, no model.

A trainer GPU lives in two phases. While rollouts are sampled it holds the sharded training state and the engine;
while the policy is updated the engine sleeps (verl's `free_cache_engine`) and the activations take its place. The state
follows mixed-precision Adam under full sharding: 4 bytes of weights, 4 of gradients and 8 of moments per parameter,
divided by the ranks (Rajbhandari et al., ZeRO, stage 3), and 2 bytes per parameter of the sharded reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from legal_rl.cluster.layout import Layout
from legal_rl.cluster.model_shape import ModelShape

if TYPE_CHECKING:
    from legal_rl.config import RunConfig

GIB = 2**30
WEIGHT_BYTES, GRADIENT_BYTES, ADAM_BYTES, REFERENCE_BYTES, SERVED_BYTES = 4, 4, 8, 2, 2
ENGINE_OVERHEAD_GIB = 1.5
"""CUDA graphs, workspace and communication buffers of a vLLM engine."""
ACTIVATION_GIB_PER_BILLION = 0.8
"""Where the model's shape is not known: a coarse allowance with gradient checkpointing."""
TOKENS_PER_CHAR = 0.7
"""Of Chinese text with Qwen's tokenizer, rounded up."""
UNIT_HEAD_TOKENS = 60
"""Id, title, label and version of an evidence unit."""


@dataclass(frozen=True, slots=True)
class Share:
    """One row of the plan's table: a part, where it sits and what it takes there, in GiB per GPU."""

    part: str
    gpus: str
    note: str
    weights: float = 0.0
    optimizer: float = 0.0
    gradients: float = 0.0
    activations: float = 0.0
    kv_cache: float = 0.0
    other: float = 0.0

    @property
    def gib(self) -> float:
        return self.weights + self.optimizer + self.gradients + self.activations + self.kv_cache + self.other


@dataclass(frozen=True, slots=True)
class Work:
    """What one GRPO step asks of the hardware; from a `RunConfig` by `work_of`."""

    prompts_per_step: int
    group_size: int
    vllm_memory: float
    """Share of a trainer GPU that the rollout engine may take while it samples."""
    max_prompt_tokens: int = 2_048
    max_response_tokens: int = 6_144
    micro_batch_tokens: int = 16_384
    checkpointing: bool = True
    tensor_parallel: int = 1
    max_turns: int = 6
    turn_tokens: int = 1_024
    evidence_tokens: int = 2_000
    """Of one search: top_k units with their heads."""
    forced_answer_tokens: int = 256


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of one trajectory: what a full one would need, and what it may have."""

    prompt: int
    turns: int
    per_turn: int
    """A turn as long as allowed, and the evidence of one search."""
    needed: int
    """Every turn but the last searches, and the last one answers."""
    allowed: int
    context: int
    """Prompt and response together: what engine and trainer must hold."""
    full_searches: int
    """Searches with turns and evidence as long as they may be that fit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The table, and the problems, each with the fix named. No problem = the configuration divides and fits."""

    shares: tuple[Share, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    effective_batch: int
    """Trajectories per GRPO step."""
    tokens_per_step: int
    """Upper bound: every trajectory as long as allowed, prompts included."""
    budget: Budget
    concurrent_sequences: int
    """Trajectories of full length whose keys and values one engine holds; 0 where the model's shape is not known."""
    parameters: int
    nearest: tuple[str, ...] = ()
    """Overrides of the nearest configuration that divides and fits; empty when this one does, or none was found."""

    @property
    def ok(self) -> bool:
        return not self.problems


def work_of(run: RunConfig) -> Work:
    """The part of a configuration that the plan reads."""
    g, e = run.grpo, run.environment
    unit = round(e.evidence_chars * TOKENS_PER_CHAR) + UNIT_HEAD_TOKENS
    return Work(
        g.prompts_per_step, g.group_size, g.vllm_memory, g.max_prompt_tokens, g.max_response_tokens,
        g.tokens_per_micro_batch, g.gradient_checkpointing, g.tensor_parallel, e.max_turns, e.max_turn_tokens,
        e.top_k * unit, e.forced_answer_tokens,
    )  # fmt: skip


def plan_run(run: RunConfig, gpus: int | None = None, gpu_memory_gib: float | None = None) -> Plan:
    """Plan a run, on its own layout or on other hardware.

    Args:
        gpus: GPUs of a node; services stay on the last ones that they have, trainers take the rest.
        gpu_memory_gib: of each.

    Raises:
        ModelError: `model` is a folder whose config.json cannot be read.
    """
    layout = moved(run.layout, gpus, gpu_memory_gib)
    shape = ModelShape.of(run.model) if run.model else _tiny_shape(run)
    work = work_of(run)
    made = plan(layout, work, shape)
    return made if made.ok else replace(made, nearest=_nearest(layout, work, shape, moved_from=run.layout))


def _tiny_shape(run: RunConfig) -> ModelShape:
    """Of the policy that a run without a model builds."""
    p = run.policy
    return ModelShape(
        p.layers, p.hidden_size, p.heads, p.kv_heads, p.head_dim, p.ffn_size, p.vocab_size, True, p.max_positions
    )


def moved(layout: Layout, gpus: int | None, gpu_memory_gib: float | None) -> Layout:
    """The layout on nodes with another number or size of GPUs."""
    raw = layout.model_dump()
    if gpu_memory_gib:
        raw["gpu_memory_gib"] = gpu_memory_gib
    if gpus and gpus != layout.gpus_per_node:
        used = sorted({place.gpu for place in layout.services.values()} - set(layout.trainer_gpus))
        kept = used[: max(gpus - 1, 0)] if gpus > 1 else []
        place = {old: gpus - len(kept) + i for i, old in enumerate(kept)}
        raw["services"] = {
            name: service.model_dump() | {"gpu": place.get(service.gpu, min(service.gpu, gpus - 1))}
            for name, service in layout.services.items()
        }
        raw |= {"gpus_per_node": gpus, "trainer_gpus": tuple(range(gpus - len(kept)))}
    return Layout.model_validate(raw)


def nearest_batches(prompts: int, group_size: int, ranks: int) -> tuple[int, int]:
    """The largest prompt count below and the smallest above `prompts` whose trajectories divide over the ranks.

    >>> nearest_batches(32, 8, 3)
    (30, 33)
    """
    below = next((p for p in range(prompts, 0, -1) if p * group_size % ranks == 0), 0)
    above = next(p for p in range(max(prompts, 1), prompts + ranks + 1) if p * group_size % ranks == 0)
    return below, above


def plan(layout: Layout, work: Work, shape: ModelShape | None = None) -> Plan:
    """Check a layout against the work of a GRPO step; without a shape the layout's `billions_of_parameters` count."""
    parameters = shape.parameters if shape else round(layout.billions_of_parameters * 1e9)
    trainers = _trainer_shares(layout, work, shape, parameters)
    services = _service_shares(layout)
    budget = _budget(work)
    problems = [*_divisibility(layout, work), *_budget_problems(work, budget, shape)]
    if layout.device != "cpu":
        problems += _memory_problems(layout, trainers, services, parameters, work)
    rollout = trainers[-1]
    per_sequence = shape.kv_bytes_per_token() * budget.context / GIB if shape else 0.0
    return Plan(
        (*trainers, *services), tuple(problems), tuple(_notes(layout, work, budget, shape)),
        work.prompts_per_step * work.group_size,
        work.prompts_per_step * work.group_size * budget.context,
        budget, int(rollout.kv_cache * work.tensor_parallel / per_sequence) if per_sequence else 0, parameters,
    )  # fmt: skip


def _divisibility(layout: Layout, work: Work) -> list[str]:
    ranks, prompts, group_size = layout.num_trainers, work.prompts_per_step, work.group_size
    if group_size < 2:
        return [f"group size {group_size}: a group of one has no baseline; set grpo.group_size to 2 or more"]
    if ranks % work.tensor_parallel:
        return [f"{ranks} trainer GPUs do not divide by grpo.tensor_parallel {work.tensor_parallel}"]
    if prompts * group_size % ranks == 0:
        return []
    below, above = nearest_batches(prompts, group_size, ranks)
    options = " or ".join(str(p) for p in (below, above) if p)
    return [
        f"{prompts} prompts x {group_size} rollouts do not divide over {ranks} trainer GPUs; "
        f"set grpo.prompts_per_step to {options}"
    ]


def _trainer_shares(layout: Layout, work: Work, shape: ModelShape | None, parameters: int) -> list[Share]:
    ranks = layout.num_trainers
    gpus = ",".join(map(str, layout.trainer_gpus))
    if shape:
        active = shape.activation_bytes(work.micro_batch_tokens, work.checkpointing) / GIB
        active += 2 * shape.layer_parameters * SERVED_BYTES / GIB  # two layers gathered: one computes, one arrives
    else:
        active = ACTIVATION_GIB_PER_BILLION * layout.billions_of_parameters
    engine = work.vllm_memory * layout.gpu_memory_gib
    served = parameters * SERVED_BYTES / work.tensor_parallel / GIB
    return [
        Share(
            "trainer (FSDP2)", gpus, f"{_ranks(ranks)}; activations while the engine sleeps",
            weights=parameters * WEIGHT_BYTES / ranks / GIB, optimizer=parameters * ADAM_BYTES / ranks / GIB,
            gradients=parameters * GRADIENT_BYTES / ranks / GIB, activations=active,
        ),
        Share("reference (FSDP2)", gpus, _ranks(ranks), weights=parameters * REFERENCE_BYTES / ranks / GIB),
        Share(
            "rollout (vLLM)", gpus, f"{work.vllm_memory:.2f} of the GPU, while it samples", weights=served,
            kv_cache=max(engine - served - ENGINE_OVERHEAD_GIB, 0.0), other=min(ENGINE_OVERHEAD_GIB, engine),
        ),
    ]  # fmt: skip


def _ranks(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"


def _service_shares(layout: Layout) -> list[Share]:
    rows = []
    for name, place in layout.services.items():
        note = f"{place.fraction:.2f} of the GPU" if place.fraction is not None else "fixed size"
        total = place.gib(layout.gpu_memory_gib)
        weights = place.billions_of_parameters * 1e9 * SERVED_BYTES / GIB
        cache = max(total - weights - ENGINE_OVERHEAD_GIB, 0.0) if weights else 0.0
        rows.append(
            Share(name, str(place.gpu), note, weights=weights, kv_cache=cache, other=max(total - weights - cache, 0.0))
        )
    return rows


def _memory_problems(
    layout: Layout, trainers: list[Share], services: list[Share], parameters: int, work: Work
) -> list[str]:
    problems = []
    trainer, reference, rollout = trainers
    state = trainer.gib - trainer.activations + reference.gib
    capacity = layout.gpu_memory_gib
    for gpu in range(layout.gpus_per_node):
        beside = sum(share.gib for share in services if share.gpus == str(gpu))
        phases = {"": beside}
        if gpu in layout.trainer_gpus:
            phases = {
                " while it updates": state + trainer.activations + beside,
                " while it samples": state + work.vllm_memory * capacity + beside,
            }
        for phase, used in phases.items():
            cure = "grpo.tokens_per_micro_batch" if "updates" in phase else "grpo.vllm_memory"
            if used > capacity:
                problems.append(
                    f"GPU {gpu} would carry {used:.1f} GiB of {capacity:.0f} GiB{phase}; use more trainer GPUs, "
                    f"a smaller {cure} or another GPU for a service"
                )
    if rollout.weights + ENGINE_OVERHEAD_GIB > work.vllm_memory * capacity:
        problems.append(
            f"the rollout share of {work.vllm_memory * capacity:.1f} GiB does not hold the policy's "
            f"{rollout.weights:.1f} GiB of weights; raise grpo.vllm_memory or grpo.tensor_parallel"
        )
    for name, place in layout.services.items():
        need = place.billions_of_parameters * 1e9 * SERVED_BYTES / GIB
        if need > place.gib(capacity):
            problems.append(f"{name} needs {need:.1f} GiB for its weights but has {place.gib(capacity):.1f} GiB")
    return problems


def _budget(work: Work) -> Budget:
    per_turn = work.turn_tokens + work.evidence_tokens
    last = max(work.turn_tokens, work.forced_answer_tokens)
    needed = (work.max_turns - 1) * per_turn + last
    full = max((work.max_response_tokens - last) // per_turn, 0)
    return Budget(
        work.max_prompt_tokens, work.max_turns, per_turn, needed, work.max_response_tokens,
        work.max_prompt_tokens + work.max_response_tokens, min(full, work.max_turns - 1),
    )  # fmt: skip


def _budget_problems(work: Work, budget: Budget, shape: ModelShape | None) -> list[str]:
    problems = []
    if shape and budget.context > shape.max_positions:
        problems.append(
            f"prompt and response are {budget.context:,} tokens, the model reads {shape.max_positions:,}; "
            f"set grpo.max_response_tokens to {shape.max_positions - work.max_prompt_tokens}"
        )
    if work.max_turns > 1 and budget.full_searches < 1:
        problems.append(
            f"not one full search fits: a turn and its evidence are {budget.per_turn:,} tokens, the response has "
            f"{work.max_response_tokens:,}; raise grpo.max_response_tokens or lower environment.top_k"
        )
    if budget.context > work.micro_batch_tokens:
        problems.append(
            f"a trajectory of {budget.context:,} tokens does not fit a micro-batch of {work.micro_batch_tokens:,}; "
            f"set grpo.tokens_per_micro_batch to {budget.context}"
        )
    return problems


def _notes(layout: Layout, work: Work, budget: Budget, shape: ModelShape | None) -> Iterable[str]:
    if budget.needed > budget.allowed:
        yield (
            f"{work.max_turns} turns as long as they may be need {budget.needed:,} tokens, {budget.allowed:,} are "
            f"allowed: {budget.full_searches} such searches fit, longer trajectories are asked for their answer earlier"
        )
    if shape is None:
        yield "the model's shape is not known here: activations are a coarse allowance, the cache is not counted"
    if layout.device == "cpu":
        yield "GPUs are logical on a CPU: memory is not checked"


def _nearest(layout: Layout, work: Work, shape: ModelShape | None, moved_from: Layout) -> tuple[str, ...]:
    """Overrides of the nearest plan without a problem: fewest changes first, each tried by planning it."""
    batches = sorted(
        {b for b in nearest_batches(work.prompts_per_step, max(work.group_size, 2), layout.num_trainers) if b},
        key=lambda b: abs(b - work.prompts_per_step),
    )
    groups = [work.group_size] if work.group_size >= 2 else [8]
    fractions = sorted((f / 100 for f in range(10, 90, 5)), key=lambda f: abs(f - work.vllm_memory))
    context = work.max_prompt_tokens + work.max_response_tokens
    micros = [work.micro_batch_tokens, *(m for m in (context, *(context * k // 4 for k in (6, 8))) if m)]
    candidates = (
        replace(work, prompts_per_step=b, group_size=g, vllm_memory=f, micro_batch_tokens=m)
        for m in dict.fromkeys(micros)
        for f in (work.vllm_memory, *fractions)
        for g in groups
        for b in batches
    )
    found = next((c for c in candidates if plan(layout, c, shape).ok), None)
    if found is None:
        return ()
    names = {
        "prompts_per_step": "grpo.prompts_per_step", "group_size": "grpo.group_size",
        "vllm_memory": "grpo.vllm_memory", "micro_batch_tokens": "grpo.tokens_per_micro_batch",
    }  # fmt: skip
    changes = [
        f"{key}={getattr(found, name):g}" for name, key in names.items() if getattr(found, name) != getattr(work, name)
    ]
    return tuple(changes + _layout_overrides(layout, moved_from))


def _layout_overrides(layout: Layout, before: Layout) -> list[str]:
    """What makes a configuration's layout this one."""
    if layout == before:
        return []
    found = (
        [f"layout.gpu_memory_gib={layout.gpu_memory_gib:g}"] if layout.gpu_memory_gib != before.gpu_memory_gib else []
    )
    if layout.gpus_per_node != before.gpus_per_node:
        ranks, gpus = len(layout.trainer_gpus), ",".join(map(str, layout.trainer_gpus))
        found += [
            f"layout.gpus_per_node={layout.gpus_per_node}", f"layout.trainer_gpus=[{gpus}]",
            f"sft.n_gpus_per_node={ranks}", f"grpo.n_gpus_per_node={ranks}",
        ]  # fmt: skip
        found += [f"layout.services.{name}.gpu={place.gpu}" for name, place in layout.services.items()]
    return found
