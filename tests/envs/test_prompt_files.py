"""Prompt files: all of ours load, and every fault is one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs.errors import PromptError
from envs.prompt_files import PLACEHOLDERS, PROMPT_DIR, fill, load_prompt, prompt_version, read_prompt


def test_every_prompt_file_is_known_and_loads() -> None:
    assert {path.stem for path in PROMPT_DIR.glob("*.txt")} == set(PLACEHOLDERS)
    for name in PLACEHOLDERS:
        assert load_prompt(name).template
        assert prompt_version(name).startswith(f"{name} v")


def test_fill() -> None:
    assert fill("correction", reason="没有行动") == "格式有误：没有行动。请只写一个行动：检索或<answer>。"
    assert "6 轮" in fill("lawyer_system", max_turns=6)


def test_a_prompt_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("# mine v3\n你是律师。", encoding="utf-8")
    assert fill(str(path), max_turns=2) == "你是律师。"
    assert prompt_version(str(path)) == "mine v3"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("没有版本", "first line"),
        ("# x v1\n$unknown", "placeholders"),
        ("# x v1\n", "placeholders"),
        ("# x v1\n$reason 5$", "lone"),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PromptError, match=part):
        read_prompt(path, {"reason"})


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"nowhere\.txt"):
        load_prompt(str(tmp_path / "nowhere.txt"))
