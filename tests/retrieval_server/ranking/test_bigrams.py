"""Bigram BM25 against a plain loop, and the shared postings against bm25s."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_server.ranking.bigrams import K1, B, BigramIndex
from retrieval_server.sparse import SparseIndex


def by_hand(texts: list[str], query: str) -> list[float]:
    """Lucene's BM25 over bigrams of neighbouring letters, one document and one term at a time."""

    def pairs(text: str) -> list[str]:
        word = [(c.isascii() and c.isalnum()) or "\u4e00" <= c <= "\u9fff" for c in text]
        return [text[i : i + 2] for i in range(len(text) - 1) if word[i] and word[i + 1]]

    documents = [Counter(pairs(text)) for text in texts]
    mean = sum(map(Counter.total, documents)) / len(documents)
    scores = []
    for document in documents:
        norm = K1 * (1 - B + B * document.total() / max(1.0, mean))
        score = 0.0
        for term, weight in Counter(pairs(query)).items():
            df = sum(term in other for other in documents)
            if df:
                idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
                score += weight * idf * document[term] / (document[term] + norm) if document[term] else 0.0
        scores.append(score)
    return scores


ALPHABET = st.text(alphabet="盗窃财物ab1，。 ", max_size=12)


@settings(deadline=None, max_examples=50)  # the first call compiles the loop
@given(st.lists(ALPHABET, min_size=1, max_size=5), ALPHABET)
def test_scores_are_bm25(texts: list[str], query: str) -> None:
    index = BigramIndex.build(texts)
    assert index.postings.scores(*index.terms(query)) == pytest.approx(by_hand(texts, query), abs=1e-4)


def test_an_empty_collection_and_line_breaks() -> None:
    assert BigramIndex.build([]).postings.scores(*BigramIndex.build([]).terms("盗窃")).shape == (0,)
    index = BigramIndex.build(["盗\n窃", "盗窃"])  # a line break inside a text is no new row and joins nothing
    assert index.postings.scores(*index.terms("盗窃"))[0] == 0.0
    assert index.terms("\ud800盗窃")[1].tolist() == [1.0]


def test_postings_of_the_word_index_give_its_own_scores() -> None:
    documents = [["盗窃", "财物"], ["诈骗", "财物", "财物"], ["杀人"]]
    index = SparseIndex.build(documents)
    terms = np.array([index.vocabulary[t] for t in ("财物", "盗窃")])
    assert index.postings().scores(terms, np.ones(2)) == pytest.approx(index.scores(["财物", "盗窃"]))
    assert SparseIndex.build([]).postings().documents == 0
