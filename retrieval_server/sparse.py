"""BM25 over segmented text: bm25s fed with integer ids, numba for the search."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_server.postings import Postings

K1 = 1.2
B = 0.75

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hits:
    """Best rows of one query: `rows_N` (int) and `scores_N` (float), best first, only scores above zero."""

    rows_N: np.ndarray
    scores_N: np.ndarray


NO_HITS = Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


class SparseIndex:
    """A BM25 index of one collection. Terms come from `Segmenter.terms`; rows are positions in the collection.

    Args:
        model: bm25s' own index; None for an empty collection.
        vocabulary: term -> id.
    """

    def __init__(self, model: Any | None, vocabulary: dict[str, int]) -> None:
        self._model = model
        self._vocabulary = vocabulary

    @classmethod
    def build(cls, documents: Iterable[Sequence[str]], k1: float = K1, b: float = B) -> SparseIndex:
        """Indexes documents given as term lists, in one pass over them."""
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in terms] for terms in documents]
        if not vocabulary:
            return cls(None, {})
        model = _bm25(k1, b)
        model.index((ids, vocabulary), show_progress=False)
        return cls(model, vocabulary)

    def save(self, folder: Path) -> None:
        """Writes the index into `folder` (created); an empty collection leaves it empty."""
        folder.mkdir(parents=True, exist_ok=True)
        if self._model is not None:
            self._model.save(str(folder), show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> SparseIndex:
        """Opens what `save` wrote."""
        import bm25s

        if not any(folder.iterdir()):
            return cls(None, {})
        model = bm25s.BM25.load(str(folder), load_corpus=False)
        model.backend = "numba"
        _keep_compiled()
        return cls(model, {str(term): int(i) for term, i in model.vocab_dict.items() if term})

    def __len__(self) -> int:
        return 0 if self._model is None else int(self._model.scores["num_docs"])

    def search(self, queries: Sequence[Sequence[str]], n: int, mask_N: np.ndarray | None = None) -> list[Hits]:
        """The best `n` rows of each query.

        Args:
            queries: term lists; terms the index does not know count nothing.
            n: most rows per query.
            mask_N: bool per row, False rows are left out.
        """
        known = [[i for term in terms if (i := self._vocabulary.get(term)) is not None] for terms in queries]
        asked = [q for q, ids in enumerate(known) if ids]
        if self._model is None or not asked:
            return [NO_HITS] * len(queries)
        rows, scores = self._model.retrieve(
            [known[q] for q in asked],
            k=min(n, len(self)),
            sorted=True,
            show_progress=False,
            weight_mask=None if mask_N is None else mask_N.astype(np.float32),
        )
        found = {q: Hits(r[s > 0].astype(np.int64), s[s > 0]) for q, r, s in zip(asked, rows, scores, strict=True)}
        return [found.get(q, NO_HITS) for q in range(len(queries))]

    @property
    def vocabulary(self) -> dict[str, int]:
        """Term -> id; read only."""
        return self._vocabulary

    def postings(self) -> Postings:
        """The weights behind the index, by term id, for whoever scores all rows at once."""
        if self._model is None:
            rows_P, weights_P = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
            return Postings(rows_P, weights_P, np.zeros(1, dtype=np.int64))
        starts_T = np.asarray(self._model.scores["indptr"], dtype=np.int64)
        weights_P = np.asarray(self._model.scores["data"], dtype=np.float32)
        return Postings(np.asarray(self._model.scores["indices"], dtype=np.int32), weights_P, starts_T, len(self))

    def scores(self, terms: Sequence[str]) -> np.ndarray:
        """Scores of every row for one query, in row order (for tests and diagnosis)."""
        ids = [self._vocabulary[term] for term in terms if term in self._vocabulary]
        if self._model is None or not ids:
            return np.zeros(len(self), dtype=np.float32)
        return self._model.get_scores_from_ids(ids)


def _bm25(k1: float, b: float) -> Any:
    import bm25s

    _keep_compiled()
    return bm25s.BM25(k1=k1, b=b, method="lucene", backend="numba")


def _keep_compiled() -> None:
    """Lets numba keep bm25s' compiled search on disk: the first query of a process then takes 0.5 s instead of 5 s."""
    try:
        from bm25s.numba import retrieve_utils

        search: Any = retrieve_utils._retrieve_internal_jitted_serial
        search.enable_caching()
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        _LOG.debug("numba cache stays off: %s", error)
