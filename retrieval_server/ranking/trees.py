"""The fitted model: boosted trees over `features.FEATURES`, read from `model.json` (`fit_ranker.py` makes it).

Small on purpose: a few thousand numbers, evaluated by one compiled loop, no learning library needed to serve.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from retrieval_server.errors import IndexStateError
from retrieval_server.ranking.features import FEATURES


@dataclass(frozen=True, slots=True)
class TreeModel:
    """Nodes of all trees one after the other, M in number; a leaf has feature -1. Example: two leaves under one split::

    feature_M=[0, -1, -1], threshold_M=[0.5, 0, 0], left_M=[1, 0, 0], right_M=[2, 0, 0], value_M=[0, -1.0, 2.0]
    """

    feature_M: np.ndarray
    threshold_M: np.ndarray
    left_M: np.ndarray
    right_M: np.ndarray
    value_M: np.ndarray
    roots_R: np.ndarray
    base: float = 0.0
    """Added to every score: the log-odds of an average candidate."""
    mixed_weight: float = 0.0
    """Weight of the plain mix of words and bigrams beside the trees: it keeps unseen kinds of queries sane."""

    def score(self, features_CF: np.ndarray) -> np.ndarray:
        """Higher is better; one float per row of features."""
        out_C = np.zeros(len(features_CF), dtype=np.float64)
        _walk()(
            features_CF.astype(np.float32), self.feature_M, self.threshold_M, self.left_M, self.right_M,
            self.value_M, self.roots_R, out_C,
        )  # fmt: skip
        return self.base + out_C + self.mixed_weight * features_CF[:, FEATURES.index("mixed")]


@cache
def load_model() -> TreeModel:
    """The shipped model.

    Raises:
        IndexStateError: it was fitted for other features.
    """
    record = json.loads((files("retrieval_server.ranking") / "model.json").read_text(encoding="utf-8"))
    if tuple(record["features"]) != FEATURES:
        raise IndexStateError("ranking/model.json: fitted for other features; run `python benchmarks/fit_ranker.py`")
    return model_of(record)


def model_of(record: dict[str, Any]) -> TreeModel:
    """A model from the fields of `model.json`."""
    return TreeModel(
        np.array(record["feature"], dtype=np.int32),
        np.array(record["threshold"], dtype=np.float32),
        np.array(record["left"], dtype=np.int32),
        np.array(record["right"], dtype=np.int32),
        np.array(record["value"], dtype=np.float32),
        np.array(record["roots"], dtype=np.int32),
        float(record["base"]),
        float(record["mixed_weight"]),
    )


@cache
def _walk() -> Any:
    import numba

    @numba.njit(nogil=True, cache=True)
    def walk(features_CF, feature_M, threshold_M, left_M, right_M, value_M, roots_R, out_C):  # pragma: no cover
        for c in range(features_CF.shape[0]):
            total = 0.0
            for r in range(len(roots_R)):
                node = roots_R[r]
                while feature_M[node] >= 0:
                    left = features_CF[c, feature_M[node]] <= threshold_M[node]
                    node = left_M[node] if left else right_M[node]
                total += value_M[node]
            out_C[c] = total

    return walk
