"""Embedding a corpus: chunks that survive a kill, and a Ray cluster that writes the bytes of one process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.dense import Encoder, FuseEncoder
from retrieval_server.embedding import chunk_name, embed
from retrieval_server.errors import RetrievalError
from retrieval_server.index import build_index, open_index

TEXTS = [f"第{n}条 {'盗窃公私财物，' * (n % 7 + 1)}处罚金{n}元。" for n in range(60)]


class Failing:
    """Encodes a number of chunks and then loses its machine."""

    spec, version, dim = "failing", "1", 4

    def __init__(self, chunks: int) -> None:
        self.left, self.seen = chunks, 0

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if not self.left:
            raise RetrievalError("gone")
        self.left -= 1
        self.seen += len(texts)
        values = np.array([[len(text), *map(ord, text[1:4])] for text in texts], dtype=np.float32)
        return values / np.linalg.norm(values, axis=1, keepdims=True)


def _broken() -> Encoder:
    """An encoder whose class travels with its code: this file's name means nothing on a worker."""

    class Broken:
        spec, version, dim = "broken", "1", 4

        def encode(self, texts: Sequence[str]) -> np.ndarray:
            raise ValueError("gone")

    return Broken()


def test_a_killed_embedding_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="gone"):
        embed(Failing(2), TEXTS, tmp_path, chunk=16)
    assert len(list(tmp_path.glob("*.npy"))) == 2 and not list(tmp_path.glob("*.tmp*"))
    second, straight = Failing(9), embed(Failing(9), TEXTS, chunk=16)
    assert (embed(second, TEXTS, tmp_path, chunk=16) == straight).all()
    assert second.seen == len(TEXTS) - 32


def test_another_text_or_encoder_is_another_chunk() -> None:
    encoder = FuseEncoder()
    assert chunk_name(encoder, TEXTS[:2]) == chunk_name(FuseEncoder(), TEXTS[:2])
    assert chunk_name(encoder, TEXTS[:2]) != chunk_name(encoder, TEXTS[1:3])
    assert chunk_name(encoder, TEXTS[:2]) != chunk_name(FuseEncoder(64), TEXTS[:2])


@pytest.fixture(scope="module")
def norms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("norms") / "norms.jsonl"
    rows = [
        {
            "id": f"law/试行法@2020-01-01#{n}", "kind": "law", "law_title": "试行法", "law_key": "试行法",
            "version_date": "2020-01-01", "effective_date": "2020-01-01", "article_no": n, "article_label": f"第{n}条",
            "text": text,
        }
        for n, text in enumerate(TEXTS, start=1)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_killed_build_is_gone_on_with_and_leaves_nothing_behind(norms: Path, tmp_path: Path) -> None:
    with pytest.raises(RetrievalError):
        build_index(tmp_path / "index", str(norms), (), Failing(0))
    (tmp_path / ".index-vectors").mkdir(exist_ok=True)
    index = build_index(tmp_path / "index", str(norms), (), Failing(9), dense="hnsw")
    assert index.manifest.recipe.dense == "hnsw" and (tmp_path / "index" / "statutes-dense.faiss").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    opened = open_index(tmp_path / "index", encoder=Failing(9))
    assert opened.statutes.dense is not None and opened.statutes.dense.spec.kind == "hnsw"
    (hits,) = opened.statutes.dense.search(opened.statutes.dense.vectors_ND[5:6], 1)
    assert hits.scores_N[0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.slow
def test_a_ray_cluster_writes_the_bytes_of_one_process(norms: Path, tmp_path: Path) -> None:
    import ray
    from ray.cluster_utils import Cluster

    folder = Path("/tmp") / f"lr-emb-{tmp_path.name[-6:]}"  # Ray's socket paths must be short
    head = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False, "temp_dir": str(folder)}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
        ray.init(address=cluster.address, log_to_driver=False)
        told: list[int] = []
        there = embed(FuseEncoder(), TEXTS, tmp_path / "ray", ray=True, chunk=8, advance=told.append)
        assert sum(told) == len(TEXTS) and len(list((tmp_path / "ray").glob("*.npy"))) == 8
        here = embed(FuseEncoder(), TEXTS, tmp_path / "here", chunk=8)
        assert there.tobytes() == here.tobytes()
        for path in (tmp_path / "here").glob("*.npy"):
            assert path.read_bytes() == (tmp_path / "ray" / path.name).read_bytes()
        built = build_index(tmp_path / "a", str(norms), (), "fuse:64", ray=True)
        alone = build_index(tmp_path / "b", str(norms), (), "fuse:64")
        assert (tmp_path / "a" / "statutes-dense.npy").read_bytes() == (
            tmp_path / "b" / "statutes-dense.npy"
        ).read_bytes()
        assert built.version == alone.version
        with pytest.raises(RetrievalError, match=r"encoding on Ray failed: .*gone"):
            embed(_broken(), TEXTS, tmp_path / "failing", ray=True, chunk=30)
    finally:
        ray.shutdown()
        cluster.shutdown()
