"""Stages: what is skipped, resumed and cleared; children that fail, are killed, or lose their parent."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from legal_rl.errors import StageError
from legal_rl.quickstart import children
from legal_rl.quickstart.stages import Stage, fingerprints, run_lock, run_stages


def make_stages(log: list[str], first: dict | None = None, fail: str = "") -> list[Stage]:
    def work(name: str):
        def run(folder: Path) -> dict:
            log.append(name + ("+" if (folder / "part").exists() else ""))
            (folder / "part").write_text("half")
            if name == fail:
                raise StageError(f"{name} failed")
            return {"name": name}

        return run

    return [
        Stage("one", "first", first or {"a": 1}, work("one")),
        Stage("two", "second", {}, work("two"), after=("one",)),
        Stage("three", "third", {}, work("three")),
    ]


def run_all(stages: list[Stage], folder: Path) -> list[tuple[str, bool]]:
    return [(o.name, o.skipped) for o in run_stages(stages, folder, lambda stage, skipped: None)]


def test_a_second_run_skips_everything(tmp_path):
    log: list[str] = []
    assert run_all(make_stages(log), tmp_path) == [("one", False), ("two", False), ("three", False)]
    assert run_all(make_stages(log), tmp_path) == [("one", True), ("two", True), ("three", True)]
    assert log == ["one", "two", "three"]


def test_changed_settings_rerun_the_stage_and_what_builds_on_it_from_empty_folders(tmp_path):
    log: list[str] = []
    run_all(make_stages(log), tmp_path)
    outcome = run_all(make_stages(log, first={"a": 2}), tmp_path)
    assert outcome == [("one", False), ("two", False), ("three", True)]
    assert log[3:] == ["one", "two"]


def test_an_interrupted_stage_goes_on_in_its_folder(tmp_path):
    log: list[str] = []
    with pytest.raises(StageError, match="two failed"):
        run_all(make_stages(log, fail="two"), tmp_path)
    assert run_all(make_stages(log), tmp_path)[0] == ("one", True)
    assert log == ["one", "two", "two+", "three"]


def test_a_damaged_marker_means_not_done(tmp_path):
    log: list[str] = []
    run_all(make_stages(log), tmp_path)
    (tmp_path / "stages" / "three.json").write_text('{"fingerprint": ')
    run_all(make_stages(log), tmp_path)
    assert log[-1].startswith("three")


def test_fingerprints_depend_on_ancestors_only():
    before, after = fingerprints(make_stages([])), fingerprints(make_stages([], first={"a": 2}))
    assert [before[n] == after[n] for n in ("one", "two", "three")] == [False, False, True]


def test_two_processes_cannot_share_a_run_folder(tmp_path):
    with run_lock(tmp_path):
        code = (
            "from pathlib import Path\nfrom legal_rl.quickstart.stages import run_lock\n"
            f"import sys\nwith run_lock(Path({str(tmp_path)!r})): pass"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1 and "another process is working here" in result.stderr


def test_a_failing_child_is_reported_with_its_last_error_line(tmp_path):
    log = tmp_path / "child.log"
    code = children.wait(children.start(["json.tool", "--nonsense"], log))
    assert children.how_it_ended(code) == "ended with exit code 2"
    assert "unrecognized arguments" in children.last_error(log)


def test_a_child_dies_with_its_parent(tmp_path):
    pid_file = tmp_path / "pid"
    code = (
        "import time\nfrom pathlib import Path\nfrom legal_rl.quickstart import children\n"
        f"p = children.start(['http.server', '0', '--bind', '127.0.0.1'], Path({str(tmp_path / 'log')!r}))\n"
        f"Path({str(pid_file)!r}).write_text(str(p.pid))\ntime.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 20
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child = int(pid_file.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_wait_ticks_and_stop_ends_a_child(tmp_path):
    ticks: list[int] = []
    process = children.start(["http.server", "0", "--bind", "127.0.0.1"], tmp_path / "log")

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 2:
            children.stop(process)

    assert children.wait(process, tick, interval_s=0.05) == -signal.SIGTERM
    assert len(ticks) == 2


def test_summaries_are_json(tmp_path):
    run_all(make_stages([]), tmp_path)
    assert json.loads((tmp_path / "stages" / "one.json").read_text())["summary"] == {"name": "one"}
