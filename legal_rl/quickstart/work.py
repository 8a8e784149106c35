"""The work of each stage, run as `python -m legal_rl.quickstart.work STAGE CONFIG FOLDER` in a process of its own.

Leaves `stage.json` in the stage's folder. Heavy imports happen inside the stage that needs them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from legal_rl.config import RunConfig, load_config
from legal_rl.errors import LegalRLError, explain_system_error
from legal_rl.quickstart.inputs import fetch_model
from legal_rl.quickstart.progress import bar
from legal_rl.quickstart.stages import write_json

if TYPE_CHECKING:
    from envs.types import Question
    from retrieval_server.assistant import LegalAssistant

Summary = dict[str, Any]


def knowledge(config: RunConfig, folder: Path) -> Summary:
    """Build the index, or find that it is there."""
    from retrieval_server.index import ensure_index

    settings = config.knowledge
    index = ensure_index(config.index_path, settings.articles, settings.cases, settings.encoder)
    return {"articles": len(index.articles), "cases": len(index.cases), "index": index.version}


def trajectories(config: RunConfig, folder: Path) -> Summary:
    """Questions from the corpus, through the data pipeline, and the teacher's trajectories with the real Assistant."""
    from legal_rl.data.pipeline.curriculum import through_pipeline
    from legal_rl.data.questions import build_questions
    from legal_rl.data.synthesize import synthesize

    assistant = _assistant(config)
    sets = build_questions(assistant.index.articles, assistant.index.cases, config.questions)
    sets, checked = through_pipeline(
        sets, folder / "set", benchmarks=[Path(name) for name in config.questions.benchmarks],
        facts={"index": assistant.index.version, "seed": config.questions.seed},
    )  # fmt: skip
    with bar("trajectories") as progress:
        manifest = synthesize(sets, assistant, config.environment, folder, config.teacher, progress)
    return {
        "records": checked["records"],
        "discarded": sum(checked["discarded"].values()),
        "trajectories": sum(manifest["sft"]["kept"].values()),
        "dropped": sum(manifest["sft"]["dropped"].values()),
        "grpo_questions": manifest["grpo"]["questions"],
        "test_questions": manifest["test"]["questions"],
        "teacher_accuracy": manifest["test"]["teacher_accuracy"],
    }


def policy(config: RunConfig, folder: Path) -> Summary:
    """The base policy: built here, unless the configuration names a model."""
    if config.model:
        return {"model": config.model}
    from envs.records import read_rollouts
    from legal_rl.data.splits import training_texts
    from legal_rl.policy_model.build import build_policy
    from retrieval_server.index import open_index

    _threads(config.policy.threads)
    texts = list(training_texts(open_index(config.index_path).articles, config.questions.seed))
    rollouts = read_rollouts(config.run_path / "trajectories" / "sft.rollouts.jsonl")
    protocol = [message["content"] for rollout in rollouts for message in rollout.messages]
    settings = config.policy.model_copy(update={"seed": config.policy.seed + config.seed})
    state = build_policy(settings, texts, protocol, folder / "model")
    _copy(folder / "model" / "pretrain.jsonl", folder / "metrics.jsonl")
    return {"steps": state.step, "tokens": state.tokens}


def sft(config: RunConfig, folder: Path) -> Summary:
    """Evidence-masked SFT on the trajectories."""
    from legal_rl.training.metrics import read_metrics
    from legal_rl.training.sft import run_sft

    settings = config.sft.model_copy(update={"seed": config.sft.seed + config.seed})
    records = config.run_path / "trajectories" / "sft.rollouts.jsonl"
    count = sum(1 for _ in records.open(encoding="utf-8"))
    total = settings.max_steps or settings.epochs * (count // settings.batch_size)
    with bar("sft", unit="step") as progress:
        result = run_sft(settings, records, base_model(config), folder, _steps(progress, total))
    losses = [row["train/loss"] for row in read_metrics(result.metrics_file) if "train/loss" in row]
    return {
        "steps": result.steps,
        "loss": losses[-1] if losses else None,
        "logit_difference": result.max_logit_difference,
    }


def grpo(config: RunConfig, folder: Path) -> Summary:
    """GRPO from the SFT model, against a retrieval server of its own."""
    from legal_rl.quickstart.serving import retrieval_server
    from legal_rl.training.grpo import run_grpo
    from legal_rl.training.metrics import read_metrics

    settings = config.grpo.model_copy(update={"seed": config.grpo.seed + config.seed})
    data = config.run_path / "trajectories"
    config_file = config.run_path / "config.yaml"
    with (
        retrieval_server(config.index_path, config_file, folder / "retrieval.log") as url,
        bar("grpo", unit="step") as progress,
    ):
        result = run_grpo(
            settings,
            data / "grpo.questions.jsonl",
            data / "dev.questions.jsonl",
            config.run_path / "sft" / "model",
            folder,
            url,
            config.environment,
            reward_preset=config.rewards.preset,
            reward_weights=config.rewards.weights,
            judge=config.rewards.judge.model_dump() if config.rewards.judge else None,
            on_step=_steps(progress, settings.max_steps or 0),
            on_notice=lambda line: print(line, flush=True),
        )
    rows = read_metrics(result.metrics_file)
    return {
        "steps": result.steps,
        "token_mismatch_share": sum(row.get("token_mismatch", 0.0) for row in rows) / max(1, len(rows)),
        "reward_first": rows[0].get("critic/score/mean"),
        "reward_last": rows[-1].get("critic/score/mean"),
        "logit_difference": result.max_logit_difference,
    }


def evaluate(config: RunConfig, folder: Path) -> Summary:
    """The three policies on the same held-out questions, and the retrieval behind them."""
    from envs.records import read_questions

    questions = list(read_questions(config.run_path / "trajectories" / "test.questions.jsonl"))
    questions = questions[: config.evaluation.num_questions]
    assistant = _assistant(config)
    summary = _evaluate_at(config, questions, assistant, config.evaluation.temperature, folder)
    _retrieval_quality(config, questions, assistant)
    shown = _headline(summary)
    if config.evaluation.greedy_too:
        greedy = _evaluate_at(config, questions, assistant, 0.0, folder / "greedy")
        shown |= {f"greedy_{name}": value for name, value in _headline(greedy).items()}
    return shown


def _evaluate_at(
    config: RunConfig, questions: list[Question], assistant: LegalAssistant, temperature: float, folder: Path
) -> Summary:
    from legal_rl.evaluation.lawyer import evaluate_models
    from legal_rl.evaluation.local_engine import EngineSettings
    from rewards import RewardWeights

    models = {
        "untrained": base_model(config),
        "sft": config.run_path / "sft" / "model",
        "grpo": config.run_path / "grpo" / "model",
    }
    length = config.grpo.max_prompt_tokens + config.environment.max_response_tokens
    with bar("eval") as progress:
        return evaluate_models(
            models,
            questions,
            assistant,
            config.environment,
            folder,
            preset=config.rewards.preset,
            weights=RewardWeights(**config.rewards.weights),
            judge=config.rewards.judge,
            engine=EngineSettings(max_model_len=length, seed=config.seed),
            temperature=temperature,
            seed=config.seed,
            resamples=config.evaluation.bootstrap_samples,
            progress=progress,
        )


def _headline(summary: Summary) -> Summary:
    return {
        f"{name}_{metric}": values["metrics"][metric]["mean"]
        for name, values in summary["models"].items()
        for metric in ("reward", "correct")
    }


def base_model(config: RunConfig) -> Path:
    """Folder of the policy that SFT starts from."""
    if not config.model:
        return config.run_path / "policy" / "model"
    local = Path(config.model).expanduser()
    return local if local.is_dir() else fetch_model(config.model)


def _retrieval_quality(config: RunConfig, questions: list[Question], assistant: LegalAssistant) -> None:
    """Metrics of the Assistant on the held-out questions' own reference queries, into `retrieval.json`."""
    from legal_rl.evaluation.reference_queries import reference_query_quality

    write_json(config.run_path / "retrieval.json", reference_query_quality(questions, assistant))


def _assistant(config: RunConfig) -> LegalAssistant:
    from retrieval_server.assistant import LegalAssistant
    from retrieval_server.index import open_index

    return LegalAssistant(open_index(config.index_path), config.assistant)


def _steps(progress: Callable[[str, int, int], None], total: int) -> Callable[[dict[str, float]], None]:
    """Metrics of a step -> the bar: its number, and the loss or reward."""

    def on_step(row: dict[str, float]) -> None:
        shown = {name: row[key] for name, key in _SHOWN if key in row}
        text = " ".join(f"{name} {value:.3f}" for name, value in shown.items())
        progress(text, int(row["step"]), max(total, int(row["step"])))

    return on_step


_SHOWN = (("loss", "train/loss"), ("reward", "critic/score/mean"), ("acc", "acc"), ("searches", "num_searches"))


def _threads(count: int) -> None:
    """OpenMP reads its variables when torch is imported."""
    os.environ.setdefault("OMP_NUM_THREADS", str(count or len(os.sched_getaffinity(0))))


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        temporary = target.with_name(target.name + ".tmp")
        temporary.write_bytes(source.read_bytes())
        os.replace(temporary, target)


STAGE_WORK: dict[str, Callable[[RunConfig, Path], Summary]] = {
    "knowledge": knowledge,
    "trajectories": trajectories,
    "policy": policy,
    "sft": sft,
    "grpo": grpo,
    "eval": evaluate,
}


@contextmanager
def _ends_on_sigterm() -> Iterator[None]:
    """SIGTERM (the parent died, or Ctrl-C there) unwinds the stack, so that the stage's own children are ended."""

    def leave(*_: object) -> NoReturn:
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main(arguments: list[str]) -> int:
    """Run one stage; expected failures are one line in `error.txt` and on standard error."""
    name, config_file, folder = arguments[0], arguments[1], Path(arguments[2])
    error_file = folder / "error.txt"
    error_file.unlink(missing_ok=True)
    try:
        with _ends_on_sigterm():
            write_json(folder / "stage.json", STAGE_WORK[name](load_config(config_file), folder))
    except (LegalRLError, OSError) as error:
        text = str(error) if isinstance(error, LegalRLError) else explain_system_error(error, folder)
        if text is None:
            raise
        _leave_error(error_file, text)
        return 1
    return 0


def _leave_error(error_file: Path, text: str) -> None:
    """For the parent to read; where not even that can be written (full disk), on standard error."""
    try:
        error_file.write_text(text, encoding="utf-8")
    except OSError:
        print(f"error: {' '.join(text.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # engines and servers are closed by now; their interpreters' teardown takes seconds
