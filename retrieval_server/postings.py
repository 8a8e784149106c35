"""Sparse weights by term, and the one compiled loop that sums them over a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Postings:
    """BM25 weights by term: those of term t are `weights_P[starts_T[t]:starts_T[t + 1]]`, their rows in `rows_P`.

    Example: two rows, term 0 in both, term 1 in the second::

        Postings(rows_P=[0, 1, 1], weights_P=[0.3, 0.2, 1.1], starts_T=[0, 2, 3], documents=2)
    """

    rows_P: np.ndarray
    weights_P: np.ndarray
    starts_T: np.ndarray
    documents: int = 0
    idf_T: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        df = np.diff(self.starts_T)
        object.__setattr__(self, "idf_T", np.log(1 + (self.documents - df + 0.5) / (df + 0.5)).astype(np.float32))

    def scores(self, terms_K: np.ndarray, weights_K: np.ndarray) -> np.ndarray:
        """float32 score of every row for weighted terms."""
        out_N = np.zeros(self.documents, dtype=np.float32)
        terms_K, weights_K = terms_K.astype(np.int64), weights_K.astype(np.float32)
        _accumulate()(self.rows_P, self.weights_P, self.starts_T, terms_K, weights_K, out_N)
        return out_N


@cache
def _accumulate() -> Any:
    import numba

    @numba.njit(nogil=True, cache=True)
    def accumulate(rows_P, weights_P, starts_T, terms_K, weights_K, out_N):  # pragma: no cover - compiled
        for k in range(len(terms_K)):
            weight = weights_K[k]
            for p in range(starts_T[terms_K[k]], starts_T[terms_K[k] + 1]):
                out_N[rows_P[p]] += weight * weights_P[p]

    return accumulate
