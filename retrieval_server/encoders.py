"""An encoder behind an OpenAI-compatible `/v1/embeddings` endpoint.

    encoder = make_encoder("openai:bge-m3@http://127.0.0.1:8003/v1")
    encoder.encode(["盗窃", "诈骗"])        # float32 of shape (2, dim), rows of length 1

The key is in LEGAL_RL_ENCODER_API_KEY; unset = none, as local servers want it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from retrieval_server.chat import is_local
from retrieval_server.errors import IndexStateError, RetrievalError

KEY_VARIABLE = "LEGAL_RL_ENCODER_API_KEY"
BATCH = 64
MAX_RETRIES = 5
REQUEST_TIMEOUT_S = 30.0
MAX_CHARS = 2_000
"""Texts are cut to this length: embedding models read a few hundred tokens."""


class EndpointEncoder:
    """Texts -> unit vectors by an endpoint; connection errors, 429, 5xx and slow answers are asked again.

    Args:
        max_retries: with exponential pauses and jitter.
        timeout_s: of one attempt.

    Raises (from `encode` and `dim`):
        RetrievalError: no usable answer after all retries; an outage is never an empty or a zero vector.
    """

    def __init__(
        self, model: str, base_url: str, max_retries: int = MAX_RETRIES, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self.spec = f"openai:{model}@{base_url}"
        self.model, self.base_url, self.max_retries, self.timeout_s = model, base_url, max_retries, timeout_s

    @property
    def version(self) -> str:
        return "embeddings endpoint 1"

    @cached_property
    def _dim(self) -> int:
        return len(self._ask(["法"])[0])

    @property
    def dim(self) -> int:
        """Asked of the endpoint once."""
        return self._dim

    @cached_property
    def _client(self) -> Any:
        import httpx

        key = os.environ.get(KEY_VARIABLE)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(
            base_url=self.base_url, timeout=self.timeout_s, headers=headers, trust_env=not is_local(self.base_url)
        )

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), BATCH):
            part = [text[:MAX_CHARS] or " " for text in texts[start : start + BATCH]]
            vectors[start : start + len(part)] = self._ask(part)
        return vectors

    def _ask(self, texts: list[str]) -> np.ndarray:
        import httpx
        import tenacity

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((_PassingError, httpx.TransportError)),
            stop=tenacity.stop_after_attempt(self.max_retries + 1),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5.0),
            reraise=True,
        )
        try:
            return retrying(self._once, texts)
        except (_PassingError, httpx.HTTPError, ValueError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise RetrievalError(f"encoder {self.model} at {self.base_url} failed: {reason}") from error

    def _once(self, texts: list[str]) -> np.ndarray:
        answer = self._client.post("/embeddings", json={"model": self.model, "input": texts})
        if answer.status_code == 429 or answer.status_code >= 500:
            raise _PassingError(f"status {answer.status_code}")
        if answer.status_code != 200:
            raise ValueError(f"status {answer.status_code}: {answer.text[:120]}")
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            vectors = np.asarray([row["embedding"] for row in rows], dtype=np.float32)
        except (ValueError, KeyError, TypeError) as error:
            raise _PassingError(f"an answer that holds no embeddings ({type(error).__name__})") from error
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: np.ndarray, count: int) -> np.ndarray:
        known = self.__dict__.get("_dim")
        if vectors.ndim != 2 or len(vectors) != count or (known is not None and vectors.shape[1] != known):
            raise ValueError(f"vectors of shape {vectors.shape} for {count} texts of {known or 'unknown'} dimensions")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise ValueError("a vector is zero or not finite")
        return vectors / lengths

    def __getstate__(self) -> dict[str, Any]:
        """Connections do not travel to other processes."""
        return {name: value for name, value in self.__dict__.items() if name != "_client"}


class _PassingError(Exception):
    """Worth another attempt."""


def endpoint_encoder(spec: str) -> EndpointEncoder:
    """`openai:MODEL@URL`; raises `IndexStateError` for anything else."""
    model, separator, url = spec.removeprefix("openai:").rpartition("@")
    if not separator or not model or not url.startswith(("http://", "https://")):
        raise IndexStateError(
            f"encoder {spec!r}: write openai:MODEL@URL, such as openai:bge-m3@http://127.0.0.1:8003/v1"
        )
    return EndpointEncoder(model, url.rstrip("/"))
