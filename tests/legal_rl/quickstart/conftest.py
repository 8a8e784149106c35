"""A toy corpus, a configuration that reads it, and looking at processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from legal_rl.config import RunConfig, load_config

THEFT = {
    "id": "law/刑法@2020-12-26#264", "kind": "law", "law_title": "中华人民共和国刑法", "law_key": "刑法",
    "version_date": "2020-12-26", "effective_date": "2021-03-01", "article_no": 264, "article_sub": 0,
    "article_label": "第二百六十四条", "part": "", "chapter": "", "section": "", "is_latest": True,
    "superseded_by": None, "category": "法律", "text": "盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制。",
}  # fmt: skip


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("toy") / "norms.jsonl"
    file.write_text(json.dumps(THEFT, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def overrides(corpus: Path, tmp_path: Path) -> list[str]:
    """What makes the quickstart's first stage a matter of a second."""
    return [f"run_dir={tmp_path / 'run'}", f"knowledge.articles=['{corpus}']", "knowledge.encoder=none"]


@pytest.fixture
def config(overrides: list[str]) -> RunConfig:
    return load_config("quickstart", overrides)


def children_of(pid: int) -> list[int]:
    """Live child processes of every thread of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in task.read_text().split()]
    return found


def eventually(condition: Callable[[], object], timeout_s: float = 60.0) -> object:
    """The first true value of a condition."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s")


@pytest.fixture
def processes():
    """(children_of, eventually), for tests that kill."""
    return children_of, eventually
