"""Settings of the Legal Assistant: what it answers with, which LLM helps it, and what the service lets through.

Unknown keys are errors. Keys for endpoints come from environment variables, never from a file::

    AssistantConfig(llm=LLMConfig(base_url="http://127.0.0.1:8001/v1", model="Qwen/Qwen3-8B"))
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from retrieval_server.types import MAX_QUERY_CHARS


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LLMConfig(_Settings):
    """An OpenAI-compatible chat endpoint (vLLM, SGLang, a vendor)."""

    base_url: str
    """Root of the API, with `/v1`."""
    model: str
    api_key_env: str = "LEGAL_RL_ASSISTANT_API_KEY"
    """Environment variable that holds the key; unset = no key, as local servers want it."""
    temperature: float = 0.0
    """Paper, appendix B.1."""
    max_retries: int = Field(default=5, ge=0)
    """Paper, appendix B.1; on connection errors, 429 and 5xx, with jitter, inside the deadline."""
    request_timeout_s: float = Field(default=20.0, gt=0)
    """Of one attempt."""
    deadline_s: float = Field(default=30.0, gt=0)
    """Of one call with all its retries."""
    max_concurrency: int = Field(default=32, ge=1)
    circuit_failures: int = Field(default=5, ge=0)
    """Calls in a row that find the endpoint away before it is left alone; 0 = it is asked every time."""
    circuit_open_s: float = Field(default=10.0, gt=0)
    """How long it is left alone before one call may try."""
    disable_thinking: bool = True
    """Sends `chat_template_kwargs: {enable_thinking: false}` (Qwen3 on vLLM); False for vendors that refuse it."""
    extra_body: dict[str, object] = Field(default_factory=dict)
    seed: int | None = 0


class AssistantConfig(_Settings):
    """How the Legal Assistant answers (paper, section 3.2.2)."""

    llm: LLMConfig | None = None
    """None: non-LLM intent rerank and extractive briefs."""
    rerank_with_llm: bool = True
    summarise_with_llm: bool = True
    ranking: Literal["fused", "learned"] = "fused"
    """Statutes that no citation names: `fused` = BM25 and dense by reciprocal rank; `learned` = words, bigrams, charges
    and everyday words, ordered by the fitted model (`ranking/`)."""
    statute_candidates: int = Field(default=30, ge=1)
    """Hybrid candidates that reach the intent rerank."""
    precedent_candidates: int = Field(default=50, ge=1)
    """Size of the candidate set C of the MMR."""
    alpha: float = Field(default=0.7, ge=0, le=1)
    """Relevance against authority in Base (paper, section 3.2.2)."""
    beta: float = Field(default=0.3, ge=0)
    """Diversity penalty of the MMR."""
    brief_chars: int = Field(default=150, ge=20)
    """Longest extractive case brief in characters."""
    brief_style: Literal["full", "compact"] = "full"
    """`compact`: court, charges and sentence only, for small policies."""
    evidence_chars: int = Field(default=1_200, ge=20)
    """Longest evidence text in characters; longer ones are cut and end with `…`."""
    rerank_chunk_chars: int = Field(default=12_000, ge=200)
    """Candidate characters in one rerank prompt; more candidates go through several prompts and a final one."""
    rerank_candidate_chars: int = Field(default=500, ge=20)
    """Characters of one candidate in a rerank prompt."""
    brief_input_chars: int = Field(default=6_000, ge=200)
    """Characters of facts, reason and result of one case in a summary prompt, together."""
    brief_max_tokens: int = Field(default=512, ge=16)
    llm_stage_deadline_s: float = Field(default=60.0, gt=0)
    """Of the whole LLM stage of one query; afterwards the hybrid order answers, marked `degraded`."""
    cache_size: int = Field(default=20_000, ge=0)
    """Remembered answers; 0 switches the cache off."""
    max_batch: int = Field(default=64, ge=1)
    """Queries that go through the index together."""
    batch_wait_ms: float = Field(default=1.0, ge=0)
    """How long the first query of a batch waits for company."""


class ServiceConfig(_Settings):
    """What the HTTP service lets through."""

    max_body_bytes: int = Field(default=16 * 1024 * 1024, ge=1)
    max_queries: int = Field(default=256, ge=1)
    """Per request."""
    max_query_chars: int = Field(default=MAX_QUERY_CHARS, ge=1)
    max_in_flight: int = Field(default=2_048, ge=1)
    """Queries accepted and not yet answered; beyond it 429 with Retry-After."""
    retry_after_s: int = Field(default=1, ge=0)
    deadline_s: float = Field(default=120.0, gt=0)
    """Of one request; afterwards 504."""
    default_top_k: int = Field(default=5, ge=1)
    """For `POST /retrieve` with `topk: null`."""
    default_source: str = "statute"
    """For `POST /retrieve` without `source`."""
    api_key_env: str = "LEGAL_RL_SERVICE_API_KEY"
    """When this variable is set, requests need `Authorization: Bearer <its value>`."""
    log_queries: bool = False
    """Write what is asked into the logs; off, they name routes, codes and times only."""
    drain_s: int = Field(default=30, ge=0)
    """How long a stopping server lets accepted requests finish."""
