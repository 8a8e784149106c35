"""docs/monitoring.md and the Grafana dashboard name metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from legal_rl.config import REPOSITORY
from legal_rl.serving.metrics import ServeMetrics
from legal_rl.training.rails import Alarms, health_metrics
from legal_rl.training.rollout_info import reward_info
from legal_rl.training.settings import GrpoSettings
from retrieval_server.metrics import ServiceMetrics

DOC = (REPOSITORY / "docs" / "monitoring.md").read_text(encoding="utf-8")
DASHBOARD = REPOSITORY / "launch" / "grafana.json"


def rollout_metrics() -> set[str]:
    """What a step reports of a real rollout."""
    import asyncio

    from envs.env import EnvConfig, LegalEnv
    from envs.policy import ScriptedPolicy
    from envs.rollout import run_rollout
    from envs.types import Question
    from rewards import compute_reward

    env = LegalEnv(None, EnvConfig())  # type: ignore[arg-type]
    rollout = asyncio.run(run_rollout(Question("q", "问", "答"), ScriptedPolicy(["<answer>答</answer>"]), env))
    info = reward_info(rollout, compute_reward(rollout), mismatch=False)
    searched = info | {"num_searches": 1.0, "tool_seconds": 0.1}
    return {*info, *health_metrics([searched], []), *Alarms().observe({}, 1)}


def test_every_metric_of_the_table_is_reported() -> None:
    known = rollout_metrics()
    table = DOC.partition("| metric | what |")[2].partition("## Alarms")[0]
    named = {name for row in re.findall(r"^\| (.*?) \|", table, flags=re.M) for name in re.findall(r"`([\w/]+)`", row)}
    verls = {name for name in named if name.startswith(("actor/", "groups/", "training/"))}
    ours = named - verls - {"align", "gain", "query", "fmt", "rho", "bonus", "total", "constant", "invalid", "refills"}
    assert ours - {"/p95"} <= known, ours - known
    assert {f"alarm/{name}" for name in Alarms.NAMES} <= known and {"valid/acc", "reward/total"} <= known


def test_the_numbers_of_the_text_are_the_defaults() -> None:
    grpo = GrpoSettings()
    assert f"more than {grpo.max_invalid:.0%} over {grpo.invalid_window} steps".replace("%", " %") in DOC
    assert f"more than {grpo.max_empty_evidence:.0%} over {grpo.empty_evidence_window} steps".replace("%", " %") in DOC
    assert f"{grpo.retrieval_patience_s:.0f} s (`grpo.retrieval_patience_s`)" in DOC
    alarms = grpo.alarms
    for text in (f"over {alarms.kl:g} nats", f"under {alarms.entropy_floor:g} nats", f"are {alarms.window} steps"):
        assert text in DOC
    assert all(f"`{name}`" in DOC for name in Alarms.NAMES)


def exported() -> set[str]:
    """Names in the exposition of both services, without labels."""

    class Assistant:
        index = type("Index", (), {"articles": (), "cases": ()})
        cache = type("Cache", (), {"hits": 0, "misses": 0})
        batches = batched_queries = 0
        llm = type("LLM", (), {"calls": {}})

    made: list[Any] = [ServiceMetrics(Assistant()), ServeMetrics()]  # type: ignore[arg-type]
    families = [family for metrics in made for family in metrics.registry.collect()]
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    return {family.name + suffix for family in families for suffix in suffixes[family.type]}


def test_every_panel_asks_for_metrics_that_are_exported() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    known, seen = exported(), set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            seen |= set(re.findall(r"legal_rl_\w+", target["expr"]))
        assert panel["datasource"]["uid"] == "${source}" and panel["title"]
    assert seen <= known, seen - known
    assert len(seen) >= 18 and len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_documents_name_the_dashboard() -> None:
    assert "launch/grafana.json" in DOC and Path(DASHBOARD).is_file()
