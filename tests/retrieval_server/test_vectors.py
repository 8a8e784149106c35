"""FAISS kinds against the exact one: overlap, masks, what is stored, and GPUs that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from retrieval_server.dense import DenseIndex
from retrieval_server.errors import IndexStateError
from retrieval_server.vectors import VectorSpec


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """4,000 unit vectors in 80 clusters, as texts on 80 matters would lie."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(80, 48))
    points = centres[rng.integers(0, 80, 4_000)] + 0.4 * rng.normal(size=(4_000, 48))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def recall(one: DenseIndex, other: DenseIndex, queries: np.ndarray, mask: np.ndarray | None = None) -> float:
    pairs = zip(one.search(queries, 10, mask), other.search(queries, 10, mask), strict=True)
    return float(np.mean([len(set(a.rows_N) & set(b.rows_N)) / 10 for a, b in pairs]))


@pytest.mark.parametrize(
    ("spec", "least"), [("fp16", 0.99), ("ivf", 0.95), ("ivf:40,10", 0.9), ("hnsw", 0.97), ("hnsw:16,64", 0.9)]
)
def test_kinds_find_what_the_flat_one_finds(vectors: np.ndarray, spec: str, least: float) -> None:
    flat, other, queries = DenseIndex(vectors), DenseIndex(vectors, spec), vectors[:60]
    mask = np.random.default_rng(1).random(len(vectors)) < 0.5
    assert recall(flat, other, queries) >= least
    assert recall(flat, other, queries, mask) >= least - 0.1
    assert all(mask[hits.rows_N].all() for hits in other.search(queries, 10, mask))


@pytest.mark.parametrize("spec", ["fp16", "ivf", "hnsw"])
def test_what_is_stored_searches_alike(vectors: np.ndarray, spec: str, tmp_path: Path) -> None:
    made = DenseIndex(vectors, spec)
    made.save(tmp_path / "v.npy")
    assert (tmp_path / "v.faiss").exists() == (spec != "fp16")
    loaded = DenseIndex.load(tmp_path / "v.npy", spec)
    assert recall(made, loaded, vectors[:40]) >= 0.99


def test_few_rows_and_none() -> None:
    for spec in ("ivf", "hnsw", "fp16"):
        assert DenseIndex(np.eye(3, dtype="f4"), spec).search(np.eye(3, dtype="f4")[:1], 5)[0].rows_N[0] == 0
        assert not len(DenseIndex(np.empty((0, 3), dtype="f4")).search(np.eye(3, dtype="f4")[:1], 5)[0].rows_N)


@pytest.mark.parametrize("text", ["flat:3", "pq", "hnsw:", "ivf:a", "fp16:8,1", ""])
def test_a_wrong_spec_names_the_forms(text: str) -> None:
    with pytest.raises(IndexStateError, match=r"use flat, fp16, ivf\[:nlist"):
        VectorSpec.parse(text)


def test_gpus_that_are_not_there_are_refused(vectors: np.ndarray) -> None:
    import faiss

    if hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus():
        on_gpu = DenseIndex(vectors, gpus=1)
        assert recall(DenseIndex(vectors), on_gpu, vectors[:40]) >= 0.99  # CPU and GPU rankings agree
        mask = np.arange(len(vectors)) % 2 == 0
        assert all(mask[hits.rows_N].all() for hits in on_gpu.search(vectors[:40], 10, mask))
        return
    with pytest.raises(IndexStateError, match="dense_gpus"):
        DenseIndex(vectors, gpus=1)


def test_gpus_and_replicas_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from legal_rl.cli import main

    with pytest.raises(SystemExit) as done:
        main(["serve", "retrieval", "--replicas", "2", "--dense-gpus", "1"])
    assert done.value.code == 1 and "--dense-gpus is for one process" in capsys.readouterr().err
