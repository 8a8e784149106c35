"""One collection searched two ways, BM25 and dense, joined by reciprocal rank fusion: statutes and precedents alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrieval_server.batching import LRUCache
from retrieval_server.dense import DenseIndex, Encoder
from retrieval_server.fusion import RRF_K, reciprocal_rank_fusion
from retrieval_server.segmentation import Segmenter
from retrieval_server.sparse import Hits, SparseIndex

REMEMBERED_VECTORS = 4_096
"""Query vectors kept: 8 MiB with 512 dimensions."""

DEFAULT_WEIGHTS = {"bm25": 1.0, "dense": 0.2}
"""Best hit@1 of 0, 0.1 … 1 on lay questions with `fuse`; raise the dense weight with a stronger encoder."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row of the collection; `score` in (0, 1] is the fused score over the best possible one."""

    row: int
    score: float
    provenance: tuple[str, ...]


class HybridIndex:
    """Sparse and, with an encoder, dense index over the same rows.

    Args:
        weights: retriever name (bm25, dense) -> weight in the fusion.
    """

    def __init__(
        self,
        sparse: SparseIndex,
        dense: DenseIndex | None,
        segmenter: Segmenter,
        encoder: Encoder | None,
        weights: Mapping[str, float] = DEFAULT_WEIGHTS,
    ) -> None:
        self.sparse = sparse
        self.dense = dense if encoder is not None else None
        self.segmenter = segmenter
        self.encoder = encoder
        self.weights = dict(weights)
        self._vectors: LRUCache[str, np.ndarray] = LRUCache(REMEMBERED_VECTORS)

    def candidates(
        self, texts: Sequence[str], n: int, mask_N: np.ndarray | None = None, depth: int | None = None
    ) -> list[list[Candidate]]:
        """The best `n` rows of each text.

        Args:
            mask_N: bool per row; False rows are left out.
            depth: rows asked of each retriever before fusion; default 3 n, at least 50.
        """
        if not texts:
            return []
        depth = depth or max(3 * n, 50)
        found = {"bm25": self.sparse.search([self.segmenter.terms(text) for text in texts], depth, mask_N)}
        if self.dense is not None and self.encoder is not None:
            found["dense"] = self.dense.search(self.encode(texts), depth, mask_N)
        best = sum(self.weights.get(name, 1.0) for name in found) / (RRF_K + 1)
        return [self._fuse({name: hits[q] for name, hits in found.items()}, best)[:n] for q in range(len(texts))]

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, float32 of shape (len(texts), dim); those asked for lately are remembered.

        A query that is asked again with another intent, or by another rollout of its group, is encoded once. Asking for
        the queries of a batch and their intents together makes one call of the encoder.
        """
        assert self.encoder is not None
        known = {text: vector for text in texts if (vector := self._vectors.get(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            for text, vector in zip(missing, self.encoder.encode(missing), strict=True):
                known[text] = vector
                self._vectors.put(text, vector)
        return np.stack([known[text] for text in texts])

    def _fuse(self, hits: dict[str, Hits], best: float) -> list[Candidate]:
        rankings = {name: hit.rows_N.tolist() for name, hit in hits.items()}
        return [
            Candidate(row, min(1.0, score / best), names)
            for row, score, names in reciprocal_rank_fusion(rankings, self.weights)
        ]

    def similarity(self, texts: Sequence[str], rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Similarity of each text to its own rows: cosine with a dense index, else BM25 of the text.

        Returns:
            One float array per text, as long as its rows.
        """
        if not texts:
            return []
        if self.dense is not None and self.encoder is not None:
            vectors = self.encode(texts)
            return [self.dense.vectors_ND[list(r)] @ v for r, v in zip(rows, vectors, strict=True)]
        return [self.sparse.scores(self.segmenter.terms(t))[list(r)] for t, r in zip(texts, rows, strict=True)]
