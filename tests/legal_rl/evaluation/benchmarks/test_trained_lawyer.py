"""The whole evaluation of a Lawyer in this process: vLLM, a real index, three modes, and the report over them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs.env import EnvConfig
from legal_rl.config import REPOSITORY
from legal_rl.evaluation.benchmarks.predictions import read_lines
from legal_rl.evaluation.benchmarks.report import write_report
from legal_rl.evaluation.benchmarks.runner import run_benchmark
from legal_rl.evaluation.benchmarks.samples import read_samples
from legal_rl.evaluation.benchmarks.settings import BenchmarkConfig, load_benchmark_config
from legal_rl.evaluation.benchmarks.tasks import load_tasks
from legal_rl.evaluation.local_engine import EngineSettings

RUN = REPOSITORY / "runs" / "quickstart"
TINY = EnvConfig(
    max_turns=3, top_k=1, evidence_chars=40, evidence_style="compact", max_response_tokens=300, max_turn_tokens=48,
    forced_answer_tokens=64, system_prompt="lawyer_system_compact",
)  # fmt: skip


@pytest.fixture
def lawyer(tmp_path: Path) -> BenchmarkConfig:
    """The quickstart's trained Lawyer where that run is finished, else an untrained one over four articles."""
    if (RUN / "grpo" / "model").is_dir() and (RUN / "index").is_dir():
        return load_benchmark_config(None, RUN).model_copy(update={"concurrency": 75})
    from legal_rl.policy_model.build import build_policy
    from legal_rl.policy_model.settings import PolicySettings
    from retrieval_server.index import build_index

    texts = [f"第{n}条 盗窃公私财物，处罚金{n}元，法律另有规定的除外。" for n in range(1, 40)]
    settings = PolicySettings(
        vocab_size=700, layers=2, hidden_size=64, heads=2, kv_heads=2, ffn_size=64, steps=2, minutes=0,
        tokens_per_step=1024, max_length=1024, warmup_steps=1, checkpoint_steps=2, log_steps=1, threads=1,
    )  # fmt: skip
    build_policy(settings, texts, [f"<search>{text}</search>" for text in texts], tmp_path / "model")
    norms = tmp_path / "norms.jsonl"
    norms.write_text(
        "".join(
            json.dumps(
                {
                    "id": f"law/刑法@2023-12-29#{n}", "kind": "law", "law_title": "刑法", "law_key": "刑法",
                    "article_no": n, "article_label": f"第{n}条", "text": text,
                },
                ensure_ascii=False,
            )
            + "\n"
            for n, text in enumerate(texts, start=1)
        ),
        encoding="utf-8",
    )  # fmt: skip
    build_index(tmp_path / "index", [str(norms)], ["generated:count=4"], "none")
    return BenchmarkConfig(
        lawyer_model=str(tmp_path / "model"), index_dir=str(tmp_path / "index"), environment=TINY, concurrency=75,
        engine=EngineSettings(kv_cache_gib=0.25, threads=1),
    )  # fmt: skip


@pytest.mark.slow
def test_a_lawyer_is_evaluated_in_three_modes(lawyer: BenchmarkConfig, tmp_path: Path) -> None:
    samples = read_samples("mini", None)
    runs = []
    for mode in ("judge_only", "one_turn", "full"):
        out = tmp_path / mode
        scores = run_benchmark("mini", samples, lawyer, mode, out)  # type: ignore[arg-type]
        cost = json.loads((out / "efficiency.json").read_text(encoding="utf-8"))
        assert scores["n"] == len(samples) >= 60 and scores["failed"] == 0
        assert {row["n"] for row in scores["tasks"].values()} == {5} and set(scores["tasks"]) == set(load_tasks("mini"))
        assert cost["all"]["output_tokens"] > 0 and cost["output_tokens_per_s"] > 0
        entries = read_lines(out / "trace.jsonl")
        counts = [len(entry["queries"]) for entry in entries]
        assert all(entry["stop_reason"] and entry["turns"] for entry in entries)  # every trajectory is there to read
        most = {"judge_only": 0, "one_turn": 1, "full": lawyer.environment.max_turns - 1}[mode]
        assert max(counts) <= most and cost["all"]["searches"] == pytest.approx(sum(counts) / len(counts))
        runs.append(out)
    written = write_report(runs, tmp_path / "report.html")
    assert len(written) == 4 + 3 * 15


@pytest.mark.slow
def test_replicas_on_ray_answer_as_one_engine_does(lawyer: BenchmarkConfig, tmp_path: Path) -> None:
    samples = read_samples("mini", None, limit=1)
    answers = []
    for copies in (1, 2):
        out = tmp_path / str(copies)
        config = lawyer.model_copy(update={"lawyer_replicas": copies})
        assert run_benchmark("mini", samples, config, "judge_only", out)["failed"] == 0
        answers.append({entry["id"]: entry["prediction"] for entry in read_lines(out / "trace.jsonl")})
    same = [answers[0][name] == answers[1][name] for name in answers[0]]
    assert len(same) == len(samples) and sum(same) >= 0.8 * len(same)  # batches of another size round differently
