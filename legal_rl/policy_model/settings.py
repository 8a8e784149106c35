"""Settings of the tiny policy; unknown keys fail."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SUPPORTED_HEAD_DIMS = (32, 64, 96, 128)
"""What vLLM's attention on a CPU and Qwen3's q/k norms can both do."""


class PolicySettings(BaseModel):
    """Shape of the Qwen3 policy and of its pretraining by reading exercises."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    vocab_size: int = Field(default=3072, ge=320)
    """Upper bound, special tokens included; a small text set gives fewer."""
    layers: int = Field(default=4, ge=1)
    hidden_size: int = Field(default=128, ge=16)
    heads: int = Field(default=4, ge=1)
    kv_heads: int = Field(default=4, ge=1)
    head_dim: int = 32
    ffn_size: int = Field(default=256, ge=16)
    rope_theta: float = Field(default=1_000_000.0, gt=1)
    copying_start: bool = True
    """Begin with heads that look for copies (see `initialise`) instead of plain random ones."""
    max_positions: int = Field(default=2048, ge=64)

    minutes: float = Field(default=4.0, ge=0)
    """Wall-clock bound of the pretraining; 0 = none. A bound that is reached makes weights depend on the machine."""
    steps: int = Field(default=3000, ge=0)
    """Optimizer steps; the first bound reached ends the training, and the schedule follows the nearer one."""
    tokens_per_step: int = Field(default=2048, ge=256)
    max_length: int = Field(default=448, ge=64)
    """Row length in tokens; whole exercises are packed into rows."""
    learning_rate: float = Field(default=2e-3, gt=0)
    embedding_rate_factor: float = Field(default=3.0, gt=0)
    """The embedding, which is the output layer too, learns this many times faster."""
    warmup_steps: int = Field(default=60, ge=0)
    weight_decay: float = Field(default=0.02, ge=0)
    context_weight: float = Field(default=0.0, ge=0)
    """Loss weight of statute text that nothing in the context foretells; 0 spends no time on it."""
    nonsense_share: float = Field(default=0.6, ge=0, le=1)
    """Share of law names and repeated passages in the exercises made of words drawn uniformly from the vocabulary;
    statute text alone shows rare words too seldom for their copying to be learnt."""
    beta2: float = Field(default=0.98, gt=0, lt=1)
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """Arithmetic of the matrix products while training; weights and optimizer are float32. `auto` = bfloat16 where the
    CPU computes with it, else float32: emulated bfloat16 is several times slower than float32."""
    threads: int = Field(default=0, ge=0)
    """Torch threads; 0 = what the process has."""
    checkpoint_steps: int = Field(default=250, ge=0)
    """A killed pretraining goes on from the last multiple; 0 = no checkpoints."""
    log_steps: int = Field(default=20, ge=1)

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        if self.head_dim not in SUPPORTED_HEAD_DIMS:
            raise ValueError(
                f"head_dim {self.head_dim}: use one of {SUPPORTED_HEAD_DIMS}, vLLM's CPU attention has no other"
            )
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.max_length > self.max_positions:
            raise ValueError(f"max_length {self.max_length} exceeds max_positions {self.max_positions}")
        return self
