"""Settings of one benchmark run: who answers, where evidence comes from, how patient we are. Unknown keys are errors.

lawyer: {base_url: "http://127.0.0.1:8000/v1", model: legal-r1}      # or lawyer_model: runs/quickstart/grpo/model
judge: {base_url: "http://127.0.0.1:8002/v1", model: Qwen/Qwen3-8B,
        extra_body: {chat_template_kwargs: {enable_thinking: false}}}   # thoughts would use up the tokens
retrieval_url: "http://127.0.0.1:8100"                               # or index_dir: runs/quickstart/index
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.env import EnvConfig
from envs.policy import ChatEndpoint
from legal_rl.errors import ConfigError
from legal_rl.evaluation.local_engine import EngineSettings
from retrieval_server.config import AssistantConfig

RunMode = Literal[
    "plain", "judge_only", "hybrid", "rerank", "one_turn", "three_turn", "full", "oracle", "shuffled", "no_rerank",
    "no_summary",
]  # fmt: skip
"""The first seven are the paper's systems and ablations; the others are controls that it lacks."""
MODES: tuple[RunMode, ...] = get_args(RunMode)
FIXED_TURNS: dict[str, int] = {"one_turn": 1, "three_turn": 3}
WITHOUT_EVIDENCE: tuple[str, ...] = ("plain", "judge_only")
OWN_ASSISTANT: tuple[str, ...] = ("hybrid", "rerank", "no_rerank", "no_summary")
"""Modes that differ in how the Assistant works: one behind an address works as it was started."""
WITHOUT_LAWYER: tuple[str, ...] = ("plain", "judge_only", "hybrid", "rerank", "oracle", "shuffled")
"""Modes in which only the Judge writes, where there is one."""
MAX_RETRIES = 5
"""Paper, appendix B.1."""


class Endpoint(ChatEndpoint):
    """A chat endpoint with the retries and the temperature of the paper's evaluation."""

    max_retries: int = Field(default=MAX_RETRIES, ge=0)


class BenchmarkConfig(BaseModel):
    """Everything one run needs besides its mode and its data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lawyer: Endpoint | None = None
    """Plays the Lawyer over HTTP: one address may stand for many replicas (Ray Serve, vLLM)."""
    lawyer_model: str = ""
    """Or a Hugging Face folder, played by vLLM in this process."""
    lawyer_replicas: int = Field(default=1, ge=1)
    """More than one: as many copies of `lawyer_model` as actors of a Ray cluster (RAY_ADDRESS, else this machine)."""
    gpus_per_replica: float | None = Field(default=None, ge=0)
    """None = one GPU each where the cluster has any."""
    judge: Endpoint | None = None
    """Writes the final answer; without one the Lawyer's own answer counts."""
    retrieval_url: str = ""
    """Address of the Legal Assistant."""
    index_dir: str = ""
    """Or an index that is opened in this process."""
    assistant: AssistantConfig = Field(default_factory=AssistantConfig)
    """Of the Assistant in this process."""
    environment: EnvConfig = Field(default_factory=EnvConfig)
    engine: EngineSettings = Field(default_factory=EngineSettings)
    concurrency: int = Field(default=16, ge=1)
    """Samples in work at a time."""
    sample_deadline_s: float = Field(default=600.0, gt=0)
    """Of one sample with all its turns, searches and retries."""
    give_up_after: int = Field(default=50, ge=1)
    """Failures in a row, without an answer in between, after which the run stops: the service is down."""
    evidence_chars: int = Field(default=400, ge=10)
    """Characters of each evidence unit in the Judge's prompt."""
    outage_patience_s: float = Field(default=60.0, ge=0)
    """How long a search waits for a Legal Assistant that is away."""


def load_benchmark_config(path: Path | None, run: Path | None = None) -> BenchmarkConfig:
    """A YAML file, or the trained Lawyer of a finished run folder.

    Raises:
        ConfigError: the file cannot be read, or a key is unknown or wrong; one line.
    """
    values = _read(path) if path else {}
    if run is not None:
        values = _of_run(run) | values
    try:
        return BenchmarkConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path or run}: {key}: {first['msg']} (got {first['input']!r:.60})") from None


def check_mode(config: BenchmarkConfig, mode: str) -> None:
    """Refuse a mode whose parts the settings do not name."""
    if mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    if config.lawyer is None and not config.lawyer_model and config.judge is None:
        raise ConfigError("nobody answers: name `judge`, `lawyer` or `lawyer_model` in the settings")
    if mode in ("hybrid", "rerank", "oracle", "shuffled") and config.judge is None:
        raise ConfigError(f"mode {mode} gives evidence to the Judge: name `judge` in the settings")
    needs_lawyer = mode in FIXED_TURNS or mode in ("full", "no_rerank", "no_summary")
    if needs_lawyer and config.lawyer is None and not config.lawyer_model:
        raise ConfigError(f"mode {mode} needs a Lawyer: name `lawyer` or `lawyer_model` in the settings")
    if mode not in WITHOUT_EVIDENCE and not (config.retrieval_url or config.index_dir):
        raise ConfigError(f"mode {mode} retrieves: name `retrieval_url` or `index_dir` in the settings")
    if mode in OWN_ASSISTANT and not config.index_dir:
        raise ConfigError(f"mode {mode} sets the Assistant: it must run in this process, name `index_dir`")
    if mode in OWN_ASSISTANT and mode != "hybrid" and config.assistant.llm is None:
        raise ConfigError(f"mode {mode} is about the Assistant's LLM: name `assistant.llm` in the settings")
    for one, other in (("lawyer", "lawyer_model"), ("retrieval_url", "index_dir")):
        if getattr(config, one) and getattr(config, other):
            raise ConfigError(f"`{one}` and `{other}` are both set (with --run, by the run): keep one, empty the other")


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of settings")
    return values


def _of_run(run: Path) -> dict[str, Any]:
    """The Lawyer that a run trained last, with the environment and the index it was trained in."""
    from legal_rl.config import load_config

    config = load_config(str(run / "config.yaml"))
    model = next((run / stage / "model" for stage in ("grpo", "sft") if (run / stage / "model").is_dir()), None)
    if model is None:
        raise ConfigError(f"{run}: no trained model (grpo/model or sft/model); finish the run first")
    length = config.grpo.max_prompt_tokens + config.environment.max_response_tokens
    return {
        "lawyer_model": str(model),
        "index_dir": str(config.index_path if config.index_path.is_dir() else run / "index"),
        "assistant": config.assistant.model_dump(),
        "environment": config.environment.model_dump(),
        "engine": {"max_model_len": length, "seed": config.seed},
    }
