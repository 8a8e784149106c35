"""Edits of a corrected sentence, compared with those of the reference (LawBench 2-1; ChERRANT's method).

    sentence_edits("自首到岸", "自首到案") == {(3, 4, "案"): 1}

Source and target are aligned by an edit distance in which a substitution costs nearly as much as a deletion and an
insertion, except between punctuation marks, and in which shuffled characters can be one transposition. All cheapest
alignments count: neighbouring changes are merged into one edit, and an edit weighs as much as there are different edit
lists that contain it. Their number grows exponentially, so they are counted on the graph of alignments, not listed.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from legal_rl.evaluation.benchmarks.overlap import CHINESE_PUNCTUATION, PLACEHOLDER

Edit = tuple[int, int, str]
"""Start and end in the source, and the new text."""
Node = tuple[int, int]
"""Characters of the source and of the target that are behind us."""

SAME_KIND, BOTH_PUNCTUATION, MIXED = 1.749, 1.499, 1.998
"""Cost of a substitution; a deletion with an insertion costs 2."""
MAX_SURPLUS = 5
"""A prediction is cut to the reference's length plus this; longer ones are mostly explanations."""
MAX_LENGTH_GAP = 10
"""Beyond this difference of lengths one alignment is taken instead of all."""
NO_ERROR = "没有错误"
CHAT_ENDS = ("<|im_end|>", "<eoh>", "<eoa>", "</s>", "<|endoftext|>")

_PUNCTUATION = frozenset(CHINESE_PUNCTUATION + string.punctuation + "《")
_MATCH, _SUBSTITUTE, _INSERT, _DELETE, _SHUFFLE = 1, 2, 4, 8, 16
_SHUFFLE_BITS = 5
_TIE = 1e-9


def compare_correction(source: str, prediction: str, reference: str) -> tuple[int, int, int]:
    """Hits, false alarms and misses of one prediction, in the benchmark's weights."""
    prediction = simplified(shorten(prediction, reference))
    source, reference = simplified(source), simplified(reference)
    meant = sentence_edits(source, reference)
    said = Counter[Edit]() if prediction == NO_ERROR else sentence_edits(source, prediction)
    hits = sum(weight for edit, weight in meant.items() if edit in said)
    misses = sum(weight for edit, weight in meant.items() if edit not in said)
    return hits, sum(weight for edit, weight in said.items() if edit not in meant), misses


def f_half(hits: int, false_alarms: int, misses: int) -> float:
    """F0.5 of a corpus, rounded to four places; precision is 1 without a false alarm, recall 1 without a miss."""
    precision = hits / (hits + false_alarms) if false_alarms else 1.0
    recall = hits / (hits + misses) if misses else 1.0
    total = 0.25 * precision + recall
    return round(1.25 * precision * recall / total, 4) if total else 0.0


def shorten(prediction: str, reference: str) -> str:
    """The prediction on one line, cut to the reference's length plus `MAX_SURPLUS`; an empty one is 无内容."""
    line = prediction.replace("\n", "").replace("\t", "")
    if len(line) - len(reference) > MAX_SURPLUS:
        line = line[: len(reference) + MAX_SURPLUS]
    return line or PLACEHOLDER


def without_chat_end(sentence: str) -> str:
    """The sentence without the closing tag of a chat template."""
    for tag in CHAT_ENDS:
        sentence = sentence.removesuffix(tag)
    return sentence


def simplified(text: str) -> str:
    """Simplified characters, blanks removed."""
    return "".join(text.translate(_traditional()).split())


@cache
def _traditional() -> dict[int, int]:
    lines = (Path(__file__).parent / "traditional.txt").read_text(encoding="utf-8").splitlines()[1:]
    return {ord(pair[0]): ord(pair[1]) for line in lines for pair in line.split()}


def sentence_edits(source: str, target: str) -> Counter[Edit]:
    """Edits that turn `source` into `target`, each with the number of cheapest edit lists that contain it."""
    if source == target:
        return Counter()
    graph = _Graph(source, target, one_path=abs(len(source) - len(target)) > MAX_LENGTH_GAP)
    return graph.weighted_edits(target)


class _Graph:
    """All cheapest alignments as a graph from (0, 0) to (len(source), len(target))."""

    def __init__(self, source: str, target: str, one_path: bool) -> None:
        self.end = (len(source), len(target))
        table = _alignment_table(source, target)
        self.after: dict[Node, list[tuple[bool, bool, Node]]] = {self.end: []}
        """Node -> (keeps edits apart, is an edit of its own, next node)."""
        waiting = [self.end]
        while waiting:
            node = waiting.pop()
            steps = list(_steps_back(table, node))
            for operation, before in steps[:1] if one_path else steps:
                if before not in self.after:
                    self.after[before] = []
                    waiting.append(before)
                self.after[before].append((operation in (_MATCH, _SHUFFLE), operation == _SHUFFLE, node))
        self.nodes = sorted(self.after)
        self.runs = {node: self._run(node) for node in self.nodes}

    def _run(self, node: Node) -> set[Node]:
        """Where changes without a match in between lead to: together they are one merged edit."""
        reached: set[Node] = set()
        waiting = [node]
        while waiting:
            for apart, _, following in self.after[waiting.pop()]:
                if not apart and following not in reached:
                    reached.add(following)
                    waiting.append(following)
        return reached

    def weighted_edits(self, target: str) -> Counter[Edit]:
        """For every merged edit the number of edit lists before it times the number after it."""
        clean, changed = self._lists_before()
        clean_after, changed_after = self._lists_after()
        found: Counter[Edit] = Counter()
        for node in self.nodes:
            for _, own, following in self.after[node]:
                if own:
                    weight = (clean[node] + changed[node]) * clean_after[following]
                    found[node[0], following[0], target[node[1] : following[1]]] += weight
            for reached in self.runs[node]:
                weight = clean[node] * changed_after[reached]
                found[node[0], reached[0], target[node[1] : reached[1]]] += weight
        return Counter({edit: weight for edit, weight in found.items() if weight})

    def _lists_before(self) -> tuple[Counter[Node], Counter[Node]]:
        """Numbers of edit lists up to a node: after a match, and after a merged edit."""
        clean, changed = Counter({(0, 0): 1}), Counter[Node]()
        for node in self.nodes:
            for apart, _, following in self.after[node]:
                if apart:
                    clean[following] += clean[node] + changed[node]
            if clean[node]:
                for reached in self.runs[node]:
                    changed[reached] += clean[node]
        return clean, changed

    def _lists_after(self) -> tuple[Counter[Node], Counter[Node]]:
        """Numbers of edit lists from a node on: where an edit may follow, and where a match must."""
        clean, changed = Counter({self.end: 1}), Counter({self.end: 1})
        for node in reversed(self.nodes):
            matched = sum(clean[following] for apart, _, following in self.after[node] if apart)
            changed[node] += matched
            clean[node] += matched + sum(changed[reached] for reached in self.runs[node])
        return clean, changed


def _steps_back(table: Any, node: Node) -> Iterator[tuple[int, Node]]:
    i, j = node
    bits = int(table[i, j])
    if bits & _SHUFFLE:
        width = (bits >> _SHUFFLE_BITS) + 1
        yield _SHUFFLE, (i - width, j - width)
    if bits & _MATCH:
        yield _MATCH, (i - 1, j - 1)
    if bits & _SUBSTITUTE:
        yield _SUBSTITUTE, (i - 1, j - 1)
    if bits & _INSERT:
        yield _INSERT, (i, j - 1)
    if bits & _DELETE:
        yield _DELETE, (i - 1, j)


def _alignment_table(source: str, target: str) -> Any:
    vocabulary: dict[str, int] = {}
    rows = [[vocabulary.setdefault(ch, len(vocabulary)) for ch in text] for text in (source, target)]
    marks = np.asarray([ch in _PUNCTUATION for ch in vocabulary], dtype=np.bool_)
    a, b = (np.asarray(row, dtype=np.int32) for row in rows)
    return _fill_table(a, b, marks)


@numba.njit(cache=True)
def _fill_table(a: Any, b: Any, marks: Any) -> Any:
    """The operations, as bits, that reach each cell at the lowest cost."""
    cost = np.zeros((a.size + 1, b.size + 1))
    table = np.zeros((a.size + 1, b.size + 1), dtype=np.int32)
    surplus = np.zeros(marks.size, dtype=np.int32)
    for i in range(1, a.size + 1):
        cost[i, 0], table[i, 0] = i, _DELETE
    for j in range(1, b.size + 1):
        cost[0, j], table[0, j] = j, _INSERT
    for i in range(1, a.size + 1):
        for j in range(1, b.size + 1):
            if a[i - 1] == b[j - 1]:
                cost[i, j], table[i, j] = cost[i - 1, j - 1], _MATCH
                continue
            first, second = marks[a[i - 1]], marks[b[j - 1]]
            price = MIXED if first != second else (BOTH_PUNCTUATION if first else SAME_KIND)
            substitute = cost[i - 1, j - 1] + price
            insert, delete = cost[i, j - 1] + 1, cost[i - 1, j] + 1
            width = _shuffled(a, b, i, j, cost, surplus)
            shuffle = cost[i - 1 - width, j - 1 - width] + width if width else np.inf
            lowest = min(min(substitute, insert), min(delete, shuffle))
            cost[i, j] = lowest
            bits = 0
            if substitute <= lowest + _TIE:
                bits |= _SUBSTITUTE
            if insert <= lowest + _TIE:
                bits |= _INSERT
            if delete <= lowest + _TIE:
                bits |= _DELETE
            if shuffle <= lowest + _TIE:
                bits |= _SHUFFLE | (width << _SHUFFLE_BITS)
            table[i, j] = bits
    return table


@numba.njit(cache=True)
def _shuffled(a: Any, b: Any, i: int, j: int, cost: Any, surplus: Any) -> int:
    """How many characters more than one, back from (i, j), are the same bag in other order; 0 = none.

    `surplus` is scratch: zero on entry and on exit.
    """
    surplus[a[i - 1]] += 1
    surplus[b[j - 1]] -= 1
    unequal, width, found = 2, 1, 0
    while width < i and width < j and cost[i - width, j - width] != cost[i - 1 - width, j - 1 - width]:
        for ch, step in ((a[i - 1 - width], 1), (b[j - 1 - width], -1)):
            unequal += surplus[ch] == 0
            surplus[ch] += step
            unequal -= surplus[ch] == 0
        if unequal == 0:
            found = width
            break
        width += 1
    for back in range(min(width, min(i, j) - 1) + 1):
        surplus[a[i - 1 - back]] = 0
        surplus[b[j - 1 - back]] = 0
    return found
