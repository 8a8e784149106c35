"""The layout file's section: which GPU carries which part of the system, as the paper's node does it (appendix B.2).

A layout in miniature: GPUs 0-2 train and roll out, GPU 3 carries retrieval (8 GiB), Assistant (0.40) and judge (0.50)::

    gpus_per_node: 4
    gpu_memory_gib: 141
    trainer_gpus: [0, 1, 2]
    services:
      retrieval: {gpu: 3, memory_gib: 8}
      assistant: {gpu: 3, fraction: 0.40}
      reward_judge: {gpu: 3, fraction: 0.50}
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ServicePlacement(BaseModel):
    """One service's share of one GPU: a fraction of its memory, or GiB."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu: int = Field(ge=0)
    """Index of the GPU within its node."""
    fraction: float | None = Field(default=None, gt=0, le=1)
    memory_gib: float | None = Field(default=None, gt=0)
    billions_of_parameters: float = Field(default=0.0, ge=0)
    """Model size for the memory check; 0 where no model is loaded."""

    @model_validator(mode="after")
    def _one_measure(self) -> ServicePlacement:
        if (self.fraction is None) == (self.memory_gib is None):
            raise ValueError("give exactly one of fraction and memory_gib")
        return self

    def gib(self, gpu_memory_gib: float) -> float:
        """Memory in GiB on a GPU of the given size."""
        return self.memory_gib if self.memory_gib is not None else float(self.fraction or 0) * gpu_memory_gib


class Layout(BaseModel):
    """Who gets which GPU on every node. `gpus_per_node` counts logical accelerators when `device` is cpu."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: str = Field(default="cuda", pattern="^(cuda|cpu)$")
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=1, ge=1)
    gpu_memory_gib: float = Field(default=80.0, gt=0)
    trainer_gpus: tuple[int, ...] = (0,)
    billions_of_parameters: float = Field(default=8.2, gt=0)
    """Size of the policy, for the memory check."""
    services: dict[str, ServicePlacement] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _gpus_exist(self) -> Layout:
        named = [("trainer_gpus", g) for g in self.trainer_gpus] + [(n, s.gpu) for n, s in self.services.items()]
        for name, gpu in named:
            if gpu >= self.gpus_per_node:
                raise ValueError(f"{name} names GPU {gpu}, but gpus_per_node is {self.gpus_per_node}")
        if not self.trainer_gpus or len(set(self.trainer_gpus)) != len(self.trainer_gpus):
            raise ValueError("trainer_gpus must name at least one GPU, each once")
        return self

    @property
    def num_trainers(self) -> int:
        """Number of FSDP ranks over all nodes."""
        return len(self.trainer_gpus) * self.nodes
