"""BM25 against an independent implementation, and the cases a real corpus brings."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.segmentation import Segmenter
from retrieval_server.sparse import K1, B, SparseIndex

TEXTS = [
    "盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金。",
    "以暴力、胁迫或者其他方法抢劫公私财物的，处三年以上十年以下有期徒刑，并处罚金。",
    "诈骗公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金。",
    "故意伤害他人身体的，处三年以下有期徒刑、拘役或者管制。",
    "机动车发生交通事故造成损害的，依照道路交通安全法律和本法的有关规定承担赔偿责任。",
    "因抢劫致人重伤的，处十年以上有期徒刑。抢劫、抢劫。",
]
QUERIES = ["盗窃数额较大", "抢劫公私财物", "交通事故赔偿责任", "有期徒刑", "管制 管制 拘役"]
SEGMENTER = Segmenter()


@pytest.fixture(scope="module")
def index() -> SparseIndex:
    return SparseIndex.build([SEGMENTER.terms(text) for text in TEXTS])


def okapi(query: list[str], documents: list[list[str]]) -> list[float]:
    """Lucene's BM25 by its formula, written out once more."""
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        counts, score = Counter(document), 0.0
        for term in query:
            df = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            norm = K1 * (1 - B + B * len(document) / average)
            score += idf * counts[term] / (counts[term] + norm)
        scores.append(score)
    return scores


@pytest.mark.parametrize("query", QUERIES)
def test_scores_follow_the_formula(index: SparseIndex, query: str) -> None:
    documents = [SEGMENTER.terms(text) for text in TEXTS]
    assert index.scores(SEGMENTER.terms(query)) == pytest.approx(okapi(SEGMENTER.terms(query), documents), abs=1e-5)


def test_scores_agree_with_rank_bm25(index: SparseIndex) -> None:
    """rank-bm25 has another idf and the factor (k1 + 1): with its idf taken out, the term weights are the same."""
    rank_bm25 = pytest.importorskip("rank_bm25")
    documents = [SEGMENTER.terms(text) for text in TEXTS]
    other = rank_bm25.BM25Okapi(documents, k1=K1, b=B)
    for term in ("抢劫", "盗窃", "赔偿", "数额较大"):
        df = sum(term in document for document in documents)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        theirs = other.get_scores([term]) / other.idf[term] / (K1 + 1)
        assert index.scores([term]) / idf == pytest.approx(theirs, abs=1e-5)
        assert max(index.scores([term])) > 0


@pytest.mark.parametrize("query", QUERIES)
def test_search_returns_the_best_scores_in_order(index: SparseIndex, query: str) -> None:
    terms = SEGMENTER.terms(query)
    (hits,) = index.search([terms], 3)
    expected = sorted((s for s in index.scores(terms) if s > 0), reverse=True)[:3]
    assert hits.scores_N.tolist() == pytest.approx(expected, abs=1e-5)
    assert index.scores(terms)[hits.rows_N].tolist() == pytest.approx(hits.scores_N.tolist(), abs=1e-5)


def test_many_queries_at_once_equal_one_by_one(index: SparseIndex) -> None:
    terms = [SEGMENTER.terms(query) for query in QUERIES]
    together = index.search([*terms, [], ["没有这个词"]], 4)
    assert [h.rows_N.tolist() for h in together[:-2]] == [index.search([t], 4)[0].rows_N.tolist() for t in terms]
    assert [len(h.rows_N) for h in together[-2:]] == [0, 0]


def test_mask_leaves_rows_out(index: SparseIndex) -> None:
    mask = np.array([True, True, False, True, True, True])
    (hits,) = index.search([SEGMENTER.terms("数额较大")], 6, mask)
    assert hits.rows_N.tolist() == [0]


def test_saving_and_loading_changes_nothing(index: SparseIndex, tmp_path: Path) -> None:
    index.save(tmp_path / "bm25")
    loaded = SparseIndex.load(tmp_path / "bm25")
    terms = SEGMENTER.terms(QUERIES[0])
    assert loaded.scores(terms).tolist() == index.scores(terms).tolist()
    assert len(loaded) == len(TEXTS)


def test_an_empty_collection_finds_nothing(tmp_path: Path) -> None:
    empty = SparseIndex.build([])
    empty.save(tmp_path / "bm25")
    loaded = SparseIndex.load(tmp_path / "bm25")
    assert len(loaded) == 0
    assert loaded.search([["盗窃"]], 5)[0].rows_N.tolist() == []
    assert loaded.scores(["盗窃"]).tolist() == []
