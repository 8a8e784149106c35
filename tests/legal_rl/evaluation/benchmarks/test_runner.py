"""The runner against a real server that is slow, overloaded, broken or gone, and against its own interruption."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from legal_rl.cli import main
from legal_rl.errors import ConfigError
from legal_rl.evaluation.benchmarks.endpoints import Meter, final_answer
from legal_rl.evaluation.benchmarks.journal import Journal, answered_entry
from legal_rl.evaluation.benchmarks.predictions import find_files
from legal_rl.evaluation.benchmarks.records import BenchmarkError, ReferenceFormatError
from legal_rl.evaluation.benchmarks.runner import _answer_one, _neighbours, finish, run_benchmark
from legal_rl.evaluation.benchmarks.samples import Sample, read_samples
from legal_rl.evaluation.benchmarks.scoring import score_files
from legal_rl.evaluation.benchmarks.settings import BenchmarkConfig, Endpoint, check_mode, load_benchmark_config
from legal_rl.evaluation.benchmarks.systems import Answered
from legal_rl.evaluation.benchmarks.tasks import find_task

RESULTS = ("scores.json", "samples.jsonl", "predictions/m_letter.jsonl", "predictions/m_term.jsonl")
TASKS = ("m_letter", "m_term")


JUDGE = {"base_url": "http://x/v1", "model": "m"}


def settings(url: str, **more: Any) -> BenchmarkConfig:
    endpoint: dict[str, Any] = {"base_url": url, "model": "toy"}
    endpoint |= more.pop("endpoint", {})
    return BenchmarkConfig(judge=Endpoint(**endpoint), **more)


def reply(prompt: str) -> str:
    return "<think>想一想A</think>[正确答案]C<eoa>" if "选出" in prompt else "[刑期]36月<eoa>"


def files(out: Path) -> dict[str, str]:
    return {name: (out / name).read_text(encoding="utf-8") for name in RESULTS}


def test_answers_are_written_in_the_benchmarks_form_and_scored(toy_model, tmp_path: Path) -> None:
    toy_model.reply = reply
    scores = run_benchmark("mini", read_samples("mini", None, TASKS), settings(toy_model.url), "plain", tmp_path)
    assert scores["tasks"]["m_letter"]["score"] == 0.6 and scores["failed"] == 0  # three of five have C
    found = find_files(tmp_path / "predictions", "mini")
    assert [s.score for s in score_files(found, workers=1)] == [scores["tasks"][t]["score"] for t in TASKS]
    cost = json.loads((tmp_path / "efficiency.json").read_text(encoding="utf-8"))
    assert (cost["all"]["input_tokens"], cost["all"]["output_tokens"], cost["all"]["n"]) == (7.0, 3.0, 10)
    assert cost["by_complexity"]["lower"]["n"] == 5 and cost["output_tokens_per_s"] > 0
    assert toy_model.temperatures == {0.0}


def test_passing_troubles_are_retried(toy_model, tmp_path: Path) -> None:
    toy_model.reply = reply
    troubles = ["429", "500", "cut", "broken", "slow"]
    toy_model.behave = lambda prompt, attempt: troubles[attempt] if attempt < len(troubles) else "ok"
    toy_model.slow_s = 3.0
    samples = read_samples("mini", None, ["m_letter"], limit=2)
    config = settings(toy_model.url, endpoint={"request_timeout_s": 2})
    scores = run_benchmark("mini", samples, config, "plain", tmp_path)
    assert scores["failed"] == 0 and toy_model.requests == 12  # five retries each, as in the paper
    assert json.loads((tmp_path / "efficiency.json").read_text(encoding="utf-8"))["all"]["retries"] == 5.0


def test_a_lasting_trouble_is_a_counted_failure_and_no_score(toy_model, tmp_path: Path) -> None:
    toy_model.reply = reply
    toy_model.behave = lambda prompt, attempt: "500" if "诉讼时效" in prompt else "ok"
    samples = read_samples("mini", None, ["m_letter"])
    out = tmp_path / "run"
    config = settings(toy_model.url, endpoint={"max_retries": 1})
    scores = run_benchmark("mini", samples, config, "plain", out)
    row = scores["tasks"]["m_letter"]
    assert (scores["failed"], row["failed"], row["n"], row["score"]) == (1, 1, 4, 0.5)  # not a zero
    entry = [json.loads(line) for line in (out / "trace.jsonl").read_text(encoding="utf-8").splitlines()][2]
    assert entry["status"] == "failed" and "after 1 retries" in entry["reason"] and entry["usage"]["retries"] == 1
    toy_model.behave = lambda prompt, attempt: "ok"
    assert run_benchmark("mini", samples, config, "plain", out)["failed"] == 0
    assert run_benchmark("mini", samples, config, "plain", tmp_path / "clean")["tasks"]["m_letter"]["score"] == 0.6
    assert (out / "scores.json").read_bytes() == (tmp_path / "clean" / "scores.json").read_bytes()


def test_a_refusal_is_not_retried_and_a_hanging_sample_ends(toy_model, tmp_path: Path) -> None:
    toy_model.behave = lambda prompt, attempt: "400" if "诉讼时效" in prompt else "slow"
    toy_model.slow_s = 3.0
    samples = read_samples("mini", None, ["m_letter"])[1:3]
    config = settings(toy_model.url, sample_deadline_s=2)
    scores = run_benchmark("mini", samples, config, "plain", tmp_path)
    reasons = [json.loads(line)["reason"] for line in (tmp_path / "trace.jsonl").read_text("utf-8").splitlines()]
    assert scores["failed"] == 2 and toy_model.requests == 2
    assert reasons[0] == "no answer within 2 s" and "400" in reasons[1] and "retries" not in reasons[1]


def test_interrupted_and_resumed_gives_identical_files(toy_model, tmp_path: Path) -> None:
    toy_model.reply = reply
    samples = read_samples("mini", None, TASKS)
    config = settings(toy_model.url, concurrency=2)
    run_benchmark("mini", samples, config, "plain", tmp_path / "straight")
    asked, out = toy_model.requests, tmp_path / "resumed"
    for stop_after in (1, 4, 9):

        def interrupt(done: int, total: int, stop_after: int = stop_after) -> None:
            if done >= stop_after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_benchmark("mini", samples, config, "plain", out, interrupt)
        with (out / "trace.jsonl").open("a", encoding="utf-8") as journal:
            journal.write('{"id": "m_term/4", "status": "o')  # a line that a killed writer left
    run_benchmark("mini", samples, config, "plain", out)
    assert files(out) == files(tmp_path / "straight")
    assert toy_model.requests - asked <= len(samples) + 3 * config.concurrency  # only those in work were asked twice
    before = toy_model.requests
    run_benchmark("mini", samples, config, "plain", out)
    assert toy_model.requests == before and files(out) == files(tmp_path / "straight")


def test_a_dead_service_ends_the_run_and_keeps_what_there_is(tmp_path: Path) -> None:
    config = settings("http://127.0.0.1:9/v1", endpoint={"max_retries": 0}, give_up_after=4)
    with pytest.raises(BenchmarkError, match="4 samples in a row failed"):
        run_benchmark("mini", read_samples("mini", None), config, "plain", tmp_path)
    assert len((tmp_path / "trace.jsonl").read_text(encoding="utf-8").splitlines()) == 4


def test_another_run_in_the_folder_is_refused(toy_model, tmp_path: Path) -> None:
    samples = read_samples("mini", None, ["m_term"], limit=1)
    run_benchmark("mini", samples, settings(toy_model.url), "plain", tmp_path)
    with pytest.raises(ConfigError, match="another mode"):
        run_benchmark("mini", samples, settings(toy_model.url), "judge_only", tmp_path)
    with pytest.raises(ConfigError, match="another data"):
        run_benchmark("mini", read_samples("mini", None, ["m_term"]), settings(toy_model.url), "plain", tmp_path)
    run_benchmark("mini", samples, settings(toy_model.url, concurrency=3), "plain", tmp_path)  # pace may change


def test_the_command_reports_failures_in_its_exit_code(toy_model, tmp_path: Path, capsys) -> None:
    toy_model.reply = reply
    toy_model.behave = lambda prompt, attempt: "400" if "诉讼时效" in prompt else "ok"
    path = tmp_path / "eval.yaml"
    path.write_text(yaml.safe_dump({"judge": {"base_url": toy_model.url, "model": "toy"}}), encoding="utf-8")
    command = ["eval", "mini", "--config", str(path), "--mode", "plain", "--task", "m_letter"]
    with pytest.raises(SystemExit) as done:
        main([*command, "--out", str(tmp_path / "run"), "--json"])
    shown = capsys.readouterr()
    assert done.value.code == 1 and json.loads(shown.out)["failed"] == 1 and "1 of 5 samples failed" in shown.err
    toy_model.behave = lambda prompt, attempt: "ok"
    with pytest.raises(SystemExit) as done:
        main([*command, "--out", str(tmp_path / "run")])
    assert done.value.code == 0 and "60.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "mode", "text"),
    [
        ({}, "plain", "nobody answers"),
        ({"judge": {"base_url": "http://x/v1", "model": "m"}}, "full", "needs a Lawyer"),
        ({"judge": {"base_url": "http://x/v1", "model": "m"}}, "hybrid", "retrieval_url"),
        ({"lawyer_model": "m", "index_dir": "i"}, "oracle", "name `judge`"),
        ({"lawyer_model": "m"}, "sideways", "unknown mode"),
        ({"judge": JUDGE, "retrieval_url": "http://x"}, "hybrid", "in this process"),
        ({"judge": JUDGE, "retrieval_url": "http://x"}, "rerank", "in this process"),
        ({"judge": JUDGE, "index_dir": "i"}, "rerank", r"assistant\.llm"),
        ({"lawyer_model": "m", "index_dir": "i"}, "no_rerank", r"assistant\.llm"),
        ({"lawyer_model": "m", "index_dir": "i"}, "no_summary", r"assistant\.llm"),
        ({"lawyer_model": "m", "lawyer": JUDGE}, "plain", "`lawyer` and `lawyer_model` are both set"),
        ({"judge": JUDGE, "index_dir": "i", "retrieval_url": "http://x"}, "plain", "`retrieval_url` and `index_dir`"),
    ],
)
def test_a_mode_without_its_parts_is_refused(values: dict[str, Any], mode: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_mode(BenchmarkConfig.model_validate(values), mode)


def test_a_trained_lawyers_engine_is_as_long_as_it_was_trained(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "{grpo: {max_prompt_tokens: 300}, environment: {max_response_tokens: 900, forced_answer_tokens: 64}}\n"
    )
    (tmp_path / "sft" / "model").mkdir(parents=True)
    assert load_benchmark_config(None, tmp_path).engine.max_model_len == 1200


@pytest.mark.parametrize("trouble", ["interrupt", "kill"])
def test_the_wall_time_of_every_start_counts(toy_model, tmp_path: Path, trouble: str) -> None:
    """Interrupted after one answer of at least 0.3 s; killed, the run has only its journal."""
    toy_model.reply, toy_model.slow_s = reply, 0.3
    toy_model.behave = lambda prompt, attempt: "slow"
    samples = read_samples("mini", None, ["m_letter"], limit=3)
    config = settings(toy_model.url, concurrency=1)

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_benchmark("mini", samples, config, "plain", tmp_path, interrupt)
    path = tmp_path / "run.json"
    values = json.loads(path.read_text("utf-8"))
    assert values["wall_s"] >= 0.3
    if trouble == "kill":
        path.write_text(json.dumps(values | {"wall_s": 0.0}), encoding="utf-8")
    run_benchmark("mini", samples, config, "plain", tmp_path)
    assert json.loads((tmp_path / "efficiency.json").read_text("utf-8"))["wall_s"] >= 0.9
    whole = json.loads(path.read_text("utf-8"))["wall_s"]
    run_benchmark("mini", samples, config, "plain", tmp_path)
    assert json.loads(path.read_text("utf-8"))["wall_s"] == whole  # nothing was asked


def test_one_samples_surprise_costs_no_other_sample(toy_model, tmp_path: Path) -> None:
    """Half a surrogate pair comes from a real model's byte fallback; the other answers must not be lost by it."""
    toy_model.reply = lambda prompt: "\ud83d[正确答案]C<eoa>"
    samples = read_samples("mini", None, ["m_letter"], limit=2)
    scores = run_benchmark("mini", samples, settings(toy_model.url), "plain", tmp_path / "a")
    assert scores["failed"] == 0 and "?[正确答案]C" in (tmp_path / "a" / "trace.jsonl").read_text("utf-8")

    entry = asyncio.run(_answer_one(_Fails(), samples[0], samples[1], 5.0))  # type: ignore[arg-type]
    assert (entry["status"], entry["reason"]) == ("failed", "KeyError: 'surprise'")


class _Fails:
    async def answer(self, sample: Sample, neighbour: Sample) -> Answered:
        raise KeyError("surprise")


def test_a_broken_reference_is_told_before_anything_is_asked(toy_model, tmp_path: Path) -> None:
    task = find_task("lawbench", "3-4")
    samples = [Sample(task, 0, "", "事实", "刑期:4个月"), Sample(task, 1, "", "事实", "四个月")]
    with pytest.raises(ReferenceFormatError, match="3-4/1"):
        run_benchmark("lawbench", samples, settings(toy_model.url), "plain", tmp_path / "run")
    assert toy_model.requests == 0 and not (tmp_path / "run").exists()


def test_a_damaged_run_file_is_one_line(toy_model, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"run\.json: cannot be read"):
        run_benchmark("mini", read_samples("mini", None, ["m_term"]), settings(toy_model.url), "plain", tmp_path)


def test_a_sample_alone_in_its_task_is_shuffled_with_another_tasks() -> None:
    samples = read_samples("mini", None, TASKS, limit=1)
    assert _neighbours(samples) == {"m_letter/0": samples[1], "m_term/0": samples[0]}
    assert _neighbours(samples[:1]) == {"m_letter/0": samples[0]}


def test_samples_that_a_mode_does_not_fit_are_no_failures(tmp_path: Path) -> None:
    samples = read_samples("mini", None, TASKS, limit=1)
    entries = [
        {"id": "m_letter/0", "task": "m_letter", "status": "not_applicable", "reason": "no gold", "usage": {}},
        answered_entry(samples[1], Answered("[刑期]14月<eoa>", degraded=2), Meter(), 1.0),
    ]
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    scores = finish(tmp_path, "mini", "oracle", samples, entries)
    assert (scores["failed"], scores["not_applicable"], scores["degraded"], scores["average"]) == (0, 1, 2, 1.0)
    journal = Journal(tmp_path / "trace.jsonl")
    journal.add(entries[0])
    assert journal.done(samples[0]) and not journal.done(samples[1])


def test_unknown_settings_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text("judge: {base_url: x, model: m, temprature: 1}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"judge\.temprature: Extra inputs"):
        load_benchmark_config(path)


def test_every_system_gets_the_same_post_processing() -> None:
    assert final_answer("<think>A或B</think>\n<answer>C</answer>") == "C"
    assert final_answer("思考A不对</think>答案B") == "答案B"  # Qwen3's template opens the thought in the prompt
    assert final_answer("<think>没有写完") == "" and final_answer(" 直接作答 ") == "直接作答"


def test_the_mini_benchmark_covers_every_kind_of_answer() -> None:
    from legal_rl.evaluation.benchmarks.graders import GRADERS, grade_example

    samples = read_samples("mini", None)
    assert len(samples) >= 60 and {s.task.grader for s in samples} == set(GRADERS)
    assert all(grade_example(s.task, s.example(s.reference), "fixed").score > 0.999 for s in samples)
