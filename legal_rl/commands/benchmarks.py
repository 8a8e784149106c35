"""`legal-rl eval score|lawbench|lexeval|precedents|report`: the paper's benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from legal_rl.commands.shared import JsonOption, console, errors, print_json, require_file
from legal_rl.errors import ConfigError

if TYPE_CHECKING:
    from legal_rl.evaluation.benchmarks.scoring import TaskScore

FixedOption = Annotated[bool, typer.Option("--fixed", help="Mend the plain mistakes of the upstream scorers.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `legal-rl eval`."""
    app.command("score")(score)
    app.command("lawbench")(lawbench)
    app.command("lexeval")(lexeval)
    app.command("mini")(mini)
    app.command("precedents")(precedents)
    app.command("judge")(judge)
    app.command("report")(report)


def score(
    path: Annotated[Path | None, typer.Argument(help="A prediction file, or a folder of files named by task.")] = None,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", help="lawbench or lexeval; else by file name.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be repeated.")] = None,
    predictions: Annotated[Path | None, typer.Option("--predictions", help="The same as PATH.")] = None,
    fixed: FixedOption = False,
    workers: Annotated[int, typer.Option(help="Processes; 0 = all cores.")] = 0,
    samples: Annotated[Path | None, typer.Option("--samples", help="Also write every sample's grade there.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also make a run folder for `eval report`.")] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the system in that run folder.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Score published or own predictions of LawBench or LexEval as the benchmark's own scorer does.

    Example: legal-rl eval score predictions/lawbench/GPT4 --benchmark lawbench --json
    """
    from legal_rl.evaluation.benchmarks.predictions import find_files, guess_benchmark, write_lines
    from legal_rl.evaluation.benchmarks.scoring import score_files

    where = path or predictions
    if where is None or not where.exists():
        raise ConfigError(f"{where}: no such file or folder" if where else "give a prediction file or folder")
    chosen = benchmark or guess_benchmark(where)
    if chosen is None:
        raise ConfigError(f"{where}: the file names tell no benchmark; give --benchmark lawbench or lexeval")
    files = find_files(where, chosen, task or ())
    if out is not None:
        from legal_rl.evaluation.benchmarks.imported import import_predictions

        import_predictions(files, name or where.name, out)
    with progress_bar("grading", hidden=as_json) as told:
        scores = score_files(files, "fixed" if fixed else "upstream", workers or None, told)
    if samples is not None:
        write_lines(samples, sample_rows(scores))
    if as_json:
        print_json(scores[0].as_dict() if where.is_file() else score_summary(scores))
        return
    console.print(score_table(scores))


ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Settings of the run, YAML; see docs/benchmarks.md.")
]
RunOption = Annotated[Path | None, typer.Option("--run", help="Take the trained Lawyer and index of this run folder.")]
ModeOption = Annotated[
    str, typer.Option("--mode", help="plain, judge_only, hybrid, rerank, one_turn, three_turn, full, or a control.")
]
DataOption = Annotated[Path, typer.Option("--data", help="Folder with the benchmark's files, one per task.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Folder of this run; default runs/eval/NAME/MODE.")]
TaskOption = Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be repeated.")]
LimitOption = Annotated[int, typer.Option("--limit", help="Only the first so many questions per task; 0 = all.")]


def lawbench(
    data: DataOption,
    config: ConfigOption = None,
    run: RunOption = None,
    mode: ModeOption = "full",
    out: OutOption = None,
    task: TaskOption = None,
    limit: LimitOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Answer LawBench's questions with a system and score them. Killed, it goes on where it stopped.

    Example: legal-rl eval lawbench --config eval.yaml --mode full --data LawBench/data/zero_shot --out runs/eval/full
    """
    _evaluate("lawbench", data, config, run, mode, out, task, limit, as_json)


def lexeval(
    data: DataOption,
    config: ConfigOption = None,
    run: RunOption = None,
    mode: ModeOption = "full",
    out: OutOption = None,
    task: TaskOption = None,
    limit: LimitOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Answer LexEval's questions with a system and score them. Killed, it goes on where it stopped.

    Example: legal-rl eval lexeval --config eval.yaml --mode judge_only --data LexEval/data --task 3_1 --limit 50
    """
    _evaluate("lexeval", data, config, run, mode, out, task, limit, as_json)


def mini(
    config: ConfigOption = None,
    run: RunOption = None,
    mode: ModeOption = "full",
    out: OutOption = None,
    task: TaskOption = None,
    limit: LimitOption = 0,
    as_json: JsonOption = False,
) -> None:
    """The built-in benchmark: 75 own questions, every kind of answer; needs no data.

    Example: legal-rl eval mini --run runs/quickstart --mode one_turn
    """
    _evaluate("mini", None, config, run, mode, out, task, limit, as_json)


def precedents(
    qrels: Annotated[Path, typer.Option("--qrels", help="Relevance labels, TREC form.")],
    queries: Annotated[Path | None, typer.Option("--queries", help="Queries with id and fact, JSON (Lines).")] = None,
    candidates: Annotated[
        list[str] | None, typer.Option("--candidates", help="Folder or file of candidate cases; may be repeated.")
    ] = None,
    run_file: Annotated[Path | None, typer.Option("--run-file", help="Measure this TREC run instead.")] = None,
    encoder: Annotated[str, typer.Option(help="fuse, none, or a sentence-transformers name or folder.")] = "none",
    index: Annotated[Path | None, typer.Option("--index", help="Keep the index here and use it again.")] = None,
    relevant_from: Annotated[int, typer.Option(help="Lowest label that counts as relevant for the recall.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Recall at 100, 200, 500, 1000 and nDCG of precedent retrieval on LeCaRDv2.

    Example: legal-rl eval precedents --qrels test_qrels.trec --queries query.json --candidates candidate/
    """
    from legal_rl.evaluation.precedents import evaluate_precedents

    result = evaluate_precedents(
        qrels, run=run_file, queries=queries, candidates=candidates or (), encoder=encoder, index_dir=index,
        relevant_from=relevant_from,
    )  # fmt: skip
    if as_json:
        print_json(result)
        return
    skipped = result["skipped"]
    title = f"{result['n']} queries, {skipped['not_ranked']} of them not ranked (0); {skipped['no_relevant_label']} "
    title += f"without a relevant label left out; {result['cut_queries']} cut to {result['max_query_chars']} characters"
    table = Table("measure", "value", "95 %", title=title, title_justify="left")
    for name, value in result["overall"].items():
        low, high = result["ci95"][name]
        table.add_row(name, f"{value:.4f}", f"{low:.3f}–{high:.3f}")
    console.print(table)


def judge(
    run: Annotated[Path | None, typer.Argument(help="A finished run folder; none with --calibrate.")] = None,
    *,
    base_url: Annotated[str, typer.Option("--base-url", help="Root of the judge's API, with /v1.")],
    model: Annotated[str, typer.Option("--model", help="The judge's model.")],
    every_task: Annotated[bool, typer.Option("--every-task", help="Also tasks with an exact rule score.")] = False,
    concurrency: Annotated[int, typer.Option(help="Verdicts in flight.")] = 32,
    thinking: Annotated[bool, typer.Option(help="Leave the judge's thinking on.")] = False,
    calibration: Annotated[bool, typer.Option("--calibrate", help="Compare it with our scores of 60 answers.")] = False,
    as_json: JsonOption = False,
) -> None:
    """A second score by an LLM judge, twice per answer, kept apart from the rule scores.

    Examples:

      legal-rl eval judge runs/eval/lawbench/full --base-url http://127.0.0.1:8002/v1 --model Qwen/Qwen3-8B

      legal-rl eval judge --calibrate --base-url http://127.0.0.1:8002/v1 --model Qwen/Qwen3-8B
    """
    from legal_rl.evaluation.benchmarks.judging import calibrate, judge_run
    from retrieval_server.config import LLMConfig

    config = LLMConfig(
        base_url=base_url, model=model, max_concurrency=concurrency, deadline_s=600, request_timeout_s=120,
        disable_thinking=not thinking,
    )  # fmt: skip
    if calibration:
        print_json(calibrate(config))
        return
    if run is None:
        raise ConfigError("name a finished run folder, or --calibrate")
    with progress_bar("verdicts", hidden=as_json) as told:
        found = judge_run(run, config, every_task=every_task, progress=told)
    if as_json:
        print_json(found)
    else:
        agree = found["consistency"]["within_one"]
        console.print(
            f"judge {model}: {_points(found['average'])} points over {len(found['tasks'])} tasks, n = {found['n']}, "
            f"failed {found['failed']}, two gradings within 1 of 10: {_points(agree)} %",
            highlight=False,
        )
    if found["failed"]:
        raise typer.Exit(1)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Finished run folders.")],
    out: Annotated[Path, typer.Option("--out", help="The HTML file; CSV, Markdown and LaTeX lie beside it.")] = Path(
        "report.html"
    ),
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Compare with this run; else the first.")] = None,
    retrieval: Annotated[
        Path | None, typer.Option("--retrieval", help="JSON of `eval retrieval`, for table 5.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The paper's tables with these runs beside the published numbers, plots, and a page for every sample.

    Example: legal-rl eval report runs/eval/lawbench/judge_only runs/eval/lawbench/full --out report.html
    """
    from legal_rl.evaluation.benchmarks.report import write_report
    from legal_rl.evaluation.benchmarks.report_data import read_json

    measured = read_json(require_file(retrieval, "JSON of `eval retrieval`")) if retrieval else None
    written = write_report(runs, out, baseline, measured)
    if as_json:
        print_json({"files": [str(path) for path in written]})
        return
    console.print(f"{out} and {len(written) - 1} more files", highlight=False)


def _evaluate(
    benchmark: str,
    data: Path | None,
    config: Path | None,
    run: Path | None,
    mode: str,
    out: Path | None,
    task: list[str] | None,
    limit: int,
    as_json: bool,
) -> None:
    from legal_rl.evaluation.benchmarks.runner import run_benchmark
    from legal_rl.evaluation.benchmarks.samples import read_samples
    from legal_rl.evaluation.benchmarks.settings import check_mode, load_benchmark_config

    if config is None and run is None:
        raise ConfigError("name the models: --config FILE or --run FOLDER")
    settings = load_benchmark_config(config, run)
    check_mode(settings, mode)
    samples = read_samples(benchmark, data, task or (), limit or None)
    folder = out or Path("runs/eval") / benchmark / mode
    with progress_bar(f"{benchmark} {mode}", hidden=as_json) as told:
        scores = run_benchmark(benchmark, samples, settings, mode, folder, told)  # type: ignore[arg-type]
    if as_json:
        print_json(scores | {"out": str(folder)})
    else:
        console.print(run_table(scores))
        console.print(f"{folder}: predictions, trace, scores; `legal-rl eval report {folder}` makes the page")
    if scores["failed"]:
        errors.print(f"{scores['failed']} of {scores['n']} samples failed; the same command asks them again")
        raise typer.Exit(1)


def run_table(scores: dict[str, Any]) -> Table:
    """One run's scores in points of 100, failures beside them."""
    table = Table("task", "name", "upstream", "95 %", "fixed", "abstained", "failed", "n", title_justify="left")
    for name, row in scores["tasks"].items():
        if "score" not in row:
            table.add_row(name, "", "–", "", "–", "", str(row["failed"]), "0")
            continue
        low, high = (_points(bound) for bound in row["ci95"])
        table.add_row(
            name, row["name"], _points(row["score"]), f"{low}–{high}", _points(row["fixed_score"]),
            f"{100 * row['abstention_rate']:.1f} %", str(row["failed"]), str(row["n"]),
        )  # fmt: skip
    mean, fixed = _points(scores["average"]), _points(scores["average_fixed"])
    table.add_row("mean", "", mean, "", fixed, "", str(scores["failed"]), str(scores["n"]), style="bold")
    return table


def _points(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def score_summary(scores: list[TaskScore]) -> dict[str, Any]:
    """Scores of several tasks as plain values, with the mean over tasks, overall and by category."""
    from legal_rl.evaluation.benchmarks.scoring import average, plain, unscored
    from legal_rl.evaluation.benchmarks.tasks import CATEGORIES

    groups = {name: [s for s in scores if s.task.category == name] for name in CATEGORIES}
    return {
        "benchmark": scores[0].task.benchmark,
        "mode": scores[0].mode,
        "average": plain(average(scores)),
        "by_category": {name: plain(average(group)) for name, group in groups.items() if group},
        "unscored": unscored(scores),
        "n": sum(s.n for s in scores),
        "tasks": {s.task.id: s.as_dict() for s in scores},
    }


def score_table(scores: list[TaskScore]) -> Table:
    """Scores in points of 100, with intervals."""
    from legal_rl.evaluation.benchmarks.scoring import average, plain, unscored

    table = Table("task", "name", "metric", "score", "95 %", "abstained", "n", title_justify="left")
    for item in scores:
        interval = f"{_points(plain(item.interval.low))}–{_points(plain(item.interval.high))}"
        abstained = f"{100 * item.abstention_rate:.1f} %"
        count = str(item.n) if item.n == item.evaluated else f"{item.evaluated} of {item.n}"
        table.add_row(
            item.task.id, item.task.name, item.task.metric, _points(plain(item.score)), interval, abstained, count
        )
    counted = len(scores) - len(unscored(scores))
    table.add_row("mean", f"{counted} tasks", "", _points(plain(average(scores))), "", "", "", style="bold")
    return table


def sample_rows(scores: list[TaskScore]) -> Iterator[dict[str, Any]]:
    """One row per sample: its grade and what was read from the answer."""
    for item in scores:
        for index, grade in enumerate(item.grades):
            yield {
                "task": item.task.id,
                "idx": index,
                "score": grade.score,
                "counted": grade.counted,
                "abstained": grade.abstained,
                "extracted": grade.extracted,
                "note": grade.note,
            }


@contextmanager
def progress_bar(text: str, hidden: bool = False) -> Iterator[Any]:
    """A bar on standard error, told (done, total); nothing where nobody watches."""
    columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=hidden or not sys.stderr.isatty()) as progress:
        bar = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
