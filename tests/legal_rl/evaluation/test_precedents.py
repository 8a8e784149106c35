"""Precedent retrieval in LeCaRDv2's own forms, over a small corpus of our own."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from legal_rl.cli import main
from legal_rl.evaluation.precedents import evaluate_precedents, read_qrels
from retrieval_server.errors import CorpusError

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[3].parent / "shared" / "data"))
CASES = {
    "101": ("盗窃罪", "被告人甲某深夜翻窗进入民宅，窃取现金和首饰。"),
    "102": ("盗窃罪", "被告人乙某在商场扒窃他人手机一部。"),
    "103": ("交通肇事罪", "被告人丙某驾驶货车闯红灯，撞死行人后逃逸。"),
    "104": ("诈骗罪", "被告人丁某冒充公检法人员，骗取老人养老金。"),
}


@pytest.fixture
def lecard(tmp_path: Path) -> Path:
    folder = tmp_path / "candidate"
    folder.mkdir()
    for pid, (charge, fact) in CASES.items():
        record = {"pid": int(pid), "qw": fact, "fact": fact, "charge": [charge], "article": [264], "result": ""}
        (folder / f"{pid}.json").write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    queries = [{"id": 1, "query": "x", "fact": "夜里翻窗入室窃取首饰"}, {"id": 2, "query": "驾车撞死行人后逃逸"}]
    (tmp_path / "query.json").write_text("\n".join(json.dumps(q, ensure_ascii=False) for q in queries), "utf-8")
    (tmp_path / "qrels.trec").write_text("1 0 101 3\n1 0 102 2\n1 0 104 0\n2 0 103 3\n3 0 101 0\n", "utf-8")
    return tmp_path


def test_a_small_corpus_is_ranked(lecard: Path) -> None:
    found = evaluate_precedents(
        lecard / "qrels.trec", queries=lecard / "query.json", candidates=[str(lecard / "candidate")], depths=(1, 4)
    )
    assert found["n"] == 2 and found["skipped"] == {"no_relevant_label": 1, "not_ranked": 0}
    assert found["overall"]["R@1"] == 0.75  # one of two, and one of one
    assert found["overall"]["R@4"] >= 0.75 and 0 < found["ci95"]["R@1"][0] <= 0.75


def test_a_query_that_nobody_ranked_counts_zero(lecard: Path) -> None:
    run = lecard / "run.trec"
    run.write_text("1 Q0 101 1 9 x\n1 Q0 102 2 8 x\n", encoding="utf-8")
    found = evaluate_precedents(lecard / "qrels.trec", run=run, depths=(2,))
    assert found["n"] == 2 and found["overall"]["R@2"] == 0.5 and found["overall"]["nDCG@10"] == 0.5
    assert found["skipped"] == {"no_relevant_label": 1, "not_ranked": 1}


def test_queries_longer_than_a_search_are_counted(lecard: Path) -> None:
    queries = [{"id": 1, "fact": "窃取首饰" * 2_000}, {"id": 2, "fact": "驾车撞死行人后逃逸"}]
    (lecard / "query.json").write_text(json.dumps(queries, ensure_ascii=False), encoding="utf-8")
    found = evaluate_precedents(
        lecard / "qrels.trec", queries=lecard / "query.json", candidates=[str(lecard / "candidate")], depths=(4,)
    )
    assert found["cut_queries"] == 1 and found["max_query_chars"] == 4000


def test_a_run_file_is_measured_by_hand(lecard: Path) -> None:
    run = lecard / "run.trec"
    run.write_text("1 Q0 104 1 9 x\n1 Q0 101 2 8 x\n2 Q0 103 1 5 x\n", encoding="utf-8")
    found = evaluate_precedents(lecard / "qrels.trec", run=run, depths=(1, 2))
    assert (found["overall"]["R@1"], found["overall"]["R@2"]) == (0.5, 0.75)
    ideal = 3 + 2 / math.log2(3)
    assert found["overall"]["nDCG@10"] == pytest.approx((3 / math.log2(3) / ideal + 1) / 2, abs=1e-4)
    strict = evaluate_precedents(lecard / "qrels.trec", run=run, relevant_from=3, depths=(2,))
    assert strict["overall"]["R@2"] == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [("1 0 101\n", "line 1: expected 4 columns"), ("1 0 101 x\n", "label 'x'"), ("", "no relevance labels")],
)
def test_bad_qrels_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "qrels.trec"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError, match=message):
        read_qrels(path)


def test_the_command_prints_json(lecard: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lecard / "run.trec").write_text("1 Q0 101 1 9 x\n", encoding="utf-8")
    command = ["eval", "precedents", "--qrels", str(lecard / "qrels.trec"), "--run-file", str(lecard / "run.trec")]
    with pytest.raises(SystemExit) as done:
        main([*command, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert done.value.code == 0 and found["overall"]["R@100"] == 0.25 and found["skipped"]["not_ranked"] == 1


@pytest.mark.skipif(not DATA.is_dir(), reason="data folder (LEGAL_RL_DATA) is absent")
def test_the_published_qrels_are_read() -> None:
    sizes = {path.name: len(read_qrels(path)) for path in sorted((DATA / "lecard_qrels").glob("*.trec"))}
    assert sizes == {"qrels.trec": 800, "qrels_gold.trec": 798, "test_qrels.trec": 160, "test_qrels_gold.trec": 159}
