"""`legal-rl data` as a user types it: every stage on a file, the build by rule and by an endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from legal_rl.cli import main
from legal_rl.data.readers.lines import read_lines, write_lines

QUESTION = "甲于某日在河边拾得钱包一只，内有现金若干，失主当场索要而甲拒不归还，问甲应当承担什么责任？"
JUDGMENT = "张某被判处有期徒刑六年，李某有期徒刑三年，王某有期徒刑二年，赵某有期徒刑一年，罚金五千元。"
Call = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """(exit code, JSON of standard output, standard error) of one command."""

    def run(*arguments: object) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in ("data", *arguments)])
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), json.loads(out) if out.strip() else None, err

    return run


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    write_lines(tmp_path / "bench.jsonl", [{"question": QUESTION}])
    return tmp_path / "bench.jsonl"


def test_decontaminate(call: Call, bench: Path, tmp_path: Path) -> None:
    rows = [{"id": "a", "instruction": QUESTION, "output": "归还。"}, {"id": "b", "text": "某甲与某乙签订合同。"}]
    write_lines(tmp_path / "raw.jsonl", rows)
    out, dropped = tmp_path / "kept.jsonl", tmp_path / "dropped.jsonl"
    command = ("decontaminate", tmp_path / "raw.jsonl", "-b", bench, "--background", "none", "--json")
    code, report, _ = call(*command, "--out", out, "--dropped", dropped)
    assert code == 0 and (report["kept"], report["dropped"]) == (1, 1)
    assert report["benchmarks"]["bench.jsonl"]["records_dropped"] == 1
    assert [row["id"] for _, row in read_lines(out)] == ["b"]
    assert "bench.jsonl:1" in next(row["dropped_because"] for _, row in read_lines(dropped))
    code, _, err = call("decontaminate", tmp_path / "raw.jsonl", "-b", tmp_path / "gone", "--json")
    assert code != 0 and "no such file or folder" in err


def test_leakage_and_distractors(call: Call, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "question": "张某被判处6年有期徒刑，刑期多长？", "answer": "有期徒刑六年"},
        {"id": "b", "question": "张某的主刑是什么？", "answer": "有期徒刑六年", "source_text": JUDGMENT},
    ]
    write_lines(tmp_path / "qa.jsonl", rows)
    code, report, _ = call("leakage", tmp_path / "qa.jsonl", "--out", tmp_path / "kept.jsonl", "--json")
    assert code == 0 and report["dropped"] == 1 and report["kinds"] == {"term": 1}
    code, report, _ = call("distractors", tmp_path / "kept.jsonl", "--out", tmp_path / "choices.jsonl", "--json")
    assert code == 0 and report["kept"] == 1 and report["origins"] == {"swap": 3}
    ((_, record),) = read_lines(tmp_path / "choices.jsonl")
    assert record["choices"]["ABCD".index(record["answer"])] == "有期徒刑六年"


def test_build_by_rule_and_inspect_its_records(call: Call, bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "set"
    common = ("build", out, "--source", "generated:count=20", "--profile", "charge_prediction", "--json")
    code, report, _ = call(*common, "-b", bench, "--grams", "99", "--records", "8")
    assert code == 0 and report["records"] == 8 and report["thresholds"] == {"grams": 99, "containment": 0.8}
    assert len(report["benchmarks"]["bench.jsonl"]) == 64
    code, report, _ = call("inspect", out / "records.jsonl", "--json")
    assert code == 0 and report["n"] == 8 and report["tasks"] == {"charge_prediction": 8}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "say --without-benchmarks"),
        (("--without-benchmarks", "--estimate"), "--estimate is of a teacher's cost"),
        (("--without-benchmarks", "--teacher-url", "http://127.0.0.1:9/v1"), "both --teacher-url and --teacher-model"),
    ],
)
def test_build_refuses_what_it_cannot_do(call: Call, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    code, _, err = call("build", tmp_path / "set", *options)
    assert code != 0 and message in err and not (tmp_path / "set").exists()


def test_an_estimate_asks_nothing_and_makes_nothing(call: Call, tmp_path: Path) -> None:
    code, report, _ = call(
        "build", tmp_path / "set", "--without-benchmarks", "--source", "generated:count=20", "--records", "4",
        "--profile", "charge_prediction", "--teacher-url", "http://127.0.0.1:9/v1", "--teacher-model", "m",
        "--price-in", "2", "--estimate", "--json",
    )  # fmt: skip
    cost = report["first_round"]
    assert code == 0 and cost["requests"] == 2 * 5 and cost["cost"] == round(cost["tokens_in"] * 2 / 1e6, 4)
    assert not (tmp_path / "set").exists()


def test_a_set_in_single_steps_and_its_trajectories(call: Call, tmp_path: Path) -> None:
    sources, records = tmp_path / "sources.jsonl", tmp_path / "records.jsonl"
    code, report, _ = call("sources", "generated:count=30", "--out", sources, "--json")
    assert code == 0 and report == {"sources": 30, "kinds": {"judgment": 30}}
    chain = ("--stage", "gate1", "--stage", "write", "--stage", "quality", "--profile")
    code, report, _ = call("map", sources, records, *chain, "charge_prediction", "--json")
    assert code == 0 and report == {"records": 30, "dropped": {}}
    code, report, _ = call("map", sources, tmp_path / "sums.jsonl", *chain, "amount_calculation", "--json")
    lost = report["dropped"]["gate2"]
    assert code == 0 and 0 < lost < 30
    folder = tmp_path / "set"
    code, report, _ = call("assemble", records, tmp_path / "sums.jsonl", "--out", folder, "--json")
    assert code == 0 and report["dropped_before"] == lost
    assert report["records"] + sum(report["discarded"].values()) == 60 - lost
    index = tmp_path / "index"
    from retrieval_server.index import build_index

    write_lines(tmp_path / "norms.jsonl", [
        {"id": "law/刑法@2023-12-29#264", "kind": "law", "law_title": "刑法", "law_key": "刑法", "article_no": 264,
         "article_label": "第二百六十四条", "text": "盗窃公私财物，数额较大的，处罚金。"},
    ])  # fmt: skip
    build_index(index, [str(tmp_path / "norms.jsonl")], ["generated:count=30"], "none")
    command = ("trajectories", folder, "--out", tmp_path / "t", "--index", index, "--ranking", "fused", "--json")
    code, report, _ = call(*command)
    assert code == 0 and report["questions"] == sum(row["questions"] for row in report["tasks"].values())
    assert report["tasks"]["amount_calculation"]["rate"] == 1.0 and (tmp_path / "t" / "sft.messages.jsonl").is_file()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("map", "{file}", "{out}", "--stage", "polish"), "no stage 'polish'; known: contamination, gate1"),
        (("map", "{file}", "{out}", "--stage", "gate1"), "stage gate1 works for one task"),
        (("map", "{file}", "{out}", "--stage", "write", "--profile", "term_translation"), "writes no term_translation"),
        (("map", "{file}", "{out}", "--stage", "contamination"), "needs --benchmark"),
        (("map", "{file}", "{out}", "--stage", "gate1", "--profile", "charge_prediction"), "record 1: no source text"),
        (("assemble", "{file}", "--out", "{out}"), "line 1: field 'id'"),
        (("trajectories", "{out}", "--out", "{out}", "--best-of", "2"), "needs a model and a temperature above 0"),
        (("trajectories", "{out}", "--out", "{out}", "--judge-url", "x"), "a judge needs both"),
    ],
)
def test_a_mistake_in_the_chain_is_one_line(call: Call, tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    write_lines(tmp_path / "rows.jsonl", [{"question": "何罪？", "answer": "盗窃罪"}])
    names = {"file": tmp_path / "rows.jsonl", "out": tmp_path / "out"}
    code, _, err = call(*(argument.format(**names) for argument in arguments))
    assert code != 0 and text in err and err.strip().count("\n") == 0, err
