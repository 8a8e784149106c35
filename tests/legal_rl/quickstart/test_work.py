"""A stage's own process: what it leaves behind when it succeeds, fails or is ended; its progress lines."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pytest

from legal_rl.config import RunConfig, write_config
from legal_rl.quickstart import progress
from legal_rl.quickstart.work import STAGE_WORK, _ends_on_sigterm, _leave_error, main


@pytest.fixture
def config_file(config: RunConfig, tmp_path: Path) -> str:
    write_config(config, tmp_path / "config.yaml")
    return str(tmp_path / "config.yaml")


def test_a_stage_leaves_its_summary_and_no_old_error(config_file, tmp_path):
    (tmp_path / "error.txt").write_text("of the last attempt")
    assert main(["knowledge", config_file, str(tmp_path)]) == 0
    summary = json.loads((tmp_path / "stage.json").read_text(encoding="utf-8"))
    assert summary["articles"] == 1 and summary["cases"] >= 300
    assert not (tmp_path / "error.txt").exists()


def test_a_stage_that_fails_leaves_one_line(config_file, tmp_path):
    assert main(["trajectories", config_file, str(tmp_path)]) == 1
    assert "no index here" in (tmp_path / "error.txt").read_text(encoding="utf-8")
    assert not (tmp_path / "stage.json").exists()


@pytest.fixture
def broken_stage():
    """Adds a stage that raises what it is told."""
    name = "broken"

    def add(error: BaseException) -> str:
        def work(config: RunConfig, folder: Path) -> dict:
            raise error

        STAGE_WORK[name] = work
        return name

    yield add
    STAGE_WORK.pop(name, None)


def test_what_the_machine_refuses_is_one_line(config_file, tmp_path, broken_stage):
    name = broken_stage(OSError(errno.ENOSPC, "No space left on device"))
    assert main([name, config_file, str(tmp_path)]) == 1
    text = (tmp_path / "error.txt").read_text()
    assert text == f"{tmp_path}: the disk is full; free some space and run the same command again"


def test_a_bug_of_ours_keeps_its_traceback(config_file, tmp_path, broken_stage):
    with pytest.raises(FileNotFoundError):
        main([broken_stage(FileNotFoundError(errno.ENOENT, "gone")), config_file, str(tmp_path)])
    with pytest.raises(ZeroDivisionError):
        main([broken_stage(ZeroDivisionError()), config_file, str(tmp_path)])


def test_where_no_error_file_can_be_written_the_line_goes_to_the_console(tmp_path, capsys):
    _leave_error(tmp_path / "nowhere" / "error.txt", "the disk\nis full")
    assert capsys.readouterr().err == "error: the disk is full\n"


def test_sigterm_unwinds_the_stage_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGTERM)
    closed = []
    with pytest.raises(SystemExit) as stop, _ends_on_sigterm():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            closed.append(True)
    assert (stop.value.code, closed, signal.getsignal(signal.SIGTERM)) == (143, [True], before)


def test_progress_without_a_terminal_is_a_line_now_and_then_and_one_at_the_end(capsys):
    with progress.bar("sft", unit="step") as update:
        for step in range(1, 101):
            update(f"loss {1 / step:.2f}", step, 100)
    assert capsys.readouterr().out.splitlines() == ["  sft loss 1.00: 1/100 step", "  sft loss 0.01: 100/100 step"]
