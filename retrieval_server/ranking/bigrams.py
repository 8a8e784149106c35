"""BM25 over character bigrams.

Bigrams see what segmentation hides (合同解除 against 解除合同, names the dictionary lacks). The whole collection is
read as one array of code points, so that 58,621 articles are indexed in two seconds without a loop over terms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from retrieval_server.postings import Postings

K1 = 1.2
B = 0.75


class BigramIndex:
    """Character bigrams of a collection.

    Args:
        codes_T: sorted codes of the bigrams; position = term.
        postings: their BM25 weights.
    """

    def __init__(self, codes_T: np.ndarray, postings: Postings) -> None:
        self.codes_T = codes_T
        self.postings = postings

    @classmethod
    def build(cls, texts: Sequence[str]) -> BigramIndex:
        """Indexes texts; row = position."""
        count = max(1, len(texts))
        chars = code_points("\n".join(text.replace("\n", " ") for text in texts))
        kept, codes = _pairs(chars)
        rows = np.cumsum(chars == 10, dtype=np.uint32)[kept]
        del chars, kept
        lengths_N = np.bincount(rows, minlength=len(texts)).astype(np.float32)
        # One sort brings equal (bigram, row) pairs together, in the order of the postings.
        keys = codes.astype(np.uint64) * np.uint64(count) + rows
        del codes, rows
        keys.sort()
        first = np.flatnonzero(np.diff(keys, prepend=keys[:1] + np.uint64(1)))
        tf = np.diff(first, append=len(keys)).astype(np.float32)
        keys = keys[first]
        codes, rows = (keys // np.uint64(count)).astype(np.uint32), (keys % np.uint64(count)).astype(np.int32)
        starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] + np.uint32(1)))
        return cls(codes[starts], _bm25(rows, tf, np.append(starts, len(codes)), lengths_N))

    def terms(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Known terms of a text and how often each stands there."""
        _, codes = _pairs(code_points(text))
        if not len(self.codes_T) or not len(codes):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        found, counts = np.unique(codes, return_counts=True)
        places = np.minimum(np.searchsorted(self.codes_T, found), len(self.codes_T) - 1)
        known = self.codes_T[places] == found
        return places[known], counts[known].astype(np.float32)


def code_points(text: str) -> np.ndarray:
    """uint32 code points after NFKC and lower-casing; what has no place in UTF-32 becomes `?`."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return np.frombuffer(plain.encode("utf-32-le", "replace"), dtype=np.uint32)


def _pairs(chars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the bigrams of neighbouring letters, digits and Han characters, and their codes."""
    word = ((chars >= 0x4E00) & (chars <= 0x9FFF)) | ((chars >= 97) & (chars <= 122)) | ((chars >= 48) & (chars <= 57))
    kept = np.flatnonzero(word[:-1] & word[1:]) if len(chars) > 1 else np.empty(0, dtype=np.int64)
    return kept, (chars[kept] << np.uint32(16)) | chars[kept + 1] if len(kept) else np.empty(0, dtype=np.uint32)


def _bm25(rows_P: np.ndarray, tf_P: np.ndarray, starts_T: np.ndarray, lengths_N: np.ndarray) -> Postings:
    """Weights in the lucene form, as in `sparse`."""
    count = len(lengths_N)
    df = np.diff(starts_T)
    idf_T = np.log(1 + (count - df + 0.5) / (df + 0.5)).astype(np.float32)
    norm_N = (K1 * (1 - B + B * lengths_N / max(1.0, float(lengths_N.mean()) if count else 1.0))).astype(np.float32)
    weights = np.repeat(idf_T, df) * tf_P / (tf_P + norm_N[rows_P])
    return Postings(rows_P, weights.astype(np.float32), starts_T.astype(np.int64), count)
