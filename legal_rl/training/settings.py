"""Settings of the two training stages. Defaults are the paper's (appendix B); a config file gives the CPU's values."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from legal_rl.training.rails import AlarmSettings

MaskMode = Literal["paper", "assistant"]
OverrideValue = str | int | float | bool | None | list[Any] | dict[str, Any]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HardwareSettings(_Settings):
    """Where a training stage runs; on a CPU the GPUs are logical."""

    n_gpus_per_node: int = Field(default=3, ge=1)
    nnodes: int = Field(default=1, ge=1)
    threads: int = Field(default=0, ge=0)
    """OpenMP and torch threads per process; 0 = shared out evenly over the ranks."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"


class SftSettings(HardwareSettings):
    """Evidence-masked supervised fine-tuning (paper, section 3.3)."""

    learning_rate: float = Field(default=5e-6, gt=0)
    lr_schedule: Literal["constant", "cosine"] = "cosine"
    warmup_ratio: float = Field(default=0.03, ge=0, le=1)
    weight_decay: float = Field(default=0.01, ge=0)
    betas: tuple[float, float] = (0.9, 0.95)
    clip_grad: float = Field(default=1.0, gt=0)
    epochs: int = Field(default=3, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    """Stops earlier than `epochs` would."""
    batch_size: int = Field(default=33, ge=1)
    """Trajectories per optimiser step over all ranks."""
    tokens_per_micro_batch: int = Field(default=16_384, ge=16)
    max_length: int = Field(default=8_192, ge=8)
    mask: MaskMode = "paper"
    """`paper`: m_t = 0 on retrieved evidence only. `assistant`: loss on what the Lawyer wrote only."""
    save_every: int = Field(default=-1)
    """Checkpoint every so many steps; -1 = only at the end."""
    gradient_checkpointing: bool = True
    seed: int = 1
    project: str = "legal-rl"
    experiment: str = "sft"
    wandb: bool = False
    """wandb is also used when WANDB_API_KEY is set or WANDB_MODE is `offline`."""
    overrides: dict[str, OverrideValue] = Field(default_factory=dict)
    """Handed to verl's Hydra config as they are, after everything else."""


class GrpoSettings(HardwareSettings):
    """Retrieval-aware GRPO (paper, section 3.4 and appendix B)."""

    learning_rate: float = Field(default=1e-6, gt=0)
    lr_schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    weight_decay: float = Field(default=0.01, ge=0)
    betas: tuple[float, float] = (0.9, 0.999)
    clip_grad: float = Field(default=1.0, gt=0)
    kl_coef: float = Field(default=0.08, ge=0)
    """η of the reward, as verl's KL loss coefficient."""
    clip_ratio_low: float = Field(default=0.2, gt=0)
    clip_ratio_high: float = Field(default=0.2, gt=0)
    entropy_coef: float = 0.0
    loss_aggregation: Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"] = "token-mean"
    group_size: int = Field(default=8, ge=2)
    """Rollouts per question; GRPO has no baseline in a group of one, so 1 is refused."""
    prompts_per_step: int = Field(default=30, ge=1)
    mini_batch_prompts: int | None = Field(default=None, ge=1)
    """Questions per optimiser step; None = all of a step's."""
    epochs_per_batch: int = Field(default=1, ge=1)
    epochs: int = Field(default=1, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    max_prompt_tokens: int = Field(default=2_048, ge=8)
    max_response_tokens: int = Field(default=6_144, ge=8)
    """All turns and all evidence of one trajectory."""
    tokens_per_micro_batch: int = Field(default=16_384, ge=16)
    temperature: float = Field(default=1.0, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    use_sampled_logprobs: bool = False
    """Take old log-probabilities from the sampler (needs equal numerics), saving one forward pass."""
    filter_groups: bool = True
    """Drop groups whose answer correctness plus gain does not vary (decisions: group filter)."""
    filter_metrics: tuple[str, ...] = ("acc", "gain")
    min_valid_rollouts: int = Field(default=2, ge=2)
    max_refills: int = Field(default=2, ge=0)
    """How many further batches of questions one step may draw to replace dropped groups."""
    save_every: int = -1
    """Checkpoint every so many steps; -1 = only at the end."""
    keep_checkpoints: int = Field(default=2, ge=1)
    test_every: int = -1
    val_before_train: bool = False
    max_empty_evidence: float = Field(default=0.5, ge=0, le=1)
    """Abort when more than this share of searches found nothing over `empty_evidence_window` steps."""
    empty_evidence_window: int = Field(default=3, ge=1)
    max_invalid: float = Field(default=0.2, ge=0, le=1)
    """Abort when more than this share of the rollouts of `invalid_window` steps was lost to outages and judges."""
    invalid_window: int = Field(default=10, ge=1)
    alarms: AlarmSettings = Field(default_factory=AlarmSettings)
    retrieval_patience_s: float = Field(default=600.0, ge=0)
    """How long a run waits for a retrieval server that went away before it stops."""
    retrieval_timeout_s: float = Field(default=30.0, gt=0)
    tensor_parallel: int = Field(default=1, ge=1)
    vllm_memory: float = Field(default=0.45, gt=0, lt=1)
    """Share of a GPU's memory for the rollout engine."""
    vllm_cpu_cache_gib: int = Field(default=1, ge=1)
    vllm_batch_tokens: int = Field(default=8_192, ge=64)
    vllm_max_seqs: int = Field(default=256, ge=1)
    vllm_threads: int = Field(default=0, ge=0)
    gradient_checkpointing: bool = True
    agent_workers: int = Field(default=0, ge=0)
    """Ray processes that run the environments; 0 = a thread of the trainer's own process."""
    seed: int = 1
    project: str = "legal-rl"
    experiment: str = "grpo"
    wandb: bool = False
    dump_rollouts: bool = True
    overrides: dict[str, OverrideValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _mini_batch_divides(self) -> GrpoSettings:
        mini = self.mini_batch_prompts or self.prompts_per_step
        if self.prompts_per_step % mini:
            raise ValueError(f"mini_batch_prompts ({mini}) must divide prompts_per_step ({self.prompts_per_step})")
        ranks = self.n_gpus_per_node * self.nnodes
        if (mini * self.group_size) % ranks:
            raise ValueError(
                f"{mini} prompts x {self.group_size} rollouts do not divide over {ranks} ranks; "
                f"set prompts_per_step to {_nearest_that_divide(mini, self.group_size, ranks)}"
            )
        return self


def _nearest_that_divide(prompts: int, group: int, ranks: int) -> str:
    """Numbers of prompts around `prompts` whose rollouts divide over the ranks; 32 x 8 over 3 -> "30 or 33"."""
    fitting = [n for n in range(1, prompts + ranks + 1) if (n * group) % ranks == 0]
    below, above = [n for n in fitting if n < prompts][-1:], [n for n in fitting if n > prompts][:1]
    return " or ".join(map(str, below + above))
