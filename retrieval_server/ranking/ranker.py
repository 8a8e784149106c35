"""Ranks the statutes of one index with the fitted model.

query ── words, bigrams, statutory terms, charges ──> about 120 candidates ── features ── trees ──> order
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval_server.ranking.features import FEATURES, Candidates, FeatureSpace
from retrieval_server.ranking.signals import Collection
from retrieval_server.ranking.store import RankingParts
from retrieval_server.ranking.trees import TreeModel, load_model
from retrieval_server.segmentation import Segmenter
from retrieval_server.sparse import SparseIndex
from retrieval_server.types import Article


@dataclass(frozen=True, slots=True)
class Ranked:
    """One row; `score` in (0, 1) is the model's probability that the article answers."""

    row: int
    score: float
    provenance: tuple[str, ...]


class StatuteRanker:
    """What `ranking: learned` searches with. Read only: safe between threads.

    Args:
        parts: what the index folder keeps of these articles.
        model: None loads the shipped one.
    """

    def __init__(
        self,
        articles: Sequence[Article],
        parts: RankingParts,
        sparse: SparseIndex,
        segmenter: Segmenter,
        model: TreeModel | None = None,
    ) -> None:
        self._model = model
        collection = Collection(sparse.postings(), sparse.vocabulary, segmenter, parts.bigrams, parts.bodies)
        self.space = FeatureSpace(articles, collection, parts)

    def warm_up(self) -> None:
        """Reads the model and compiles the loops."""
        self.rank("盗窃罪，老板欠薪", 1, np.ones(self.space.collection.words.documents, dtype=bool))

    def rank(self, text: str, n: int, mask_N: np.ndarray) -> list[Ranked]:
        """The best `n` masked rows for one query, best first."""
        found = self.space.candidates(text, mask_N)
        if not len(found.rows_C):
            return []
        scores_C = (self._model or load_model()).score(found.features_CF)
        order = np.lexsort((found.rows_C, -found.mixed_C, -scores_C))[:n]
        chances = 1 / (1 + np.exp(-scores_C[order]))
        return [
            Ranked(int(found.rows_C[c]), float(chance), _provenance(found, int(c)))
            for c, chance in zip(order, chances, strict=True)
        ]


def _provenance(found: Candidates, c: int) -> tuple[str, ...]:
    """Which signals speak for a candidate."""
    signals = {"word": "bm25", "bigram": "bigram", "lexicon": "lexicon", "charge_named": "charge", "charge_cued": "cue"}
    row = found.features_CF[c]
    return tuple(name for feature, name in signals.items() if row[FEATURES.index(feature)] > 0)
