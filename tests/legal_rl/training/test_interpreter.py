"""The interpreter's path for Ray: untouched without blanks, through a working link with them."""

import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

from legal_rl.training.interpreter import interpreter


def test_a_path_without_blanks_stays():
    assert interpreter("/opt/venv", "/opt/venv/bin/python") == "/opt/venv/bin/python"


def test_a_path_with_blanks_becomes_a_link_to_the_same_environment(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    prefix = tmp_path / "my work" / ".venv"
    venv.create(prefix, with_pip=False, symlinks=True)
    python = interpreter(str(prefix), str(prefix / "bin" / "python"))
    assert " " not in python
    said = subprocess.run(
        ["bash", "-c", f"exec {python} -c 'import sys; print(sys.prefix)'"], capture_output=True, text=True, check=True
    )
    assert os.path.realpath(said.stdout.strip()) == os.path.realpath(prefix)
    assert interpreter(str(prefix), str(prefix / "bin" / "python")) == python


def test_a_stale_link_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = Path(interpreter("/a b/.venv", "/a b/.venv/bin/python")).parent.parent
    first.unlink()
    first.symlink_to("/elsewhere")
    again = Path(interpreter("/a b/.venv", "/a b/.venv/bin/python")).parent.parent
    assert os.readlink(again) == "/a b/.venv" and shlex.quote(str(again)) == str(again)


def test_this_interpreter_runs():
    subprocess.run([interpreter(), "-c", "import legal_rl"], check=True, cwd=Path(sys.prefix).parent)
