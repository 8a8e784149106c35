"""Entry points of launch/, the Makefile and .ci: they parse, and name only commands, configs and files that exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main
import yaml

from legal_rl.cli import app
from legal_rl.config import CONFIG_FOLDER, load_config

ROOT = Path(__file__).parent.parent
LAUNCH = ROOT / "launch"
SCRIPTS = [*sorted(LAUNCH.glob("*.sh")), LAUNCH / "slurm.sbatch", ROOT / ".ci" / "run"]
TEXTS = [*SCRIPTS, *sorted(LAUNCH.glob("*.yaml")), ROOT / "Makefile"]


def words(path: Path) -> str:
    """The file without comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def bash(script: Path, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(["bash", str(script), *arguments], cwd=cwd, env=env, capture_output=True, text=True)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_stop_at_the_first_error(path):
    assert subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True).stderr == ""
    assert "\nset -euo pipefail\n" in path.read_text()
    assert path.read_text().startswith("#!/usr/bin/env bash\n# ")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_command_named_exists(path):
    known = set(typer.main.get_command(app).commands) | {"--version"}  # type: ignore[attr-defined]
    named = re.findall(r"-m legal_rl ([\w-]+)", words(path))
    assert set(named) <= known
    for module in re.findall(r"-m ((?!legal_rl)[\w.]+)", words(path)):
        assert module in {"pip", "uv", "venv"} or find_spec(module.split(".")[0]), module
    for target in re.findall(r"^make ([\w-]+)", words(path), flags=re.M):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_config_and_script_named_exists(path):
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"(?:configs/|--config )(\w+)", words(path)):
        assert (CONFIG_FOLDER / f"{name}.yaml").is_file(), name
    for name in re.findall(r"launch/[\w.]+", text):
        assert (ROOT / name.rstrip(".")).exists(), name


@pytest.mark.parametrize("path", [LAUNCH / "serve_models.sh"])
def test_the_model_servers_have_the_ports_and_shares_of_the_papers_node(path):
    run = load_config("h20_4gpu")
    services = run.layout.services
    assert run.assistant.llm and run.assistant.llm.base_url == "http://127.0.0.1:8001/v1"
    assert f"serve 8001 {services['assistant'].fraction:.2f}" in path.read_text()
    assert f"serve 8002 {services['reward_judge'].fraction:.2f}" in path.read_text()
    assert f"GPU:-{services['assistant'].gpu}" in path.read_text()
    assert f"model=${{1:-{run.assistant.llm.model}}}" in path.read_text()


def test_the_ray_job_of_kubernetes():
    job = yaml.safe_load((LAUNCH / "kuberay.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    name, override = re.search(r"--config (\w+) (\S+)$", job["spec"]["entrypoint"]).groups()  # type: ignore[union-attr]
    run = load_config(name, [override])
    template = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    (container,) = template["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == str(run.layout.gpus_per_node)
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in template["volumes"]}
    version = re.search(r"^ray==([\d.]+)", (ROOT / "requirements" / "gpu.lock").read_text(), flags=re.M)
    assert version and job["spec"]["rayClusterSpec"]["rayVersion"] == version[1]


def test_ray_job_without_a_config_is_wrong_use(tmp_path):
    result = bash(LAUNCH / "ray_job.sh", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (2, "usage: launch/ray_job.sh CONFIG [section.key=value …]\n")


# -- installation, in a copy whose path has spaces ------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `make` needs of the repository, under a path with spaces."""
    folder = tmp_path / "a path with spaces"
    for name in ("Makefile", "pyproject.toml", "launch", "requirements"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, _parent(folder / name))
    return folder


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", str(folder), *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("target", ["install", "quickstart", "test", "test-fast", "lint", "bench", "clean", "help"])
def test_every_target_can_be_planned(checkout, target):
    result = make(checkout, "-n", target)
    assert result.returncode == 0, result.stderr


def test_help_lists_the_targets(checkout):
    shown = make(checkout).stdout
    for target in ("quickstart", "test", "lint", "bench", "clean"):
        assert f"make {target} " in shown


def test_an_installed_environment_is_left_alone(checkout):
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".installed-cpu").touch()
    assert "install.sh" not in make(checkout, "-n", "quickstart").stdout
    later = time.time() + 10  # file times may be too coarse to tell two touches apart
    os.utime(checkout / "requirements" / "cpu.lock", (later, later))
    assert "install.sh" in make(checkout, "-n", "quickstart").stdout


def fake_python(folder: Path, version: tuple[int, int], venv: str = "exit 1") -> Path:
    """A `python3` that claims a version and does something else for `-m venv`."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "python3"
    supported = "exit 0" if (3, 11) <= version < (3, 13) else "exit 1"
    script.write_text(f'#!/bin/bash\nif [ "$1" = -c ]; then {supported}; fi\nif [ "$2" = venv ]; then {venv}; fi\n')
    script.chmod(0o755)
    return folder


def tools(folder: Path) -> Path:
    """The few programs the script uses, and no Python."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("bash", "dirname", "df", "awk", "rm", "env"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return folder


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ((3, 10), "error: Python 3.11 or 3.12 is needed; install one, or name it: make PYTHON=/path/to/python3.11 …"),
        ((3, 11), "'python3 -m venv' failed; on Debian or Ubuntu its package is missing: apt-get install python3-venv"),
    ],
)
def test_an_unfit_python_and_a_missing_venv_package_are_told(checkout, tmp_path, version, message):
    path = f"{fake_python(tmp_path / 'fake', version)}:{tools(tmp_path / 'tools')}"
    result = bash(checkout / "launch" / "install.sh", "cpu", "0", cwd=tmp_path, PATH=path)
    assert result.returncode in (1, 2) and message in result.stderr and result.stderr.count("\n") == 1
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tpu", "0"), "error: no requirements/tpu.lock; EXTRA is cpu or gpu\n"),
        (("cpu", "0", "/no/such/python"), "error: PYTHON=/no/such/python is no Python 3.11 or 3.12\n"),
    ],
)
def test_wrong_arguments_are_told(checkout, tmp_path, arguments, message):
    result = bash(checkout / "launch" / "install.sh", *arguments, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (2, message)


def test_an_environment_of_the_other_kind_is_built_anew(checkout, tmp_path):
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".installed-cpu").touch()
    path = f"{fake_python(tmp_path / 'fake', (3, 12))}:{tools(tmp_path / 'tools')}"
    result = bash(checkout / "launch" / "install.sh", "gpu", "0", cwd=tmp_path, PATH=path)
    assert ".venv holds cpu; building it anew for gpu" in result.stdout
    assert not (checkout / ".venv").exists()


def test_the_version_line_names_the_interpreter():
    shown = subprocess.run([sys.executable, "-m", "legal_rl", "--version"], capture_output=True, text=True).stdout
    assert f"(Python {sys.version.split()[0]})" in shown
