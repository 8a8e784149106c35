"""The Legal Assistant on Ray Serve: replicas of the same FastAPI app, each with the index opened by itself.

    deploy("/shared/index", port=8000, replicas=4, num_cpus=2)     # -> "http://127.0.0.1:8000"

The index folder must be readable on every node that gets a replica. Without Ray, `run_server` serves one process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from retrieval_server.config import AssistantConfig, ServiceConfig
from retrieval_server.server import ServerSettings, bind, build_app, run_server

__all__ = ["APP_NAME", "build_deployment", "deploy", "run_server", "serve_replicas"]

APP_NAME = "legal-assistant"


def build_deployment(
    index_dir: str | Path,
    config: AssistantConfig | None = None,
    service: ServiceConfig | None = None,
    replicas: int = 1,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    resources: dict[str, float] | None = None,
) -> Any:
    """A bound Ray Serve application, for `serve.run` or a Serve config file.

    Args:
        num_cpus, num_gpus, resources: of one replica.
    """
    from ray import serve

    service = service or ServiceConfig()
    settings = ServerSettings(
        index_dir=str(Path(index_dir).absolute()), assistant=config or AssistantConfig(), service=service
    )

    def build() -> FastAPI:  # Runs in the replica: neither index nor app travels.
        return build_app(settings)

    actor_options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "resources": resources or {}}
    deployment = serve.deployment(
        name="LegalAssistant",
        num_replicas=replicas,
        ray_actor_options=actor_options,
        # The app counts and refuses queries itself; Serve only has to pass the requests on.
        max_ongoing_requests=service.max_in_flight,
        graceful_shutdown_timeout_s=service.drain_s,
    )
    return deployment(serve.ingress(build)()).bind()


def deploy(
    index_dir: str | Path,
    config: AssistantConfig | None = None,
    service: ServiceConfig | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    replicas: int = 1,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    resources: dict[str, float] | None = None,
    route_prefix: str = "/",
    timeout_s: float = 300.0,
) -> str:
    """Run the application on the connected Ray cluster and return its base URL once every index is warm.

    Raises:
        PortError: the port is in use on this machine.
        RetrievalError: not ready after `timeout_s`.
    """
    from ray import serve

    from retrieval_server.client import AssistantClient
    from retrieval_server.loops import run_sync

    if not serve_runs():
        bind(host, port).close()  # Serve's proxy would only log that it cannot listen.
        serve.start(http_options={"host": host, "port": port})
    application = build_deployment(index_dir, config, service, replicas, num_cpus, num_gpus, resources)
    serve.run(application, name=APP_NAME, route_prefix=route_prefix, blocking=False)
    reachable = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    url = f"http://{reachable}:{port}" + route_prefix.rstrip("/")
    run_sync(lambda: AssistantClient(url).wait_ready(timeout_s))
    return url


def serve_runs() -> bool:
    """True when this cluster already has a Serve instance, with the proxy's address settled."""
    from ray import serve
    from ray.serve.exceptions import RayServeException

    try:
        return bool(serve.status().proxies)
    except RayServeException:
        return False


def serve_replicas(
    index_dir: str | Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    config: AssistantConfig | None = None,
    service: ServiceConfig | None = None,
    replicas: int = 1,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
) -> None:
    """`deploy`, then wait for SIGTERM or SIGINT and take the application down again.

    Joins the cluster that `RAY_ADDRESS` names, else starts Ray on this machine.

    Raises:
        IndexStateError: the index cannot be opened (checked here, before replicas fail one after the other).
        PortError: the port is in use.
    """
    import ray
    from ray import serve

    from retrieval_server.index import open_index

    open_index(index_dir)
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    try:
        url = deploy(index_dir, config, service, host, port, replicas, num_cpus, num_gpus)
        with signalled() as stop:
            print(f"Legal Assistant listening on {url} ({replicas} replicas, pid {os.getpid()})", flush=True)
            while not stop.wait(1.0):  # Short waits: a wait without end would not let the signal handler run.
                pass
            serve.delete(APP_NAME)
    finally:
        ray.shutdown()


@contextmanager
def signalled() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set inside the block; outside it they end the process, a slow start included."""
    stop = threading.Event()
    handlers = {sig: signal.signal(sig, lambda *_: stop.set()) for sig in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for sig, handler in handlers.items():
            signal.signal(sig, handler)
