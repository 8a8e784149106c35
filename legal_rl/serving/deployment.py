"""The application on Ray Serve: Lawyer, Judges, Legal Assistant and HTTP as deployments of one Serve application.

url = deploy(load_serve_config("serve_cpu"))       # on the connected cluster; returns when a request says ready
build_app({"config": "serve_cpu"})                 # for Serve YAML: import_path legal_rl.serving.deployment:build_app

HTTP ──> Application ──handle──> Lawyer (vLLM engine per replica, sticky by rollout)
              │ └──────handle──> Judge-<name> (the same, one deployment per Judge)
              └────────handle──> Knowledge (index, Assistant), or HTTP to a service that runs elsewhere
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legal_rl.errors import ModelError
from legal_rl.serving.engines import Piece
from legal_rl.serving.settings import LAWYER_AS_JUDGE, ModelSettings, RetrievalSettings, ServeConfig, load_serve_config

if TYPE_CHECKING:
    from fastapi import FastAPI

    from retrieval_server.types import Article, CitedArticle, SearchQuery, SearchResult

APP_NAME = "legal-rl"
KNOWLEDGE = "Knowledge"
STICKY_ROUTER = "ray.serve.experimental.consistent_hash_router:ConsistentHashRouter"
"""A rollout's turns share a prefix: they go to the replica that has it in its cache, or to the next one when that is
full or gone."""
MAX_ONGOING_FACTOR = 4
"""Requests a replica takes per sequence of its engine: the rest waits in vLLM's own queue, where it is batched."""


SWITCH_S = 0.0005
"""How long a thread keeps Python's lock while another waits for it, instead of 5 ms: events pass several threads."""
BUSY = 8
"""Generations at once up to which pieces are as long as configured; with more, a piece waits longer in proportion: a
message costs the application as much CPU as a token costs a small engine."""
CPU_NICENESS = 3
"""On a CPU the engine steps back behind the processes that carry its tokens; they need little and wait for nothing."""


class EngineReplica:
    """One model in one vLLM engine."""

    async def __init__(self, settings: dict[str, Any]) -> None:
        from legal_rl.evaluation.local_engine import LocalEngine
        from legal_rl.serving.engines import LocalTokenEngine

        model = ModelSettings.model_validate(settings)
        sys.setswitchinterval(SWITCH_S)
        # Ray gives a replica with less than one CPU a single OpenMP thread whatever the settings say. It is set here,
        # before torch is imported, and not in a runtime environment: Ray does not start those below a path with blanks.
        os.environ["OMP_NUM_THREADS"] = str(model.engine.threads or len(os.sched_getaffinity(0)))
        if not model.num_gpus:
            os.nice(CPU_NICENESS)
        self.engine = LocalEngine(Path(model.path), model.engine)
        await self.engine.__aenter__()
        self.tokens = LocalTokenEngine(self.engine)

    async def stream(
        self, prompt_ids: Sequence[int], options: dict[str, Any], session: str, deadline_s: float
    ) -> AsyncIterator[Piece]:
        """See `engines.TokenEngine`; cancelling the call aborts the generation."""
        crowd = max(1.0, self.engine.in_work / BUSY)
        pieces = self.tokens.stream(prompt_ids, options | {"chunk_s": options["chunk_s"] * crowd}, session, deadline_s)
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]

    async def state(self) -> dict[str, int]:
        """Process id and generations in work, for tests and operators."""
        return {"pid": os.getpid(), "in_work": self.engine.in_work}

    async def check_health(self) -> None:
        """Serve replaces a replica whose engine has failed."""
        if self.engine.failed:
            raise RuntimeError(self.engine.failed)


class KnowledgeReplica:
    """One copy of the index with its Assistant."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from legal_rl.serving.knowledge import LocalKnowledge
        from retrieval_server.assistant import LegalAssistant
        from retrieval_server.index import open_index

        retrieval = RetrievalSettings.model_validate(settings)
        assistant = LegalAssistant(open_index(retrieval.index_dir), retrieval.assistant)
        assistant.warm_up()
        self.knowledge = LocalKnowledge(assistant)

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        return await self.knowledge.search(queries)

    async def citations(self, text: str, as_of: date | None) -> list[CitedArticle]:
        return await self.knowledge.citations(text, as_of)

    async def article(self, law: str, article: str, as_of: date | None) -> Article:
        return await self.knowledge.article(law, article, as_of)

    async def ready(self) -> str:
        return await self.knowledge.ready()


class ApplicationReplica:
    """The HTTP application. Its parts are bound so that Serve deploys them with it; `_http_app` finds them by name."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


def build_application(config: ServeConfig) -> Any:
    """The bound Serve application, for `serve.run`."""
    from ray import serve

    parts = [_engine(name, model).bind(model.model_dump(mode="json")) for name, model in config.models().items()]
    if config.retrieval.index_dir:
        parts.append(_knowledge(config.retrieval))

    def build() -> FastAPI:  # Runs in the replica.
        return _http_app(config)

    deployment = serve.deployment(
        name="Application",
        num_replicas=config.app_replicas,
        ray_actor_options={"num_cpus": config.app_cpus},
        # The app counts and refuses questions itself; Serve only has to pass the requests on.
        max_ongoing_requests=4 * config.limits.max_in_flight,
        graceful_shutdown_timeout_s=config.limits.deadline_s,
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=5,
    )
    return _kept(deployment(serve.ingress(build)(ApplicationReplica)), config.model_dump(mode="json")).bind(*parts)


def build_app(args: dict[str, Any]) -> Any:
    """Application builder for Serve config files: `args: {config: serve_cpu, overrides: ["port=8080"]}`.

    Raises:
        ConfigError: the configuration, or a file that it names, is not there.
    """
    return build_application(load_serve_config(str(args["config"]), list(args.get("overrides", ()))))


def deployment_name(model: str) -> str:
    """`Lawyer`, or `Judge-<name>`."""
    return "Lawyer" if model == LAWYER_AS_JUDGE else f"Judge-{model}"


def _engine(name: str, model: ModelSettings) -> Any:
    from ray import serve
    from ray.serve.config import RequestRouterConfig

    scaling: dict[str, Any] = {"num_replicas": model.replicas}
    if model.max_replicas > model.replicas:
        bounds = {"min_replicas": model.replicas, "max_replicas": model.max_replicas}
        scaling = {"autoscaling_config": bounds | {"target_ongoing_requests": model.target_ongoing}}
    deployment = serve.deployment(
        name=deployment_name(name),
        ray_actor_options={"num_cpus": model.num_cpus, "num_gpus": model.num_gpus},
        max_ongoing_requests=MAX_ONGOING_FACTOR * model.engine.max_num_seqs,
        request_router_config=RequestRouterConfig(request_router_class=STICKY_ROUTER),  # type: ignore[arg-type]
        health_check_period_s=5,
        graceful_shutdown_timeout_s=60,
        **scaling,
    )  # fmt: skip
    return _kept(deployment(EngineReplica), model.model_dump(mode="json"))


def _knowledge(retrieval: RetrievalSettings) -> Any:
    from ray import serve

    settings = retrieval.model_dump(mode="json")
    deployment = serve.deployment(
        name=KNOWLEDGE,
        num_replicas=retrieval.replicas,
        ray_actor_options={"num_cpus": retrieval.num_cpus, "num_gpus": retrieval.num_gpus},
        max_ongoing_requests=1024,
        health_check_period_s=5,
    )
    return _kept(deployment(KnowledgeReplica), settings).bind(settings)


def _kept(deployment: Any, settings: Any) -> Any:
    """The deployment with its settings' hash as its version: replicas are replaced when that changes, else kept.

    Without one, Serve would draw a version at every `serve.run` and load every model anew for a changed text.
    """
    version = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    return deployment.options(version=version, _internal=True)


def _http_app(config: ServeConfig) -> FastAPI:
    """The application inside a replica, with handles to its parts."""
    from ray import serve

    from envs.policy import OpenAIPolicy
    from legal_rl.serving.answerer import Answerer
    from legal_rl.serving.api import create_app
    from legal_rl.serving.engines import HandleEngine
    from legal_rl.serving.judges import EndpointJudge, EngineJudge, Judge
    from legal_rl.serving.knowledge import HandleKnowledge, HttpKnowledge, Knowledge
    from retrieval_server.client import AssistantClient
    from retrieval_server.logs import configure_logs

    configure_logs("info")
    sys.setswitchinterval(SWITCH_S)
    app_name = serve.get_replica_context().app_name
    patience = config.environment.tool_timeout_s
    knowledge: Knowledge = (
        HttpKnowledge(
            AssistantClient(config.retrieval.url, patience, outage_patience_s=config.retrieval.outage_patience_s)
        )
        if config.retrieval.url
        else HandleKnowledge(serve.get_deployment_handle(KNOWLEDGE, app_name), patience)
    )

    def engine(name: str) -> HandleEngine:
        who = "the Lawyer" if name == LAWYER_AS_JUDGE else f"Judge {name}"
        return HandleEngine(serve.get_deployment_handle(deployment_name(name), app_name), who)

    judges: dict[str, Judge] = {
        name: EngineJudge(judge, engine(name), tokenizer_of(judge.model)) if judge.model else EndpointJudge(judge)
        for name, judge in config.judges.items()
    }
    if config.lawyer is not None:
        answerer = Answerer(config, knowledge, engine(LAWYER_AS_JUDGE), tokenizer_of(config.lawyer), judges)
    else:
        assert config.lawyer_endpoint is not None
        answerer = Answerer(config, knowledge, OpenAIPolicy(config.lawyer_endpoint), None, judges)
    return create_app(answerer, config)


def tokenizer_of(model: ModelSettings) -> Any:
    """The tokenizer that lies beside a model's weights."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model.path)


def deploy(config: ServeConfig) -> str:
    """Run or update the application on the connected Ray cluster; returns its base URL once a request says ready.

    A second call with another configuration replaces only the deployments that differ, one replica after the other.

    Raises:
        PortError: the port is in use on this machine.
        ModelError, IndexStateError: a model folder or an index is missing, before anything is started.
        ModelError: a replica does not start, or the cluster has no room for it within `ready_timeout_s`.
        RetrievalError: not ready after `ready_timeout_s`.
    """
    from ray import serve

    from retrieval_server.client import AssistantClient
    from retrieval_server.deployment import serve_runs
    from retrieval_server.loops import run_sync
    from retrieval_server.server import bind

    check_parts(config)
    if not serve_runs():
        listener = bind(config.host, config.port)  # Serve's proxy would only log that it cannot listen.
        port = listener.getsockname()[1]
        listener.close()
        serve.start(http_options={"host": config.host, "port": port})
    target = serve.RunTarget(build_application(config), name=APP_NAME, route_prefix="/")
    serve.run_many([target], wait_for_applications_running=False)
    _wait_running(config.ready_timeout_s)
    reachable = "127.0.0.1" if config.host in ("0.0.0.0", "::") else config.host
    url = f"http://{reachable}:{_proxy_port()}"
    run_sync(lambda: AssistantClient(url).wait_ready(config.ready_timeout_s))
    return url


def _wait_running(timeout_s: float) -> None:
    """Until Serve says running; what keeps a replica from starting becomes one line instead of a wait without end."""
    from ray import serve

    deadline = time.monotonic() + timeout_s
    while True:
        app = serve.status().applications[APP_NAME]
        if app.status == "RUNNING":
            return
        told = {name: deployment.message for name, deployment in app.deployments.items() if deployment.message}
        if app.status == "DEPLOY_FAILED":
            raise ModelError(f"the application does not start: {_cause(told, app.message)}")
        if time.monotonic() > deadline:
            raise ModelError(f"the application is not running after {timeout_s:g} s: {_cause(told, app.message)}")
        time.sleep(0.5)


def _cause(told: dict[str, str], message: str) -> str:
    """The last error in what Serve tells of the deployments, with the deployment's name."""
    for name, text in told.items():
        lines = [line.strip() for line in text.splitlines() if "Error: " in line or "Exception: " in line]
        if lines:
            return f"{name}: {lines[-1].rpartition('Error: ')[2]}"
    waiting = "; ".join(f"{name}: {' '.join(text.split())[:300]}" for name, text in told.items())
    return waiting or " ".join(message.split())[:300] or "no reason given; see `serve status`"


def _proxy_port() -> int:
    """Where this cluster's Serve proxies listen."""
    from ray.serve.context import _get_global_client

    client = _get_global_client()
    assert client is not None
    return client.http_config.port


def check_parts(config: ServeConfig) -> None:
    """Refuse what can be known to be missing on this machine before replicas fail one after the other."""
    from legal_rl.evaluation.local_engine import check_model_dir
    from legal_rl.serving.access import read_keys
    from retrieval_server.index import open_index

    for model in config.models().values():
        if Path(model.path).is_absolute() or Path(model.path).exists():
            check_model_dir(Path(model.path))
    if config.retrieval.index_dir:
        open_index(config.retrieval.index_dir)
    if config.limits.keys_file:
        read_keys(Path(config.limits.keys_file).expanduser())


def serve_app(config: ServeConfig) -> None:
    """`deploy`, then wait for SIGTERM or SIGINT and take the application down again, questions in work answered.

    Joins the cluster that `RAY_ADDRESS` names, else starts Ray on this machine.
    """
    import ray
    from ray import serve

    from retrieval_server.deployment import signalled

    check_parts(config)
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    try:
        url = deploy(config)
        with signalled() as stop:
            print(f"{config.model_id} listening on {url} (pid {os.getpid()}); the page is at {url}/", flush=True)
            while not stop.wait(1.0):
                pass
            serve.delete(APP_NAME)
    finally:
        ray.shutdown()
