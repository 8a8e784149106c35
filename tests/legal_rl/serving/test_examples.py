"""The README's examples, run as they are written against a running application."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

README = Path(__file__).parents[3] / "README.md"
ADDRESS = "http://127.0.0.1:8080"


def blocks(language: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    found = re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)
    return [block for block in found if ADDRESS in block]


@pytest.fixture
def url(serve: Callable[..., str], toys: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return serve(toys.Every(toys.search, toys.answer))


def test_the_python_example(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code.replace(ADDRESS, url), "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "依据《刑法》第二百六十四条" in shown and "('中华人民共和国刑法', '第二百六十四条', 'verified')" in shown
    assert "start thought search evidence thought answer citations done" in shown


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_the_curl_examples(url: str) -> None:
    (script,) = blocks("bash")
    answers = []
    for line in script.strip().splitlines():
        done = subprocess.run(["bash", "-c", line.replace(ADDRESS, url)], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
    assert json.loads(answers[0])["citations"][0]["status"] == "verified"
    assert answers[1].count("event: evidence") == 1 and answers[1].rstrip().split("event: ")[-1].startswith("done")
    assert json.loads(answers[2])["article_label"] == "第二百六十四条"
