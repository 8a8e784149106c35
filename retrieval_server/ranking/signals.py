"""Scores of all articles for one query, by every signal, before any candidate is chosen. N is the axis of articles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from retrieval_server.postings import Postings
from retrieval_server.ranking.bigrams import BigramIndex
from retrieval_server.ranking.lexicon import statutory_terms
from retrieval_server.segmentation import Segmenter

_BOILERPLATE = re.compile(
    r"场景\s*[:：]|根据下列事实确定涉及的法律条文。?"
    r"|(?:根据|依据|按照)(?:以下|相关|有关|哪[一条部个项种]*|什么|何种|我国)*(?:的)?"
    r"(?:法律|法规|条款|法条|法律文件|规定|条文)+(?:的)?(?:规定|条款|要求)?"
    r"|(?:应该|应当|该)?(?:如何|怎么|怎样)(?:处理|办|应对)?(?:这种情况)?"
    r"|请问|是什么|有什么规定|有哪些|法律后果|内容是"
)
"""What a question says about itself, not about its matter."""

_CUT_TERMS = 14
_LONG_QUERY = 30
"""Terms from which on a query is cut to its informative ones."""

_NAME_IDF = 7.5
"""Rarer terms in facts are mostly names and places."""


@dataclass(frozen=True, slots=True)
class Collection:
    """The sparse indexes over one corpus: words and bigrams of the indexed text, bigrams of the bare text."""

    words: Postings
    vocabulary: Mapping[str, int]
    segmenter: Segmenter
    bigrams: BigramIndex
    bodies: BigramIndex


@dataclass(frozen=True, slots=True)
class Signals:
    """All scores of one query; the ones with `_lexicon` are zero where it holds no everyday word."""

    word_N: np.ndarray
    bigram_N: np.ndarray
    body_N: np.ndarray
    cut_N: np.ndarray
    """Informative terms only; `word_N` itself for a short query."""
    question_N: np.ndarray
    """Bigrams of the last sentence; `bigram_N` itself where there is but one."""
    body_question_N: np.ndarray
    lexicon_N: np.ndarray
    lexicon_bigram_N: np.ndarray
    mixed_N: np.ndarray
    """Words (weight 0.6) and bigrams (1.0), each over its best score."""
    word_total: float
    """Sum of the query terms' idf, as for the totals below."""
    bigram_total: float
    body_total: float
    expanded: bool

    @classmethod
    def of(cls, query: str, collection: Collection) -> Signals:
        """Scores every article."""
        text = _BOILERPLATE.sub(" ", query).strip() or query
        word_N, cut_N, word_total = _word_scores(collection, text)
        bigram_N, bigram_total = _bigram_scores(collection.bigrams, text)
        body_N, body_total = _bigram_scores(collection.bodies, text)
        question_N, body_question_N = bigram_N, body_N
        if (question := last_sentence(text)) != text:
            question_N = _bigram_scores(collection.bigrams, question)[0]
            body_question_N = _bigram_scores(collection.bodies, question)[0]
        terms = statutory_terms(text)
        zeros_N = np.zeros_like(word_N)
        return cls(
            word_N, bigram_N, body_N, cut_N, question_N, body_question_N,
            _word_scores(collection, terms)[0] if terms else zeros_N,
            _bigram_scores(collection.bigrams, terms)[0] if terms else zeros_N,
            0.6 * scaled(word_N) + scaled(bigram_N),
            word_total, bigram_total, body_total, bool(terms),
        )  # fmt: skip

    def pools(self, depth: int) -> list[tuple[np.ndarray, int]]:
        """(scores, how many of the best enter the candidates)."""
        pools = [
            (self.word_N, depth // 2),
            (self.bigram_N, depth // 2),
            (self.mixed_N, depth),
            (self.body_N, depth // 3),
        ]
        if self.expanded:
            pools += [(self.lexicon_N, depth // 3), (self.mixed_N + 0.5 * scaled(self.lexicon_N), depth)]
        if self.cut_N is not self.word_N:
            pools.append((self.cut_N, depth // 2))
        if self.question_N is not self.bigram_N:
            pools.append((self.mixed_N + 0.5 * scaled(self.question_N), depth // 2))
        return pools


def scaled(scores_N: np.ndarray) -> np.ndarray:
    """Scores over the best one."""
    return scores_N / best(scores_N)


def best(scores_N: np.ndarray) -> float:
    """The best score, never zero."""
    return max(float(scores_N.max(initial=0)), 1e-6)


def last_sentence(text: str) -> str:
    """The last sentence of a longer text, where its question stands; a short text whole."""
    sentences = [part for part in re.split(r"[。？！?!；;\n]+", text) if len(part) >= 6]
    return sentences[-1] if len(sentences) > 1 else text


def _word_scores(collection: Collection, text: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores of all rows, the scores of the informative terms alone, and the sum of the query terms' idf."""
    known = (collection.vocabulary.get(term) for term in collection.segmenter.terms(text))
    counts = Counter(term for term in known if term is not None)
    terms = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
    weights = np.minimum(np.fromiter(counts.values(), dtype=np.float32, count=len(counts)), 3)
    idf = collection.words.idf_T[terms]
    scores_N, total = collection.words.scores(terms, weights), float(idf @ weights)
    if len(terms) <= _LONG_QUERY:
        return scores_N, scores_N, total
    # Facts: names, dates and places are rare but not informative, so the most frequent rare words lead.
    lead = np.argsort(-(idf * weights * (idf < _NAME_IDF)))[:_CUT_TERMS]
    return scores_N, collection.words.scores(terms[lead], weights[lead]), total


def _bigram_scores(index: BigramIndex, text: str) -> tuple[np.ndarray, float]:
    terms, counts = index.terms(text)
    weights = np.minimum(counts, 2)
    return index.postings.scores(terms, weights), float(index.postings.idf_T[terms] @ weights)
