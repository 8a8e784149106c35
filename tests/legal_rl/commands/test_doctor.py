"""What the doctor finds here, and where a container's memory limit counts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from legal_rl.commands import doctor


def test_this_machine_is_ready_or_told_what_to_mend():
    result = subprocess.run([sys.executable, "-m", "legal_rl", "doctor", "--json"], capture_output=True, text=True)
    report = json.loads(result.stdout)
    assert result.returncode == (0 if report["ok"] else 1)
    names = [check["name"] for check in report["checks"]]
    assert names[:5] == ["python", "memory", "disk here", "/dev/shm", "GPU"] and {"vllm", *doctor.PACKAGES} <= set(
        names
    )
    assert all(check["ok"] or check["fix"] for check in report["checks"])


@pytest.mark.parametrize(("content", "gib"), [("1073741824\n", 1.0), ("max\n", None), (None, None)])
def test_memory_is_the_machines_or_the_containers(tmp_path, content, gib):
    file = tmp_path / "memory.max"
    if content is not None:
        file.write_text(content)
    assert doctor.memory_gib(file) == (gib or doctor.memory_gib(tmp_path / "none"))


def test_a_missing_package_names_the_command():
    assert doctor._package("no-such-package") == {
        "name": "no-such-package", "found": "missing", "ok": False, "fix": "make install",
    }  # fmt: skip
