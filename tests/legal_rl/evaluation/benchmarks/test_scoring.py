"""Prediction files in every published form, their scores, and every way in which a file can be wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from legal_rl.cli import main
from legal_rl.evaluation.benchmarks.predictions import find_files, guess_benchmark, read_examples
from legal_rl.evaluation.benchmarks.records import BenchmarkError, ReferenceFormatError
from legal_rl.evaluation.benchmarks.scoring import score_file, score_files
from legal_rl.evaluation.benchmarks.tasks import find_task

TERM = find_task("lawbench", "3-4")
CHOICE = find_task("lexeval", "1_1")


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def lawbench(path: Path, pairs: list[tuple[str, str]]) -> Path:
    """LawBench's own form: one object, its keys the positions."""
    prompt = [{"role": "HUMAN", "prompt": "请改错。句子：\n甲乙。"}]
    data = {str(i): {"origin_prompt": prompt, "prediction": p, "refr": r} for i, (p, r) in enumerate(pairs)}
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def test_every_published_form_is_read(tmp_path: Path) -> None:
    pairs = [("12个月", "刑期:12个月"), ("不知道", "刑期:6个月")]
    own = lawbench(tmp_path / "3-4.json", pairs)
    plain = lines(tmp_path / "x.jsonl", [{"prediction": p, "refr": r} for p, r in pairs])
    zipped = tmp_path / "y.jsonl.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    other = lines(tmp_path / "z.json", [{"input": "", "output": p, "answer": r} for p, r in pairs])  # LexEval's form
    assert read_examples(own, TERM) == read_examples(plain, TERM) == read_examples(zipped, TERM)
    assert [e.prediction for e in read_examples(other, TERM)] == ["12个月", "不知道"]
    odd = lines(tmp_path / "o.jsonl", [{"prediction": "甲\u2028乙\x85", "refr": "刑期:1个月"}])
    odd.write_bytes(b"\xef\xbb\xbf" + odd.read_bytes())  # a byte order mark, and separators inside a text
    assert [e.prediction for e in read_examples(odd, TERM)] == ["甲\u2028乙\x85"]
    correction = find_task("lawbench", "2-1")
    assert [e.source for e in read_examples(own, correction)] == ["甲乙。", "甲乙。"]


def test_a_score_is_a_mean_over_the_counted(tmp_path: Path) -> None:
    path = lawbench(tmp_path / "3-4.json", [("12个月", "刑期:12个月"), ("不知道", "刑期:6个月"), ("死刑", "刑期:死刑")])
    row = score_file(TERM, path).as_dict()
    assert (row["score"], row["abstention_rate"], row["n"], row["evaluated"]) == (0.5, 1 / 3, 3, 2)
    assert row["ci95"] == [0.0, 1.0]


def test_a_task_without_a_counted_sample_has_no_score(tmp_path: Path) -> None:
    row = score_file(TERM, lawbench(tmp_path / "3-4.json", [("死刑", "刑期:死刑")])).as_dict()
    assert row["score"] is None and row["n"] == 1


def test_processes_give_the_same_as_one(tmp_path: Path) -> None:
    rows = [{"output": "AB"[i % 2], "answer": "A"} for i in range(150)]
    file = find_files(lines(tmp_path / "1_1.jsonl", rows), "lexeval")
    assert [s.as_dict() for s in score_files(file, workers=2)] == [s.as_dict() for s in score_files(file, workers=1)]


def test_folders_are_found_by_task(tmp_path: Path) -> None:
    lines(tmp_path / "1_1.jsonl", [{"output": "A", "answer": "A"}])
    (tmp_path / "notes.txt").write_text("1_2", encoding="utf-8")
    assert [file.task.id for file in find_files(tmp_path, "lexeval")] == ["1_1"]
    assert guess_benchmark(tmp_path) == "lexeval"
    with pytest.raises(BenchmarkError, match="named after a task of lawbench"):
        find_files(tmp_path, "lawbench")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"output": "A", "answer": "A"}\n{"output": "A"}\n', "record 2: field 'refr' or 'answer' is missing"),
        ('{"output": null, "answer": "A"}\n', "record 1: field 'output': must be text"),
        ("{\n", "line 1: not valid JSON"),
        ("[1]\n", "line 1: must be a JSON object"),
        ("", "holds no predictions"),
    ],
)
def test_a_bad_file_is_named_with_its_record(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "1_1.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BenchmarkError, match=text) as caught:
        read_examples(path, CHOICE)
    assert str(path) in str(caught.value)


def test_a_bad_reference_names_its_record(tmp_path: Path) -> None:
    path = lawbench(tmp_path / "3-4.json", [("1个月", "刑期:1个月"), ("1个月", "一年")])
    with pytest.raises(ReferenceFormatError, match="record 2: lawbench/3-4"):
        score_files(find_files(path, "lawbench"), workers=1)


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lines(tmp_path / "1_1.jsonl", [{"output": "CA", "answer": "AC"}, {"output": "B", "answer": "B"}])
    with pytest.raises(SystemExit) as done:
        main(["eval", "score", "--benchmark", "lexeval", "--task", "1_1", "--predictions", str(path), "--json"])
    row = json.loads(capsys.readouterr().out)
    assert done.value.code == 0 and (row["score"], row["n"], row["f1"]) == (0.5, 2, 1.0)
    with pytest.raises(SystemExit):
        main(["eval", "score", str(tmp_path), "--fixed", "--json", "--samples", str(tmp_path / "s.jsonl")])
    whole = json.loads(capsys.readouterr().out)
    assert whole["average"] == whole["tasks"]["1_1"]["score"] == whole["by_category"]["Knowledge"] == 1.0
    samples = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(s["idx"], s["extracted"]) for s in samples] == [(0, "AC"), (1, "B")]


def test_the_command_fails_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["eval", "score", str(tmp_path / "absent.jsonl")])
    assert done.value.code == 1 and capsys.readouterr().err.count("\n") == 1


def test_a_task_without_a_score_is_named_and_no_nan_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    lawbench(tmp_path / "3-4.json", [("1个月", "刑期:死刑")])
    lawbench(tmp_path / "1-2.json", [("A", "正确答案：A。"), ("B", "正确答案：A。")])
    with pytest.raises(SystemExit):
        main(["eval", "score", str(tmp_path), "--json"])
    text = capsys.readouterr().out
    found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["average"] == 0.5 and found["unscored"] == ["3-4"] and found["by_category"]["Reasoning"] is None
    with pytest.raises(SystemExit):
        main(["eval", "score", str(tmp_path)])
    table = capsys.readouterr().out
    assert "nan" not in table and "1 tasks" in table


def test_a_task_asked_for_is_there_once(tmp_path: Path) -> None:
    lines(tmp_path / "1_1.jsonl", [{"output": "A", "answer": "A"}])
    with pytest.raises(BenchmarkError, match="holds no predictions for task 1_2"):
        find_files(tmp_path, "lexeval", ["1_1", "1_2"])
    lines(tmp_path / "1_1.json", [{"output": "B", "answer": "A"}])
    with pytest.raises(BenchmarkError, match=r"1_1\.json and 1_1\.jsonl both answer task 1_1"):
        find_files(tmp_path, "lexeval")
