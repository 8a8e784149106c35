"""What may import what: the light packages stay light, imports point down, heavy libraries stay in their folders."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("retrieval_server", "envs", "rewards", "legal_rl")
"""Lowest first: a package imports itself and what stands before it."""
HEAVY = ("torch", "ray", "verl", "vllm", "transformers")
ALLOWED = {
    "verl": ("legal_rl/training/", "legal_rl/platform/"),
    "vllm": ("legal_rl/training/", "legal_rl/platform/", "legal_rl/serving/", "legal_rl/evaluation/"),
    "ray": (
        "legal_rl/cluster/",
        "legal_rl/training/",
        "legal_rl/serving/",
        "legal_rl/data/",
        "retrieval_server/deployment.py",
        "retrieval_server/embedding.py",
        "legal_rl/data/pipeline/stages.py",
        "legal_rl/commands/data_chain.py",
        "legal_rl/evaluation/ray_engines.py",
    ),
}
"""Where each library may be named."""
LIGHT_MODULES = ("retrieval_server.types", "retrieval_server.client", "retrieval_server.errors", "rewards.judge")


def light_modules() -> list[str]:
    found = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in ("envs", "rewards")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return [*found, *LIGHT_MODULES]


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, module) of every import in a file, those inside functions included."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module


def sources() -> list[Path]:
    return [path for package in LAYERS for path in sorted((ROOT / package).rglob("*.py"))]


def test_light_packages_import_without_heavy_libraries() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {light_modules()!r}: importlib.import_module(name)\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "[]"


def test_there_is_something_to_check() -> None:
    assert len(sources()) > 50 and "envs.rollout" in light_modules()


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_down_only(package: str) -> None:
    above = LAYERS[LAYERS.index(package) + 1 :]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, name in imports(path)
        if name.split(".")[0] in above
    ]
    assert wrong == []


@pytest.mark.parametrize("library", sorted(ALLOWED))
def test_heavy_libraries_are_named_only_in_their_folders(library: str) -> None:
    wrong = [
        f"{place}:{line} imports {name}"
        for path in sources()
        for place in [path.relative_to(ROOT).as_posix()]
        for line, name in imports(path)
        if name.split(".")[0] == library and not place.startswith(ALLOWED[library])
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["envs", "rewards"])
def test_light_packages_never_name_heavy_libraries(package: str) -> None:
    named = {name.split(".")[0] for path in (ROOT / package).rglob("*.py") for _, name in imports(path)}
    assert named.isdisjoint(HEAVY)
