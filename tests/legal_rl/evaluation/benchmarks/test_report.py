"""The report from two toy runs, in every format; its numbers against ones worked by hand, its page in a browser."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from legal_rl.cli import main
from legal_rl.errors import ConfigError
from legal_rl.evaluation.benchmarks.comparison import average_interval, paired_difference_of
from legal_rl.evaluation.benchmarks.imported import import_predictions
from legal_rl.evaluation.benchmarks.predictions import find_files
from legal_rl.evaluation.benchmarks.records import BenchmarkError
from legal_rl.evaluation.benchmarks.report import write_report
from legal_rl.evaluation.benchmarks.report_data import MISSING, Run, read_runs
from legal_rl.evaluation.benchmarks.report_tables import difference_table, paper_tables, published, task_tables
from legal_rl.evaluation.benchmarks.runner import run_benchmark
from legal_rl.evaluation.benchmarks.samples import read_samples
from legal_rl.evaluation.benchmarks.settings import BenchmarkConfig, Endpoint
from legal_rl.evaluation.benchmarks.tasks import load_tasks


def rows(task: str, scores: list[float | None]) -> list[dict]:
    return [{"id": f"{task}/{i}", "task": task, "score": score} for i, score in enumerate(scores)]


def test_an_average_is_over_tasks_and_leaves_failures_out() -> None:
    found = average_interval(rows("a", [1, 1, 1, None]) + rows("b", [0, 0]))
    assert found.mean == 0.5 and (found.low, found.high) == (0.5, 0.5) and found.n == 5
    edits = [{"id": "c/0", "task": "c", "score": 1.0, "edits": [1, 1, 0]}]
    assert average_interval(edits).mean == 0.5556


def test_differences_are_paired_over_common_samples() -> None:
    before, after = rows("a", [0, 0, 0, 0, 1, None]), rows("a", [1, 1, 1, 1, 1, 1])
    found = paired_difference_of(after, before)
    assert found is not None and (found.mean, found.n) == (0.8, 5) and 0.05 < found.p < 0.3  # 2 of 16 sign patterns
    same = paired_difference_of(before, before)
    assert same is not None and (same.mean, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert paired_difference_of(after, rows("b", [1])) is None


@pytest.fixture(scope="module")
def two_runs(shared_model, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    toy_model, tmp_path = shared_model, tmp_path_factory.mktemp("runs")
    config = BenchmarkConfig(judge=Endpoint(base_url=toy_model.url, model="toy"))
    samples = read_samples("mini", None, limit=2)
    for mode, answer in (("plain", "C"), ("judge_only", "<script>alert(1)</script>刑法第264条；盗窃；A")):
        toy_model.reply = lambda prompt, answer=answer: answer
        toy_model.behave = lambda prompt, attempt: "400" if "高空抛物" in prompt else "ok"
        run_benchmark("mini", samples, config, mode, tmp_path / mode)  # type: ignore[arg-type]
    return [tmp_path / "plain", tmp_path / "judge_only"]


def test_the_report_has_all_tables_in_every_format(two_runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out" / "report.html"
    retrieval = {"overall": {"ndcg": 0.7123, "recall": 0.8, "mrr": 0.69, "hit": 0.8}}
    written = write_report(two_runs, out, retrieval=retrieval)
    html = out.read_text(encoding="utf-8")
    keys = ["runs", "differences", "tasks_mini", "categories", "complexity", "main", "ablation", "pipeline", "statutes"]
    assert re.findall(r'<section id="(\w+)" aria-labelledby', html) == [*keys, "progression", "cost"]
    assert "0.7123" in html and "60.28" in html and html.count("<svg") >= 4
    assert "http://" not in html and "https://" not in html  # nothing is loaded from anywhere
    links = set(re.findall(r'href="(report_samples/[^"]+)"', html))
    assert links and all((out.parent / link).is_file() for link in links)
    assert {path.suffix for path in written} == {".html", ".csv", ".md", ".tex"}
    table = list(csv.DictReader((out.with_suffix(".csv")).open(encoding="utf-8")))
    scores = {(row["row"], row["column"]): row["value"] for row in table if row["table"] == "runs"}
    for folder in two_runs:
        run = Run(folder)
        assert scores[run.label, "score"] == f"{100 * run.scores['average']:.2f}" and scores[run.label, "failed"] == "1"
    assert "\\toprule" in out.with_suffix(".tex").read_text("utf-8") and "| Legal-R1 |" in out.with_suffix(
        ".md"
    ).read_text("utf-8")


def test_a_sample_page_shows_grade_and_reason_and_no_foreign_markup(two_runs: list[Path], tmp_path: Path) -> None:
    write_report(two_runs, tmp_path / "report.html")
    pages = tmp_path / "report_samples" / "mini-judge-only"
    page = (pages / "m_articles.html").read_text(encoding="utf-8")
    assert "刑法第264条" in page and "100.00" in page and "<script>alert" not in page
    failed = (pages / "m_summary.html").read_text(encoding="utf-8")
    assert "Error code: 400" in failed


def test_the_command_and_its_mistakes(two_runs: list[Path], tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as done:
        main(["eval", "report", *map(str, two_runs), "--out", str(tmp_path / "r.html"), "--json"])
    assert done.value.code == 0 and str(tmp_path / "r.html") in json.loads(capsys.readouterr().out)["files"]
    with pytest.raises(BenchmarkError, match=r"scores\.json: missing"):
        write_report([tmp_path], tmp_path / "r.html")
    with pytest.raises(BenchmarkError, match="baseline is none"):
        write_report(two_runs, tmp_path / "r.html", tmp_path)


def test_predictions_of_others_become_a_run(tmp_path: Path) -> None:
    path = tmp_path / "1_1.jsonl"
    path.write_text('{"input": "问", "output": "A", "answer": "A"}\n{"output": "B", "answer": "A"}\n', encoding="utf-8")
    scores = import_predictions(find_files(path, "lexeval"), "GPT-X", tmp_path / "run")
    assert scores["average"] == 0.5 and scores["mode"] == "GPT-X"
    write_report([tmp_path / "run"], tmp_path / "r.html")
    page = (tmp_path / "r_samples" / "lexeval-GPT-X" / "1_1.html").read_text(encoding="utf-8")
    (row,) = [
        r for r in csv.reader((tmp_path / "r.csv").open()) if r[:3] == ["main", "this run: lexeval GPT-X", "Retrieval"]
    ]
    assert row[3] == MISSING  # whether GPT-X retrieves is not known
    assert "(the file does not hold the question)" in page and "this run: lexeval GPT-X" in (
        tmp_path / "r.html"
    ).read_text("utf-8")
    with pytest.raises(ConfigError, match="not empty"):
        import_predictions(find_files(path, "lexeval"), "GPT-X", tmp_path / "run")


@pytest.fixture
def copies(two_runs: list[Path], tmp_path: Path) -> Callable[..., Path]:
    """Copies of the toy runs that say they are of another benchmark, mode or model."""

    def copy(name: str, benchmark: str, mode: str, judge: str = "toy", number: int = 0, tasks: int = 20) -> Path:
        folder = tmp_path / name
        shutil.copytree(two_runs[number], folder)
        scores = json.loads((folder / "scores.json").read_text("utf-8"))
        names = list(load_tasks(benchmark))[:tasks]
        rows = list(scores["tasks"].values())
        swapped = dict(zip(scores["tasks"], names, strict=False))
        scores |= {"benchmark": benchmark, "mode": mode, "tasks": dict(zip(names, rows, strict=False))}
        (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
        run = json.loads((folder / "run.json").read_text("utf-8"))
        run["config"]["judge"]["model"] = judge
        (folder / "run.json").write_text(json.dumps(run | {"mode": mode}), encoding="utf-8")
        for file in ("samples.jsonl", "trace.jsonl"):
            lines = [json.loads(line) for line in (folder / file).read_text("utf-8").splitlines()]
            lines = [row | {"task": swapped[row["task"]]} for row in lines if row["task"] in swapped]
            (folder / file).write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
        return folder

    return copy


def test_every_run_has_its_row_and_its_pages(copies, tmp_path: Path) -> None:
    """Two models in one mode: neither takes the other's place in the paper's table, nor its sample pages."""
    folders = [copies(f"{name}/lawbench/full", "lawbench", "full", f"model-{name}") for name in "ab"]
    folders.append(copies("a/lexeval/full", "lexeval", "full", "model-a"))
    runs = read_runs(folders)
    assert len({run.label for run in runs}) == len({run.slug for run in runs}) == 3
    main = next(table for table in paper_tables(runs, None) if table.key == "main")
    ours = [[cell.text for cell in main.rows[number]] for number in main.ours]
    assert len(ours) == 2 and "model-a" in ours[0][0] and "model-b" in ours[1][0]
    assert ours[0][5] != MISSING and ours[1][5] == MISSING  # model-a has LexEval too
    (tasks,) = [table for table in task_tables(runs, runs[0], tmp_path / "r.html") if table.key == "tasks_lawbench"]
    assert len(set(tasks.header)) == len(tasks.header)


def test_two_labels_with_one_slug_keep_their_pages(copies) -> None:
    runs = read_runs([copies("a", "mini", "x y"), copies("b", "mini", "x-y")])
    assert runs[0].slug != runs[1].slug


def test_a_part_of_a_benchmark_is_not_taken_for_the_whole(copies) -> None:
    runs = read_runs([copies("a", "lawbench", "full", tasks=3)])
    tables = {table.key: table for table in paper_tables(runs, None)}
    assert all("3 of 20 tasks, n = " in tables["main"].rows[-1][3].ci for key in ("main", "pipeline"))
    assert tables["cost"].rows[-1][1].text == MISSING  # LawBench's rule score alone is no average of the paper's
    assert tables["cost"].rows[-1][0].ci.startswith("3 of 20 tasks")


def test_every_benchmark_has_its_differences(copies) -> None:
    folders = [copies(f"{b}-{m}", b, m) for b in ("lawbench", "lexeval") for m in ("judge_only", "full")]
    runs = read_runs(folders)
    rows = [[cell.text for cell in row[:2]] for row in difference_table(runs, runs[1]).rows]
    assert rows == [["lawbench judge_only", "lawbench full"], ["lexeval judge_only", "lexeval full"]]


def test_a_retrieval_result_of_another_form_is_one_line(two_runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no `overall`"):
        write_report(two_runs, tmp_path / "r.html", retrieval={"overall": {"ndcg": 1}})
    (tmp_path / "r.json").write_text("{", encoding="utf-8")
    with pytest.raises(SystemExit) as done:
        main(["eval", "report", str(two_runs[0]), "--retrieval", str(tmp_path / "r.json")])
    assert done.value.code not in (0, None)


def test_the_published_numbers_are_whole() -> None:
    for key in ("main", "ablation", "pipeline", "statutes", "progression", "cost"):
        table = published()[key]
        assert all(len(row) == len(table["header"]) for row in table["rows"])
    for row in published()["main"]["rows"]:
        assert row[7] == pytest.approx(sum(row[3:7]) / 4, abs=0.008)  # Avg is the mean of the four columns


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")
def test_the_page_opens_in_a_browser_and_on_a_phone(two_runs: list[Path], tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    out = tmp_path / "report.html"
    write_report(two_runs, out)
    said, asked = [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width in (1200, 390):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(out.as_uri())
            assert page.locator("table").count() == 11 and page.get_by_text("法条预测").count() >= 1
            assert page.locator("svg.chart").count() >= 4
            assert page.evaluate("document.documentElement.scrollWidth") <= width  # wide tables scroll in themselves
            with page.expect_navigation():
                page.locator('a[href^="report_samples/"]').first.click()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.get_by_text("参考").count() + page.get_by_text("reference").count() >= 1
            page.close()
        browser.close()
    assert said == [] and all(url.startswith("file://") for url in asked)
