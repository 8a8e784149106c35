"""Serving configurations: the shipped ones load, mistakes are one line, and Serve accepts the files of launch/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from legal_rl.cli import main
from legal_rl.config import REPOSITORY, load_config, write_config
from legal_rl.errors import ConfigError
from legal_rl.serving.settings import SERVE_FOLDER, load_serve_config

LAUNCH = REPOSITORY / "launch"
NAMES = sorted(path.stem for path in SERVE_FOLDER.glob("*.yaml"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder that looks like a finished run."""
    config = load_config("quickstart", [f"run_dir={tmp_path / 'elsewhere'}"])
    write_config(config, tmp_path / "config.yaml")
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_shipped_configurations_load(name: str, run: Path) -> None:
    config = load_serve_config(name, [f"run={run}"] if name == "serve_cpu" else [])
    assert config.name == name and config.models()
    for model in config.models().values():
        if model.num_gpus:
            shared = model.num_gpus < 1
            assert not shared or model.num_gpus == model.engine.gpu_memory_utilization


def test_a_gpus_shares_do_not_exceed_it() -> None:
    config = load_serve_config("serve_single_gpu")
    assert sum(model.num_gpus * model.replicas for model in config.models().values()) <= 1
    four = load_serve_config("serve_4gpu")
    most = sum(model.num_gpus * max(model.replicas, model.max_replicas) for model in four.models().values())
    assert most <= 4 and len(four.judges) == 2


def test_a_run_brings_its_parts_and_the_file_wins(run: Path) -> None:
    config = load_serve_config("serve_cpu", [f"run={run}", "environment.max_turns=2"])
    assert config.lawyer and config.lawyer.path == str(run / "grpo" / "model")
    assert config.retrieval.index_dir == str(run / "index") and config.retrieval.assistant.brief_style == "compact"
    assert config.environment.system_prompt == "lawyer_system_compact" and config.environment.max_turns == 2
    assert config.lawyer.engine.threads == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["lawyr.path=x"], "unknown key lawyr; did you mean lawyer?"),
        (["judge=nobody"], "judge 'nobody' is not configured; there are lawyer"),
        (["judges.j={}"], "give exactly one of model and endpoint"),
        (["judges.lawyer={endpoint: {base_url: 'http://x/v1', model: m}}"], "choose another name"),
        (["retrieval.url=http://x"], "give exactly one of index_dir and url"),
        (["lawyer_endpoint={base_url: 'http://x/v1', model: m}"], "give exactly one of lawyer and lawyer_endpoint"),
        (["lawyer.max_replicas=1", "lawyer.replicas=2"], "max_replicas is 1, below replicas 2"),
        (["port=99999"], "port"),
        (["run=/no/such/run"], "no finished run here"),
    ],
)
def test_mistakes_are_one_line(run: Path, overrides: list[str], message: str) -> None:
    first = [] if overrides[0].startswith("run=") else [f"run={run}"]
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load_serve_config("serve_cpu", [*first, *overrides])
    assert "\n" not in str(caught.value)


def test_check_names_what_is_missing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "app", "--config", "serve_cpu", f"run={run}", "--check"])
    assert ended.value.code == 1 and "grpo/model does not exist" in capsys.readouterr().err


def test_a_key_is_made_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "key", "a", "--file", str(tmp_path / "k.yaml"), "--json"])
    assert ended.value.code == 0 and '"key": "lrl-' in capsys.readouterr().out


def serve_files() -> list[dict[str, Any]]:
    service = yaml.safe_load((LAUNCH / "rayservice.yaml").read_text(encoding="utf-8"))
    plain = yaml.safe_load((LAUNCH / "serve_app.yaml").read_text(encoding="utf-8"))
    return [plain, yaml.safe_load(service["spec"]["serveConfigV2"])]


@pytest.mark.parametrize("place", [0, 1])
def test_serve_accepts_the_files_and_the_builder_exists(place: int) -> None:
    schema = pytest.importorskip("ray.serve.schema")
    deployed = schema.ServeDeploySchema.model_validate(serve_files()[place])
    (application,) = deployed.applications
    module, _, function = application.import_path.partition(":")
    import importlib

    assert callable(getattr(importlib.import_module(module), function))
    config = load_serve_config(application.args["config"], application.args["overrides"])
    assert config.lawyer and config.lawyer.path == "/models/legal-r1"


def test_the_service_of_kubernetes() -> None:
    service = yaml.safe_load((LAUNCH / "rayservice.yaml").read_text(encoding="utf-8"))
    assert (service["apiVersion"], service["kind"]) == ("ray.io/v1", "RayService")
    cluster = service["spec"]["rayClusterConfig"]
    version = re.search(r"^ray==([\d.]+)", (REPOSITORY / "requirements" / "gpu.lock").read_text(), flags=re.M)
    assert version and cluster["rayVersion"] == version[1]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        template = group["template"]["spec"]
        (container,) = template["containers"]
        assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in template["volumes"]}
    mounted = {
        m["mountPath"] for m in cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["volumeMounts"]
    }
    assert {"/models", "/secrets"} <= mounted  # what the overrides name


def test_autoscaling_health_and_sticky_routing_reach_serve() -> None:
    pytest.importorskip("ray")
    from legal_rl.serving.deployment import EngineReplica, _engine
    from legal_rl.serving.settings import ModelSettings

    model = ModelSettings(path="x", replicas=1, max_replicas=3, target_ongoing=7, num_gpus=0.4)
    deployment = _engine("qwen", model)
    scaling = deployment._deployment_config.autoscaling_config
    assert deployment.name == "Judge-qwen"
    assert (scaling.min_replicas, scaling.max_replicas, scaling.target_ongoing_requests) == (1, 3, 7)
    assert deployment.ray_actor_options["num_gpus"] == 0.4
    router = deployment._deployment_config.request_router_config
    assert "ConsistentHashRouter" in str(router.request_router_class)
    assert deployment.version == _engine("qwen", model).version != _engine("qwen", ModelSettings(path="y")).version
    assert EngineReplica.check_health


async def test_a_replica_whose_engine_failed_is_unhealthy() -> None:
    from types import SimpleNamespace

    from legal_rl.serving.deployment import EngineReplica

    replica = object.__new__(EngineReplica)
    replica.engine = SimpleNamespace(failed="")  # type: ignore[assignment]
    await replica.check_health()
    replica.engine.failed = "vLLM engine failed: out of memory"
    with pytest.raises(RuntimeError, match="out of memory"):
        await replica.check_health()


def test_what_keeps_it_from_starting_is_one_line() -> None:
    from legal_rl.serving.deployment import _cause

    traceback = "Traceback (most recent call last):\n  File x\nlegal_rl.errors.ModelError: vLLM cannot load m: x\n"
    assert _cause({"Lawyer": traceback}, "") == "Lawyer: vLLM cannot load m: x"
    assert "Lawyer: waiting for 2 GPUs" in _cause({"Lawyer": "waiting for 2\nGPUs"}, "")
    assert _cause({}, "") == "no reason given; see `serve status`"
