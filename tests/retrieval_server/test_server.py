"""The server process: its ready line, clean stop, busy port, broken index, death under a client."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retrieval_server.__main__ import main
from retrieval_server.client import AssistantClient
from retrieval_server.config import AssistantConfig, ServiceConfig
from retrieval_server.errors import RetrievalError
from retrieval_server.server import PortError, ServerSettings, app_from_environment, bind
from retrieval_server.types import SearchQuery, Source, Status

QUERY = SearchQuery(source=Source.STATUTE, query="刑法第264条", top_k=1)


class Process:
    """`python -m retrieval_server` on a free port."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "retrieval_server", str(folder), "--port", "0", *options]
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.popen.stdout is not None
        self.line = self.popen.stdout.readline().strip()
        self.url = self.line.split()[-3] if self.line else ""

    def stop(self, sig: int = signal.SIGTERM) -> tuple[int, str]:
        self.popen.send_signal(sig)
        _, errors = self.popen.communicate(timeout=20)
        return self.popen.returncode, errors


@pytest.fixture
def process(toy_index: Any, tmp_path: Path) -> Iterator[Process]:
    started = Process(toy_index.folder, "--ready-file", str(tmp_path / "ready"))
    yield started
    if started.popen.poll() is None:
        started.popen.kill()
    started.popen.communicate()


async def test_serves_tells_and_stops_cleanly(process: Process, tmp_path: Path) -> None:
    assert process.line == f"Legal Assistant listening on {process.url} (pid {process.popen.pid})"
    assert (tmp_path / "ready").read_text() == f"{process.popen.pid} {process.url}\n"
    client = AssistantClient(process.url)
    await client.wait_ready(60)
    (result,) = await client.search([QUERY])
    assert result.status is Status.OK
    await client.aclose()
    code, errors = process.stop()
    assert (code, errors) == (0, "") and not (tmp_path / "ready").exists()


async def test_killed_under_a_client_and_started_again(process: Process, toy_index: Any) -> None:
    outages: list[str] = []
    client = AssistantClient(process.url, outage_patience_s=60, on_outage=lambda outage: outages.append(str(outage)))
    await client.search([QUERY])
    process.stop(signal.SIGKILL)
    waiting = asyncio.create_task(client.search([QUERY]))
    while not outages:
        await asyncio.sleep(0.02)
    port = process.url.rsplit(":", 1)[1]
    again = Process(toy_index.folder, "--port", port)
    try:
        assert (await waiting)[0].status is Status.OK
        assert "does not answer" in outages[0]
    finally:
        await client.aclose()
        again.stop()


async def test_killed_for_good_is_an_error(process: Process) -> None:
    client = AssistantClient(process.url, timeout_s=30)
    await client.search([QUERY])
    process.stop(signal.SIGKILL)
    client = AssistantClient(process.url, timeout_s=0.4)
    with pytest.raises(RetrievalError, match="gave no answer"):
        await client.search([QUERY])


def test_busy_port_is_one_line(toy_index: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main([str(toy_index.folder), "--port", str(port)]) == 1
    line = f"error: port {port} on 127.0.0.1 is in use; stop the other server or choose another --port\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(("host", "port"), [("203.0.113.1", 8000), ("127.0.0.1", 70_000), ("not a host", 1)])
def test_addresses_that_cannot_be(host: str, port: int) -> None:
    with pytest.raises(PortError, match="cannot listen on"):
        bind(host, port)


def test_missing_index_and_unknown_key_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing"), "--port", "0"]) == 1
    assert main([str(tmp_path), "--config", '{"alhpa": 1}']) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "legal-rl index build" in first and "alhpa" in second


def test_worker_processes_build_the_app_from_the_environment(toy_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServerSettings(
        index_dir=str(toy_index.folder), assistant=AssistantConfig(alpha=0.5), service=ServiceConfig(max_queries=3)
    )
    monkeypatch.setenv("LEGAL_RL_SERVER_SETTINGS", settings.model_dump_json())
    service = app_from_environment().state.service
    assert (service.assistant.config.alpha, service.config.max_queries) == (0.5, 3)


@pytest.mark.slow
async def test_two_workers(toy_index: Any) -> None:
    process = Process(toy_index.folder, "--workers", "2")
    try:
        client = AssistantClient(process.url)
        await client.wait_ready(60)
        results = await asyncio.gather(*(client.search([QUERY]) for _ in range(20)))
        assert all(result.status is Status.OK for (result,) in results)
        await client.aclose()
    finally:
        code, _ = process.stop()
    assert code in (0, -signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        os.kill(process.popen.pid, 0)
