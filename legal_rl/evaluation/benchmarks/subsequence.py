"""Longest common subsequences of word lists, compiled: the slow part of ROUGE-L on essays of a thousand words.

lcs_length(["甲", "乙", "丙"], ["甲", "丙"]) == 2
lcs_trace(["甲", "乙", "丙"], ["甲", "丙"]) == (["甲", "丙"], 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    a, b = _numbers(first, second)
    return int(_length(a, b))


def lcs_trace(reference: Sequence[str], prediction: Sequence[str]) -> tuple[list[str], int]:
    """One longest common subsequence, traced back from the ends, and the number of steps of the trace.

    Where a word of the reference and one of the prediction differ, the trace goes back in the reference only if that
    alone keeps the length, else in the prediction: which of several subsequences comes out depends on this rule.
    """
    a, b = _numbers(reference, prediction)
    taken, steps = _trace(a, b)
    return [reference[i] for i in range(len(reference)) if taken[i]], int(steps)


def _numbers(first: Sequence[str], second: Sequence[str]) -> tuple[Any, Any]:
    """Both word lists as numbers of one vocabulary."""
    vocabulary: dict[str, int] = {}
    lists = [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in (first, second)]
    return np.asarray(lists[0], dtype=np.int32), np.asarray(lists[1], dtype=np.int32)


@numba.njit(cache=True)
def _length(a: Any, b: Any) -> Any:
    row = np.zeros(b.size + 1, dtype=np.int32)
    for i in range(a.size):
        diagonal = 0
        for j in range(1, b.size + 1):
            above = row[j]
            if a[i] == b[j - 1]:
                row[j] = diagonal + 1
            elif row[j - 1] > above:
                row[j] = row[j - 1]
            diagonal = above
    return row[b.size]


@numba.njit(cache=True)
def _trace(a: Any, b: Any) -> tuple[Any, int]:
    table = np.zeros((a.size + 1, b.size + 1), dtype=np.int32)
    for i in range(1, a.size + 1):
        for j in range(1, b.size + 1):
            if a[i - 1] == b[j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    taken = np.zeros(a.size, dtype=np.bool_)
    i, j, steps = a.size, b.size, 0
    while i > 0 and j > 0:
        steps += 1
        if a[i - 1] == b[j - 1]:
            taken[i - 1] = True
            i, j = i - 1, j - 1
        elif table[i - 1, j] > table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return taken, steps
