"""The retrieval server beside a stage: a real one over a small index, killed, gone for good, and unable to start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from legal_rl.config import RunConfig, write_config
from legal_rl.errors import StageError
from legal_rl.quickstart.serving import retrieval_server
from retrieval_server.index import build_index


@pytest.fixture(scope="module")
def index(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving") / "index"
    build_index(folder, corpora=str(corpus), encoder="none")
    return folder


@pytest.fixture
def config_file(config: RunConfig, tmp_path: Path) -> Path:
    write_config(config, tmp_path / "config.yaml")
    return tmp_path / "config.yaml"


def first_hit(url: str) -> str:
    answer = httpx.post(f"{url}/retrieve", json={"queries": ["刑法第264条"], "topk": 1, "return_scores": True})
    return answer.json()["result"][0][0]["document"]["id"]


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_killed_server_comes_back_and_ends_with_the_block(index, config_file, tmp_path, processes, capsys):
    children_of, eventually = processes
    log = tmp_path / "retrieval.log"
    before = set(children_of(os.getpid()))
    with retrieval_server(index, config_file, log, restarts=1) as url:
        assert first_hit(url) == "law/刑法@2020-12-26#264"
        (server,) = set(children_of(os.getpid())) - before
        os.kill(server, signal.SIGKILL)
        eventually(lambda: set(children_of(os.getpid())) - before - {server} and answers(url))
        assert first_hit(url) == "law/刑法@2020-12-26#264"
        assert f"the retrieval server was killed by SIGKILL (out of memory, or by hand); started again, see {log}" in (
            capsys.readouterr().out
        )
        (second,) = set(children_of(os.getpid())) - before
        os.kill(second, signal.SIGKILL)  # the one restart is used up: it stays away, and clients say so
        eventually(lambda: not answers(url))
    assert set(children_of(os.getpid())) == before and not answers(url)


def test_a_server_that_cannot_start_is_told_with_its_last_line_and_its_log(config_file, tmp_path):
    log = tmp_path / "retrieval.log"
    with (
        pytest.raises(StageError, match=rf"ended with exit code 1: error: .*no index here.*; see {log}"),
        retrieval_server(tmp_path / "none", config_file, log),
    ):
        pass


def test_the_server_ends_with_a_parent_that_is_killed(index, config_file, tmp_path, processes):
    _, eventually = processes
    code = (
        "import time\nfrom pathlib import Path\nfrom legal_rl.quickstart.serving import retrieval_server\n"
        f"with retrieval_server(Path({str(index)!r}), "
        f"Path({str(config_file)!r}), Path({str(tmp_path / 'log')!r})) as url:\n"
        "    print(url, flush=True)\n    time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    assert answers(url)
    parent.kill()
    parent.communicate()
    eventually(lambda: not answers(url))
