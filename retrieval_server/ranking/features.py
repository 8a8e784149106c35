"""The candidates of one query, and cheap features of each: what the fitted model sees.

C is the axis of candidates, F of features, N of all articles. One candidate in miniature, some of its 42 columns::

    query 罪名:盗窃, article 刑法 264 -> word 1.0, bigram 0.9, charge_named 1.0, kind 0 (law), law_prior 5.1, …
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from retrieval_server.ranking.charges import CRIMINAL_LAW, ChargeTable, Ref, offence_cues
from retrieval_server.ranking.signals import Collection, Signals, best
from retrieval_server.ranking.store import RankingParts, numbered_laws
from retrieval_server.types import Article

FEATURES = (
    "word", "word_coverage", "bigram", "bigram_coverage", "lexicon", "cut", "neighbour", "law_best", "law_share",
    "title", "title_length", "charge_named", "charge_cued", "kind", "law_prior", "article_prior", "length",
    "word_rank", "bigram_rank", "mixed", "query_length", "is_fact", "has_charge", "is_criminal_law", "law_second",
    "text_bigram", "lexicon_bigram", "place", "query_bigram", "query_title", "query_gap", "asks_norm", "first_person",
    "hypothetical", "law_rank", "tight", "question", "chapter_best", "chapter_share", "body", "body_coverage",
    "body_question",
)  # fmt: skip
"""Columns of `Candidates.features_CF`, in order."""

K = TypeVar("K", bound=Hashable)

KINDS = {"law": 0, "interpretation": 1, "regulation": 2, "rule": 3}
DEPTH = 80
_RUN = 4
_MOST_RUNS = 160
"""Longer queries hold too many runs of four characters to look each up in each candidate."""

_FACT = re.compile(r"被告人|经审理查明|公诉机关|指控|审理查明|原告|被告")
_ASKS_NORM = re.compile(
    r"(?:根据|依据|按照|依照)[^，。？]{0,6}(?:哪|何|什么|法律|法规|规定)|哪[条部个][^，。？]{0,4}(?:法|规定)"
)
_FIRST_PERSON = re.compile(r"我|咱|俺")
_HYPOTHETICAL = re.compile(r"场景|假设|假如|某[^，。]{1,8}|小[明红李王张]|先生|女士")
_TITLE_NOISE = re.compile(
    r"最高人民(?:法院|检察院)|关于|适用|审理|办理|案件|应用法律|若干|问题的?|解释|规定|实施|条例|办法|暂行|具体|法$"
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows that may answer one query, and their features."""

    rows_C: np.ndarray
    features_CF: np.ndarray

    @property
    def mixed_C(self) -> np.ndarray:
        """Words and bigrams together, the order without a model."""
        return self.features_CF[:, FEATURES.index("mixed")]


class FeatureSpace:
    """What is computed once per knowledge base.

    Args:
        articles: rows in index order.
        parts: what the index folder keeps of this corpus.
    """

    def __init__(self, articles: Sequence[Article], collection: Collection, parts: RankingParts) -> None:
        self.collection = collection
        self.charges = ChargeTable(parts.charges, offence_cues())
        self._texts = [article.text for article in articles]
        law_of = numbered_laws(articles)
        chapter_of = _numbered((a.law_key, a.part, a.chapter, a.section) for a in articles)
        self._law_N = np.array([law_of[a.law_key] for a in articles], dtype=np.int32)
        self._chapter_N = np.array(
            [chapter_of[a.law_key, a.part, a.chapter, a.section] for a in articles], dtype=np.int32
        )
        self._titles = [_title_pairs(key) for key in law_of]
        self._fixed = {
            "kind": np.array([KINDS.get(a.kind, 0) for a in articles], dtype=np.float32),
            "length": np.log1p(np.array([len(a.text) for a in articles], dtype=np.float32)),
            "place": np.log1p(np.array([a.article_no or 0 for a in articles], dtype=np.float32)),
            "law_prior": parts.law_prior[self._law_N],
            "article_prior": parts.article_prior_N,
            "is_criminal_law": (self._law_N == law_of.get(CRIMINAL_LAW, -1)).astype(np.float32),
        }
        self._scale = float(np.log1p(len(articles)))
        """Weights of rare terms grow with the logarithm of the corpus."""
        self._charge_rows: dict[Ref, list[int]] = defaultdict(list)
        for row in np.flatnonzero(self._fixed["is_criminal_law"]).tolist():
            self._charge_rows[articles[row].article_no or 0, articles[row].article_sub].append(row)

    def candidates(self, query: str, mask_N: np.ndarray) -> Candidates:
        """Rows of the masked articles that may answer, in row order, and their features."""
        signals = Signals.of(query, self.collection)
        named, cued = self._rows_of(self.charges.named(query)), self._rows_of(self.charges.cued(query))
        pools = [_top(scores_N, n, mask_N) for scores_N, n in signals.pools(DEPTH)]
        rows = np.unique(np.concatenate([*pools, np.array([*named, *cued], dtype=np.int64)]))
        rows = rows[mask_N[rows]]
        columns = {
            **{name: values_N[rows] for name, values_N in self._fixed.items()},
            **_score_columns(signals, rows),
            **self._law_columns(signals.mixed_N, rows),
            **self._text_columns(query, rows),
            "text_bigram": signals.bigram_N[rows] / np.maximum(self._fixed["length"][rows], 1) / self._scale,
            "charge_named": _weights(named, rows),
            "charge_cued": _weights(cued, rows),
        }
        kinds = _query_columns(query, signals, columns, bool(named))
        kinds["query_bigram"] /= self._scale
        columns |= {name: np.full(len(rows), value) for name, value in kinds.items()}
        return Candidates(rows, np.column_stack([columns[name] for name in FEATURES]).astype(np.float32))

    def _rows_of(self, refs: Mapping[Ref, float]) -> dict[int, float]:
        return {row: weight for ref, weight in refs.items() for row in self._charge_rows.get(ref, ())}

    def _law_columns(self, mixed_N: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """How the article's law and chapter stand among the candidates, and its neighbours in the law."""
        best_C, second_C, share_C = _standing(self._law_N[rows], mixed_N[rows])
        chapter_best_C, _, chapter_share_C = _standing(self._chapter_N[rows], mixed_N[rows])
        return {
            "law_best": best_C,
            "law_second": second_C,
            "law_share": share_C,
            "law_rank": _rank(best_C * 0.7 + 0.3 * second_C),
            "chapter_best": chapter_best_C,
            "chapter_share": chapter_share_C,
            "neighbour": self._neighbours(rows, mixed_N),
        }

    def _neighbours(self, rows: np.ndarray, mixed_N: np.ndarray) -> np.ndarray:
        """The better one of the articles before and after, of the same law."""
        laws, last = self._law_N[rows], len(self._law_N) - 1
        before, after = np.maximum(rows - 1, 0), np.minimum(rows + 1, last)
        return np.maximum(
            mixed_N[before] * (self._law_N[before] == laws) * (before != rows),
            mixed_N[after] * (self._law_N[after] == laws) * (after != rows),
        )

    def _text_columns(self, query: str, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Share of the law's title in the query, its length there, and runs of the query found in the article."""
        plain = unicodedata.normalize("NFKC", query)
        pairs, runs = _pairs_of(plain), {plain[i : i + _RUN] for i in range(len(plain) - _RUN + 1)}
        laws = self._law_N[rows].tolist()
        shared = {law: len(self._titles[law] & pairs) for law in set(laws)}
        found = [
            sum(run in self._texts[row] for run in runs) if len(runs) <= _MOST_RUNS else 0 for row in rows.tolist()
        ]
        return {
            "title": np.array([shared[law] / max(1, len(self._titles[law])) for law in laws], dtype=np.float32),
            "title_length": np.array([shared[law] for law in laws], dtype=np.float32),
            "tight": np.array(found, dtype=np.float32) / max(1, len(runs)),
        }


def _score_columns(signals: Signals, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Every signal over its best score, what share of the query it covers, and the ranks of the two main ones."""
    scores = {
        "word": signals.word_N,
        "bigram": signals.bigram_N,
        "lexicon": signals.lexicon_N,
        "lexicon_bigram": signals.lexicon_bigram_N,
        "cut": signals.cut_N,
        "question": signals.question_N,
        "body": signals.body_N,
    }
    columns = {name: scores_N[rows] / best(scores_N) for name, scores_N in scores.items()}
    return columns | {
        "mixed": signals.mixed_N[rows],
        "body_question": signals.body_question_N[rows] / best(signals.body_N),
        "word_coverage": signals.word_N[rows] / max(signals.word_total, 1e-6),
        "bigram_coverage": signals.bigram_N[rows] / max(signals.bigram_total, 1e-6),
        "body_coverage": signals.body_N[rows] / max(signals.body_total, 1e-6),
        "word_rank": _rank(signals.word_N[rows]),
        "bigram_rank": _rank(signals.bigram_N[rows]),
    }


def _query_columns(
    query: str, signals: Signals, columns: Mapping[str, np.ndarray], has_charge: bool
) -> dict[str, float]:
    """What kind of query this is: the same for all its candidates."""
    return {
        "query_length": float(np.log1p(len(query))),
        "query_bigram": float(signals.bigram_N.max(initial=0)) / max(1.0, len(query)),
        "query_title": float(columns["title_length"].max(initial=0)),
        "query_gap": _gap(columns["mixed"]),
        "asks_norm": float(bool(_ASKS_NORM.search(query))),
        "first_person": float(bool(_FIRST_PERSON.search(query))),
        "hypothetical": float(bool(_HYPOTHETICAL.search(query))),
        "is_fact": float(len(query) > 60 and bool(_FACT.search(query))),
        "has_charge": float(has_charge),
    }


def _standing(groups_C: np.ndarray, scores_C: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per candidate, of its group: best score, best score of another member, share of all scores."""
    if not len(groups_C):
        nothing = np.empty(0, dtype=np.float32)
        return nothing, nothing, nothing
    _, place = np.unique(groups_C, return_inverse=True)
    top, total = np.zeros(place.max() + 1), np.bincount(place, weights=scores_C)
    np.maximum.at(top, place, scores_C)
    below = scores_C < top[place]
    second = np.zeros_like(top)
    np.maximum.at(second, place, np.where(below, scores_C, 0))
    return top[place], np.where(below, top[place], second[place]), total[place] / max(float(total.sum()), 1e-6)


def _rank(scores_C: np.ndarray) -> np.ndarray:
    """1 / rank, best 1."""
    ranks = np.empty(len(scores_C), dtype=np.float32)
    ranks[np.argsort(-scores_C, kind="stable")] = np.arange(1, len(scores_C) + 1)
    return 1 / ranks


def _gap(scores_C: np.ndarray) -> float:
    """How far the second best stays behind the best, in [0, 1]."""
    if len(scores_C) < 2:
        return 1.0
    second, first = np.partition(scores_C, -2)[-2:]
    return float(1 - second / max(float(first), 1e-6))


def _weights(weights: Mapping[int, float], rows: np.ndarray) -> np.ndarray:
    return np.array([weights.get(row, 0.0) for row in rows.tolist()], dtype=np.float32)


def _top(scores_N: np.ndarray, n: int, mask_N: np.ndarray) -> np.ndarray:
    """At most `n` masked rows with the highest scores above zero, in no order."""
    live_N = np.where(mask_N, scores_N, 0)
    n = min(n, len(live_N))
    if not n:
        return np.empty(0, dtype=np.int64)
    rows = np.argpartition(-live_N, n - 1)[:n]
    return rows[live_N[rows] > 0]


def _numbered(keys: Iterable[K]) -> dict[K, int]:
    """Distinct keys in order of appearance -> 0, 1, 2 …"""
    return {key: number for number, key in enumerate(dict.fromkeys(keys))}


def _title_pairs(key: str) -> set[str]:
    return _pairs_of(_TITLE_NOISE.sub(" ", unicodedata.normalize("NFKC", key))) or _pairs_of(key)


def _pairs_of(text: str) -> set[str]:
    return {text[i : i + 2] for i in range(len(text) - 1) if " " not in text[i : i + 2]}
