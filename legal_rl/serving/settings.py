"""Settings of the serving application: which models answer, with which knowledge, under which limits.

    settings = load_serve_config("serve_cpu", ["run=runs/quickstart", "limits.max_turns=3"])

A configuration names a finished run (`run`) or its parts. What a run says of its environment and its Assistant counts
unless the file says otherwise, so that a Lawyer plays by the rules it was trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envs.env import EnvConfig
from envs.policy import ChatEndpoint
from legal_rl.config import CONFIG_FOLDER
from legal_rl.config_files import apply_override, find_named, merged, read_layers, validated
from legal_rl.errors import ConfigError
from legal_rl.evaluation.local_engine import EngineSettings
from retrieval_server.config import AssistantConfig

SERVE_FOLDER = CONFIG_FOLDER / "serve"
LAWYER_AS_JUDGE = "lawyer"
"""The Judge's name for "the Lawyer's own answer is the final one"."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(_Section):
    """Replicas of one model in our own vLLM engines, each a Ray Serve replica."""

    path: str
    """Hugging Face folder, as `legal-rl export` writes it, or a hub name."""
    engine: EngineSettings = Field(default_factory=EngineSettings)
    replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(default=0, ge=0)
    """More than `replicas`: Ray Serve adds replicas up to this number under load."""
    target_ongoing: int = Field(default=16, ge=1)
    """Generations per replica that autoscaling aims at."""
    num_cpus: float = Field(default=0.5, ge=0)
    num_gpus: float = Field(default=0.0, ge=0)
    """Share of a GPU of one replica; keep it equal to `engine.gpu_memory_utilization` on shared cards."""
    chunk_ms: float = Field(default=50.0, gt=0)
    """Sampled tokens travel in pieces of this many milliseconds: one message per token would cost more than a token."""

    @model_validator(mode="after")
    def _replicas_in_order(self) -> ModelSettings:
        if self.max_replicas and self.max_replicas < self.replicas:
            raise ValueError(f"max_replicas is {self.max_replicas}, below replicas {self.replicas}")
        return self


class JudgeSettings(_Section):
    """A Judge: a model of ours, or an OpenAI-compatible endpoint."""

    model: ModelSettings | None = None
    endpoint: ChatEndpoint | None = None
    max_tokens: int = Field(default=2048, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    enable_thinking: bool = False
    prompt: str = "judge_answer"
    evidence_chars: int = Field(default=1200, ge=20)
    """Characters of each evidence unit in the Judge's prompt."""

    @model_validator(mode="after")
    def _one_kind(self) -> JudgeSettings:
        if (self.model is None) == (self.endpoint is None):
            raise ValueError("give exactly one of model and endpoint")
        return self


class RetrievalSettings(_Section):
    """The Legal Assistant: replicas over an index folder, or a service that already runs."""

    index_dir: str = ""
    url: str = ""
    assistant: AssistantConfig = Field(default_factory=AssistantConfig)
    replicas: int = Field(default=1, ge=1)
    num_cpus: float = Field(default=0.5, ge=0)
    num_gpus: float = Field(default=0.0, ge=0)
    outage_patience_s: float = Field(default=2.0, ge=0)
    """How long one search keeps trying while the service is away; afterwards the question fails with 503."""

    @model_validator(mode="after")
    def _one_place(self) -> RetrievalSettings:
        if bool(self.index_dir) == bool(self.url):
            raise ValueError("give exactly one of index_dir and url (or `run`, which has an index)")
        return self


class LimitSettings(_Section):
    """What one caller, and all of them together, may ask for."""

    keys_file: str = ""
    """YAML written by `legal-rl serve key`: names and hashes. Empty = no key is asked for."""
    requests_per_minute: int = Field(default=600, ge=1)
    """Per key (per address without keys) and replica; a key's own number counts first."""
    concurrency: int = Field(default=64, ge=1)
    """Questions in work per key."""
    max_in_flight: int = Field(default=64, ge=1)
    """Questions in work per replica; beyond it 429 with Retry-After."""
    max_question_chars: int = Field(default=8_000, ge=1)
    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_turns: int = Field(default=8, ge=1)
    """A request may ask for fewer turns than the environment's, or for more up to this number."""
    deadline_s: float = Field(default=120.0, gt=0)
    """Of one question, all models and searches together; a request may ask for less."""
    send_timeout_s: float = Field(default=10.0, gt=0)
    """A client that takes nothing of its stream for this long is gone: its work is cancelled."""
    retry_after_s: int = Field(default=1, ge=1)
    """What refused callers are told to wait."""


class TextSettings(_Section):
    """What every answer carries, in the language of the question (paper, appendix I)."""

    disclaimer_zh: str = (
        "本回答由人工智能系统依据检索到的中国大陆法律资料生成，仅供法律专业人士检索参考，不构成法律意见；"
        "可能有误或不适用于其他法域与时点，请由执业律师核实后使用。"
    )
    disclaimer_en: str = (
        "Written by an AI system from retrieved law of mainland China, as research support for legal professionals. "
        "It is no legal advice, can be wrong, and does not hold for other jurisdictions or dates; "
        "have a qualified lawyer verify it."
    )
    disclaimer_in_content: bool = True
    """Append it to the text of chat completions; the typed answer has a field of its own either way."""


class LogSettings(_Section):
    """What is kept of questions. By default nothing is."""

    log_questions: bool = False
    redact: bool = True
    """Mask identity numbers, phone numbers, bank cards and mail addresses in logs and kept trajectories."""
    trajectories: str = ""
    """JSON Lines file that every finished rollout is appended to, for `legal-rl trace view`; empty = none."""


class ServeConfig(_Section):
    """The whole application."""

    name: str = "serve"
    run: str = ""
    """A finished run: its GRPO model, its index, its environment and its Assistant's settings."""
    model_id: str = "legal-r1"
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    lawyer: ModelSettings | None = None
    lawyer_endpoint: ChatEndpoint | None = None
    temperature: float = Field(default=0.0, ge=0)
    judges: dict[str, JudgeSettings] = Field(default_factory=dict)
    judge: str = LAWYER_AS_JUDGE
    """Who writes the final answer unless the request says otherwise: a name of `judges`, or `lawyer`."""
    retrieval: RetrievalSettings
    environment: EnvConfig = Field(default_factory=EnvConfig)
    strict_citations: bool = False
    """Ask the Judge once more when the answer cites what does not exist; the answer is then not streamed."""
    app_replicas: int = Field(default=1, ge=1)
    app_cpus: float = Field(default=0.5, ge=0)
    ready_timeout_s: float = Field(default=600.0, gt=0)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    texts: TextSettings = Field(default_factory=TextSettings)
    logs: LogSettings = Field(default_factory=LogSettings)

    @model_validator(mode="after")
    def _parts_exist(self) -> ServeConfig:
        if (self.lawyer is None) == (self.lawyer_endpoint is None):
            raise ValueError("give exactly one of lawyer and lawyer_endpoint (or `run`, which has a Lawyer)")
        known = [LAWYER_AS_JUDGE, *self.judges]
        if LAWYER_AS_JUDGE in self.judges:
            raise ValueError(f"judges: {LAWYER_AS_JUDGE!r} is the Lawyer's own answer; choose another name")
        if self.judge not in known:
            raise ValueError(f"judge {self.judge!r} is not configured; there are {', '.join(known)}")
        return self

    def models(self) -> dict[str, ModelSettings]:
        """Name -> model of our own engines: `lawyer`, and the Judges that have one."""
        found = {LAWYER_AS_JUDGE: self.lawyer} if self.lawyer else {}
        return found | {name: judge.model for name, judge in self.judges.items() if judge.model}


def load_serve_config(name: str, overrides: Sequence[str] = ()) -> ServeConfig:
    """Load, extend, override and check a serving configuration.

    Args:
        name: path of a YAML file, or the name of one in `configs/serve/`.
        overrides: `section.key=value` strings.

    Raises:
        ConfigError: unreadable file, unknown key, a missing run or a value of the wrong kind: one line.
    """

    def find(wanted: str) -> Path:
        return find_named(wanted, SERVE_FOLDER)

    path = find(name)
    raw = read_layers(path, find)
    for override in overrides:
        apply_override(raw, override)
    if raw.get("run"):
        raw = merged(_of_run(Path(str(raw["run"])).expanduser()), raw)
    return validated(ServeConfig, raw, path)


def _of_run(run: Path) -> dict[str, Any]:
    """What a finished run knows: model, index, environment, Assistant."""
    from legal_rl.config import load_config

    if not (run / "config.yaml").is_file():
        raise ConfigError(f"{run}: no finished run here (config.yaml is missing); run `make quickstart` or set `run`")
    config = load_config(str(run / "config.yaml"))
    index = config.index_path if config.knowledge.index_dir else run.resolve() / "index"
    return {
        "lawyer": {"path": str(run.resolve() / "grpo" / "model")},
        "retrieval": {"index_dir": str(index), "assistant": config.assistant.model_dump(mode="json")},
        "environment": config.environment.model_dump(mode="json"),
    }
