"""The report page and the console table of a run folder."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from envs.errors import RecordError
from legal_rl.traces.console import print_summary
from legal_rl.traces.examples import Example, choose, opened
from legal_rl.traces.provenance import invalid_rollouts, token_mismatches
from legal_rl.traces.report import write_report
from legal_rl.traces.run_folder import ReportError, read_run_folder
from legal_rl.traces.trajectories import Scoring, Trajectory

Check = Callable[[str], Any]


def summary(run_dir: Path) -> dict:
    return json.loads((run_dir / "eval" / "summary.json").read_text(encoding="utf-8"))


def shown(run_dir: Path) -> str:
    buffer = io.StringIO()
    print_summary(run_dir, Console(file=buffer, width=200))
    return buffer.getvalue()


def test_the_report_is_one_self_contained_page(run_dir: Path, check_page: Check) -> None:
    path = write_report(run_dir)
    assert path == run_dir / "report.html"
    html = path.read_text(encoding="utf-8")
    page = check_page(html)
    assert "罚金" in page.text and 'charset="utf-8"' in html
    assert not list(run_dir.glob("*.tmp"))


def test_hostile_text_is_shown_and_never_markup(run_dir: Path, check_page: Check) -> None:
    html = write_report(run_dir).read_text(encoding="utf-8")
    assert '<script>alert("x")' not in html and "<img" not in html
    assert '<script>alert("x")</script><img src=x onerror=alert(1)>' in check_page(html).text


def test_the_report_holds_the_summary_s_numbers(run_dir: Path, check_page: Check) -> None:
    text = check_page(write_report(run_dir).read_text(encoding="utf-8")).text
    for name, model in summary(run_dir)["models"].items():
        assert f"{100 * model['metrics']['correct']['mean']:.1f}" in text, name
        assert f"{model['metrics']['reward']['mean']:.3f}".replace("-", "−") in text, name
    assert "GRPO − SFT" in text and "n = 18" in text and "2 dropped" in text
    assert "1 min 15 s" in text and "verl 0.9.1" in text and "12 kept for SFT in 2 families" in text
    # 4 steps of 8 rollouts, a quarter of the last step's
    assert "2 of 32 rollouts" in text


def test_the_report_is_a_function_of_the_folder(run_dir: Path) -> None:
    first = write_report(run_dir).read_bytes()
    assert write_report(run_dir).read_bytes() == first


@pytest.mark.parametrize(
    "part",
    ["run.json", "eval", "policy", "sft/metrics.jsonl", "grpo", "retrieval.json", "eval/sft.rollouts.jsonl",
     "trajectories/manifest.json"],
)  # fmt: skip
def test_a_missing_part_is_said_to_be_missing(run_dir: Path, part: str, check_page: Check) -> None:
    path = run_dir / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    text = check_page(write_report(run_dir).read_text(encoding="utf-8")).text
    expected = {"eval": "eval/summary.json", "policy": "policy/metrics.jsonl", "grpo": "grpo/metrics.jsonl"}
    assert f"Not in this run's folder: {expected.get(part, part)}" in text


def test_an_empty_folder_gives_a_page_without_numbers(tmp_path: Path, check_page: Check) -> None:
    text = check_page(write_report(tmp_path).read_text(encoding="utf-8")).text
    assert "This run has no evaluation yet." in text and "% correct" not in text


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no such run folder"):
        write_report(tmp_path / "none")


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("eval/summary.json", "{", "summary.json: not valid JSON"),
        ("run.json", "[]", "run.json: must hold a JSON object"),
        ("grpo/metrics.jsonl", '{"step": 1}\n{"loss": 2}\n', "line 2: field 'step'"),
        ("seeds.json", '[{"run": "a"}]', "field 'seeds'"),
    ],
)
def test_a_damaged_file_is_named(run_dir: Path, part: str, content: str, message: str) -> None:
    (run_dir / part).write_text(content, encoding="utf-8")
    with pytest.raises(ReportError, match=message):
        write_report(run_dir)


def test_a_damaged_rollout_file_is_named(run_dir: Path) -> None:
    (run_dir / "eval" / "sft.rollouts.jsonl").write_text('{"turns": 1}\n', encoding="utf-8")
    with pytest.raises(RecordError, match=r"sft\.rollouts\.jsonl"):
        write_report(run_dir)


def test_a_line_in_the_writing_is_left_out(run_dir: Path) -> None:
    with (run_dir / "grpo" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 5, "rew')
    assert [row["step"] for row in read_run_folder(run_dir).curves["grpo"]] == [1, 2, 3, 4]


def test_seeds_as_a_comparison_and_as_a_list(run_dir: Path, check_page: Check) -> None:
    rows = [
        {"seed": s, "sft": {"correct": 0.5, "reward": 1.0}, "grpo": {"correct": 0.5 + s / 10, "reward": 1.0 + s}}
        for s in (0, 1, 2)
    ]
    pooled = {"correct": {"mean": 0.1, "low": 0.05, "high": 0.15}, "reward": {"mean": 1.0, "low": -0.1, "high": 2.0}}
    whole = {"seeds": rows, "before": "sft", "after": "grpo", "difference": pooled}
    for value in (whole, rows):
        (run_dir / "seeds.json").write_text(json.dumps(value), encoding="utf-8")
        text = check_page(write_report(run_dir).read_text(encoding="utf-8")).text
        # by hand: grpo 0.5, 0.6, 0.7 -> mean 0.6, sd 0.1; differences 0, 10 and 20 points
        assert "60.0 % ± 10.0" in text and "+20.0 pt" in text
    (run_dir / "seeds.json").write_text(json.dumps(whole), encoding="utf-8")
    assert "+10.0 pt +5.0 … +15.0" in check_page(write_report(run_dir).read_text(encoding="utf-8")).text


def test_examples_are_chosen_by_the_rule(rollouts: dict) -> None:
    by_id = {name: {r.question.id: r for r in played} for name, played in rollouts.items()}
    chosen = choose(by_id["grpo"], by_id, Scoring(), ["locate", "recite", "direct"])
    assert len(chosen) == len(set(chosen)) == 10
    assert [by_id["grpo"][i].question.family for i in chosen[:3]] == ["locate", "recite", "direct"]
    assert chosen[:3] == ["q-0001", "q-0000", "q-0002"]

    def correct(name: str, i: str) -> bool:
        return by_id[name][i].answer == "罚金"

    assert all(correct("grpo", i) != correct("sft", i) for i in chosen[3:5])
    assert not correct("grpo", chosen[5])


def test_the_console_shows_the_page_s_numbers(run_dir: Path) -> None:
    text = shown(run_dir)
    for model in summary(run_dir)["models"].values():
        assert f"{100 * model['metrics']['correct']['mean']:.1f} %" in text
    assert "20 held-out questions" in text and "nDCG@10 0.900" in text and "missing" not in text


def test_the_console_says_what_is_missing(run_dir: Path) -> None:
    (run_dir / "grpo" / "metrics.jsonl").unlink()
    assert "missing: grpo/metrics.jsonl" in shown(run_dir)
    shutil.rmtree(run_dir / "eval")
    assert "eval/summary.json is missing" in shown(run_dir)


def test_mismatches_are_counted_with_the_refilled_groups(run_dir: Path) -> None:
    rows = [
        {"step": n, "token_mismatch": 0.1, "mismatched_rollouts": n, "invalid_rollouts": 3, "groups/kept": 4,
         "groups/constant": 1}
        for n in (1, 2)
    ]  # fmt: skip
    (run_dir / "grpo" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    folder = read_run_folder(run_dir)
    # 2 steps of 5 groups of 2 rollouts; 1 + 2 mismatched
    assert token_mismatches(folder) == "3 of 20 rollouts"
    assert invalid_rollouts(folder) == "6"


def test_the_open_example_is_a_right_one_with_a_search() -> None:
    def example(grade: float, searches: int) -> Example:
        return Example("q", "问", "f", [("grpo", "GRPO", Trajectory("q", grade=grade, searches=searches))])

    assert opened([example(0.0, 1), example(1.0, 0), example(1.0, 1), example(1.0, 2)]) == 2
    assert opened([example(0.0, 1)]) == 0
    assert opened([]) == 0
