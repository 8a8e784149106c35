"""The Legal Assistant as Ray Serve replicas on a local Ray: the same answers over HTTP."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil
import pytest

from retrieval_server.assistant import LegalAssistant
from retrieval_server.client import AssistantClient
from retrieval_server.errors import RetrievalError
from retrieval_server.types import SearchQuery, SearchResult, Source, Status

STARTED = time.time()
pytestmark = pytest.mark.slow

QUERIES = [
    SearchQuery(source=Source.STATUTE, query="刑法第264条 盗窃", intent="量刑幅度", top_k=2),
    SearchQuery(source=Source.PRECEDENT, query="商场盗窃手机", top_k=2),
]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_replicas_answer_as_the_assistant_does(toy_index: Any) -> None:
    ray = pytest.importorskip("ray")
    from ray import serve

    from retrieval_server.deployment import deploy
    from retrieval_server.server import PortError

    with tempfile.TemporaryDirectory(prefix="lrl-", ignore_cleanup_errors=True) as folder:
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        try:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                with pytest.raises(PortError, match="in use"):
                    deploy(toy_index.folder, port=taken.getsockname()[1])
            url = deploy(toy_index.folder, port=_free_port(), replicas=2, num_cpus=0.5, timeout_s=120)
            asyncio.run(_check(url, toy_index))
            asyncio.run(_kill_under_load(url, toy_index, replicas=2))
            # A second deployment on the running Serve instance replaces the first one.
            assert deploy(toy_index.folder, port=int(url.rsplit(":", 1)[1]), num_cpus=0.5) == url
            asyncio.run(_check(url, toy_index))
        finally:
            serve.shutdown()
            ray.shutdown()


def _replica_processes() -> list[psutil.Process]:
    """Serve's replica processes of this test's own Ray, youngest last."""
    found = []
    for process in psutil.process_iter(["cmdline", "create_time"]):
        title = " ".join(process.info["cmdline"] or ())
        if title.startswith("ray::ServeReplica:legal-assistant") and process.info["create_time"] > STARTED:
            found.append(process)
    return sorted(found, key=lambda process: process.create_time())


async def _kill_under_load(url: str, toy_index: Any, replicas: int) -> None:
    """No wrong answer, at most the requests in flight fail, and a new replica comes by itself."""
    clients, in_flight = 8, 2
    wanted = _plain(LegalAssistant(toy_index).search_sync(QUERIES))
    before = {process.pid for process in _replica_processes()}
    assert len(before) == replicas
    answered, failed, stop = [0], [], asyncio.Event()

    async def load(client: AssistantClient) -> None:
        while not stop.is_set():
            try:
                assert _plain(await client.search(QUERIES)) == wanted
                answered[0] += 1
            except RetrievalError as error:
                failed.append(str(error))

    pool = [AssistantClient(url, timeout_s=30, outage_patience_s=0) for _ in range(clients)]
    tasks = [asyncio.create_task(load(client)) for client in pool for _ in range(in_flight)]
    await asyncio.sleep(1)
    victim = _replica_processes()[0]
    before_kill = answered[0]
    victim.kill()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pids = {process.pid for process in _replica_processes()} - {victim.pid}
        if len(pids) == replicas and pids - before:
            break
        await asyncio.sleep(0.2)
    else:
        pytest.fail("no new replica within 60 s")
    at_recovery = answered[0]
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*tasks)
    await asyncio.gather(*(client.aclose() for client in pool))
    assert before_kill > 0 and at_recovery > before_kill and answered[0] > at_recovery
    assert len(failed) <= clients * in_flight, failed[:3]


def test_serve_replicas_until_told_to_stop(toy_index: Any) -> None:
    pytest.importorskip("ray")
    code = (
        "import ray, sys; from retrieval_server.deployment import serve_replicas\n"
        "ray.init(address='local', num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[3])\n"
        "serve_replicas(sys.argv[1], port=int(sys.argv[2]), replicas=1)"
    )
    with tempfile.TemporaryDirectory(prefix="lrl-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-c", code, str(toy_index.folder), str(_free_port()), folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            line = next(line for line in process.stdout if line.startswith("Legal Assistant listening on http://"))
            asyncio.run(_check(line.split()[4], toy_index))
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
            assert process.wait(60) == 0


async def _check(url: str, toy_index: Any) -> None:
    client = AssistantClient(url, timeout_s=60)
    groups = await asyncio.gather(*(client.search(QUERIES) for _ in range(10)))
    await client.aclose()
    wanted = LegalAssistant(toy_index).search_sync(QUERIES)
    for results in groups:
        assert [result.status for result in results] == [Status.OK, Status.OK]
        assert [result.evidence for result in results] == [result.evidence for result in wanted]


def _plain(results: list[SearchResult]) -> list[tuple[Any, ...]]:
    return [(result.status, result.evidence) for result in results]
