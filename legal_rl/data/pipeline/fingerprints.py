"""Normalised texts as arrays of characters, and their exact 20-gram fingerprints (paper, appendix G.4).

Normalisation keeps letters and ideographs in one width and case and drops all else: white space, punctuation, symbols,
and numerals in every script (3, ３, 三, 叁, 万), because one number has many spellings. A fingerprint is a 64-bit hash
of 20 neighbouring characters that are left. Two different 20-grams share one with probability 2**-64, so that a library
of five million fingerprints takes one 20-gram in 3.7e12 wrongly for one of its own.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

NGRAM = 20
NUMERALS = "0123456789零〇○一二三四五六七八九十百千万亿两壹贰叁肆伍陆柒捌玖拾佰仟萬億貳參陸"
SEPARATOR = "\ue000"
"""A private character between the texts of a batch: no 20-gram that reaches over it is in any library."""

_BASE = 0x9E3779B97F4A7C15
_SPREAD = np.uint64(0xD6E8FEB86659FD93)
_CODES = 0x30000  # the planes with letters and ideographs; later ones are dropped
_POWERS = [np.uint64(pow(_BASE, n, 2**64)) for n in (1, 2, 4, 8)]

Hashes = NDArray[np.uint64]


@cache
def _table(numerals: bool) -> NDArray[np.uint32]:
    """Code point -> the code point it counts as; 0 = dropped."""
    table = np.zeros(0x110000, np.uint32)
    for code in range(_CODES):
        if not 0xD800 <= code <= 0xF8FF:  # surrogates and private use
            folded = unicodedata.normalize("NFKC", chr(code)).casefold()[:1]
            if folded and (numerals or folded not in NUMERALS) and unicodedata.category(folded)[0] in "LN":
                table[code] = ord(folded)
    table[ord(SEPARATOR)] = ord(SEPARATOR)
    return table


def characters(text: str, numerals: bool = False) -> NDArray[np.uint32]:
    """The normalised text as code points; `numerals` keeps them, for texts that differ in nothing else.

    Example: "第 ２６４ 条，Ａ" -> 第, 条, a.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kept = _table(numerals)[codes]
    return kept[kept != 0]


def fingerprints(codes: NDArray[np.uint32]) -> Hashes:
    """Hashes of all 20-grams in order, length max(0, len(codes) - 19): sums of powers, by doubling."""
    if len(codes) < NGRAM:
        return np.zeros(0, np.uint64)
    one = codes.astype(np.uint64) * _SPREAD
    one ^= one >> np.uint64(32)
    b1, b2, b4, b8 = _POWERS
    two = one[:-1] * b1 + one[1:]
    four = two[:-2] * b2 + two[2:]
    eight = four[:-4] * b4 + four[4:]
    sixteen = eight[:-8] * b8 + eight[8:]
    return sixteen[:-4] * b4 + four[16:]


def whole_fingerprint(codes: NDArray[np.uint32]) -> int:
    """One 64-bit hash of the whole normalised text, for texts too short to have 20-grams."""
    import hashlib

    return int.from_bytes(hashlib.blake2b(codes.tobytes(), digest_size=8).digest(), "little")
