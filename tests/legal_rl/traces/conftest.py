"""A small run folder (real rollouts of scripted policies, summarised by the real evaluation code), and page checks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from envs.env import EnvConfig, LegalEnv
from envs.policy import ScriptedPolicy
from envs.records import write_rollouts
from envs.rollout import run_rollout
from envs.types import Question, Reference, Rollout
from legal_rl.evaluation.lawyer import _score, summarise
from retrieval_server.types import Evidence, SearchQuery, SearchResult, Source, Status
from rewards import compute_reward

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'
FAMILIES = ("recite", "locate", "direct")


class ToyRetriever:
    """Always the same article, hostile in every text."""

    async def search(self, queries: list[SearchQuery]) -> list[SearchResult]:
        unit = Evidence(
            id="law/试验法@2024-01-01#1", source=Source.STATUTE, title=f"试验法{HOSTILE}", label="第一条",
            text=f"甲罪处罚金{HOSTILE}", score=0.5, provenance=("bm25",), notes=(HOSTILE,),
        )  # fmt: skip
        return [SearchResult(status=Status.OK, evidence=(unit,)) for _ in queries]


def make_rollout(number: int, script: list[str], text: str = "第一条写了什么？") -> Rollout:
    reference = Reference(("statute", "stop"), ("law/试验法@2024-01-01#1",), ("罚金",), ("第一条",))
    question = Question(
        f"q-{number:04d}", f"{text}{HOSTILE}", "罚金", "exact", FAMILIES[number % 3], reference=reference
    )
    env = LegalEnv(ToyRetriever(), EnvConfig(max_turns=3))  # type: ignore[arg-type]
    return asyncio.run(run_rollout(question, ScriptedPolicy(script), env))


SEARCH = '<think>查第一条</think><search>{"source": "statute", "query": "第一条"}</search>'
RIGHT = [SEARCH, "<think>看第一条</think><answer>罚金</answer>"]
WRONG = ["<think>猜</think><answer>死刑</answer>"]
BROKEN = [f'<search>{{"source": {HOSTILE}', "<answer>不知道</answer>"]
SCRIPTS = {"untrained": (BROKEN, WRONG, BROKEN), "sft": (RIGHT, WRONG, WRONG), "grpo": (RIGHT, RIGHT, WRONG)}


@pytest.fixture(scope="session")
def rollouts() -> dict[str, list[Rollout]]:
    return {
        name: [make_rollout(n, scripts[n // 3 % 3] if n % 2 else scripts[n % 3]) for n in range(18)]
        for name, scripts in SCRIPTS.items()
    }


@pytest.fixture
def run_dir(tmp_path: Path, rollouts: dict[str, list[Rollout]]) -> Path:
    folder = tmp_path / "run"
    scores = {}
    for name, played in rollouts.items():
        write_rollouts(folder / "eval" / f"{name}.rollouts.jsonl", played)
        scores[name] = [_score(rollout, compute_reward(rollout)) for rollout in played]
    write(folder / "eval" / "summary.json", summarise(scores, 20, seed=0, resamples=200) | {"temperature": 0.0})
    lines(folder / "policy" / "metrics.jsonl", [{"step": n, "loss": 5 / n, "copy_accuracy": 0.1} for n in (1, 2, 3)])
    lines(folder / "sft" / "metrics.jsonl", [{"step": n, "train/loss": 4 / n} for n in range(1, 40)])
    lines(
        folder / "grpo" / "metrics.jsonl",
        [{"step": n, "reward/total": n / 4, "token_mismatch": 0.25 * (n == 4)} for n in (1, 2, 3, 4)],
    )
    write(folder / "run.json", run_facts())
    write(folder / "trajectories" / "manifest.json", {"sft": {"kept": {"recite": 7, "locate": 5}, "dropped": {"x": 2}}})
    row = {"ndcg": 0.9, "recall": 1.0, "mrr": 0.8, "hit": 1.0, "n": 12}
    write(folder / "retrieval.json", {"k": 10, "n": 12, "overall": row, "by_type": {"recite": row}})
    return folder


def run_facts() -> dict[str, object]:
    return {
        "name": "toy", "legal_rl": "0.1.0", "command": "legal-rl quickstart", "seed": 3, "seconds": 12.5,
        "stages": [{"name": "sft", "title": "SFT", "seconds": 75.0, "skipped": False, "summary": {"steps": 39}}],
        "versions": {"verl": "0.9.1"}, "machine": {"system": "Linux", "cores": 2, "memory_gib": 23.5},
        "config": {"grpo": {"group_size": 2, "prompts_per_step": 4}, "questions": {"families": list(FAMILIES)}},
    }  # fmt: skip


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def lines(path: Path, rows: list[dict[str, float]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


VOID = {"meta", "link", "input", "br", "img", "hr"}
LOADS = {"src", "href", "action", "data", "poster", "srcset"}


class Page(HTMLParser):
    """Collects tags, loaded addresses, ids and the text; remembers tags that were not closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.problems: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.ids: list[str] = []
        self.controls: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        self.problems += [f"never closed: {tag}" for tag in self.open]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in LOADS:
                self.loads.append(value or "")
            if name.startswith("on"):
                self.handlers.append(f"{tag} {name}")
            if name == "id":
                self.ids.append(value or "")
            if name == "aria-controls":
                self.controls.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}, open: {self.open[-3:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def _check(html: str) -> Page:
    """Parse a page and assert what holds for all pages."""
    page = Page(html)
    assert page.problems == []
    assert [load for load in page.loads if not load.startswith(("#", "data:,"))] == []
    assert page.handlers == []
    assert "img" not in page.tags
    assert page.tags.count("script") == 2  # our own two
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.controls) <= set(page.ids)
    assert "url(" not in html and "@import" not in html
    assert html.startswith('<!doctype html>\n<html lang="zh"')
    return page


@pytest.fixture
def check_page() -> Callable[[str], Page]:
    """Parses a page and asserts well-formed nesting, nothing loaded from outside, no foreign markup."""
    return _check
