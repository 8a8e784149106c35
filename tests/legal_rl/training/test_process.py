"""Stages as subprocesses: metrics followed, errors as one line, nothing left running."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from legal_rl.training.cluster_env import cpu_environment, training_environment
from legal_rl.training.interpreter import interpreter
from legal_rl.training.metrics import TrainingError
from legal_rl.training.process import run_stage

GOOD = """
import json, pathlib, subprocess, sys, time
job = pathlib.Path(sys.argv[1]); out = job.parent
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
for step in (1, 2):
    with (out / "metrics.jsonl").open("a") as f: f.write(json.dumps({"step": step}) + "\\n")
(out / "notices.txt").write_text("paused\\n")
"""
BAD = """
import pathlib, sys
(pathlib.Path(sys.argv[1]).parent / "error.txt").write_text("step 3: loss is nan\\n")
sys.exit(1)
"""


@pytest.fixture
def stage(tmp_path):
    """Makes a module of the given code and an environment that finds it."""

    def make(code: str) -> tuple[str, dict[str, str]]:
        (tmp_path / "toy_stage.py").write_text(code)
        return "toy_stage", {**os.environ, "PYTHONPATH": str(tmp_path)}

    return make


def processes_of(group: int) -> list[int]:
    stats = [(pid, f"/proc/{pid}/stat") for pid in os.listdir("/proc") if pid.isdigit()]
    alive = []
    for pid, path in stats:
        try:
            fields = Path(path).read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            alive.append(int(pid))
    return alive


def test_steps_and_notices_arrive_and_no_process_stays(stage, tmp_path):
    module, env = stage(GOOD + "\nimport os; (out / 'pid').write_text(str(os.getpid()))")
    steps, notices = [], []
    out = tmp_path / "out"
    run_stage(module, {}, out, env, on_step=lambda row: steps.append(row["step"]), on_notice=notices.append)
    assert (steps, notices) == ([1, 2], ["paused"])
    time.sleep(0.3)
    assert processes_of(int((out / "pid").read_text())) == []


def test_the_childs_reason_is_the_error(stage, tmp_path):
    module, env = stage(BAD)
    with pytest.raises(TrainingError, match=r"^step 3: loss is nan$"):
        run_stage(module, {}, tmp_path / "out", env)


def test_a_child_that_dies_points_to_its_log(stage, tmp_path):
    module, env = stage("import os; os._exit(9)")
    with pytest.raises(TrainingError, match=r"exit code 9; see .*log\.txt"):
        run_stage(module, {}, tmp_path / "out", env)


def test_environment_shares_the_cores_and_waits_passively():
    env = cpu_environment(2)
    assert (env["OMP_NUM_THREADS"], env["OMP_WAIT_POLICY"], env["KMP_BLOCKTIME"]) == ("2", "passive", "0")


def test_processes_share_their_compiled_modules():
    assert "PYTHONDONTWRITEBYTECODE" not in training_environment(1, 1, base={"PYTHONDONTWRITEBYTECODE": "1"})


def test_wandb_is_offline_without_a_key():
    assert training_environment(1, 1, base={}, wandb=True)["WANDB_MODE"] == "offline"
    assert "WANDB_MODE" not in training_environment(1, 1, base={})
    assert "WANDB_MODE" not in training_environment(1, 1, base={"WANDB_API_KEY": "k"}, wandb=True)
    assert training_environment(1, 1, base={})["PATH"].startswith(os.path.dirname(interpreter()))
