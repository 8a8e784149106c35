"""Five thousand trajectories on one page, in a real browser; the gap between sampler and weights."""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs.records import write_rollouts
from envs.types import Rollout, TokenRecord
from legal_rl.errors import ModelError
from legal_rl.traces.logprob_gap import GapMeter
from legal_rl.traces.trace import write_trace_page
from legal_rl.traces.trajectories import Scoring, of_rollout

COUNT = 5_000


def numbered(rollout: Rollout, number: int) -> Rollout:
    question = dataclasses.replace(rollout.question, id=f"n-{number:05d}")
    return dataclasses.replace(rollout, question=question)


@pytest.fixture(scope="module")
def long_page(rollouts: dict[str, list[Rollout]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("long") / "long.jsonl"
    some = rollouts["grpo"]
    write_rollouts(file, (numbered(some[number % len(some)], number) for number in range(COUNT)))
    return write_trace_page(file, file.with_suffix(".html"))


def test_all_are_on_the_page_and_it_stays_small(long_page: Path) -> None:
    html = long_page.read_text(encoding="utf-8")
    assert html.count('<details class="traj card"') == COUNT and "Showing the first" not in html
    assert len(html) < 20_000_000


@pytest.fixture
def opened(long_page: Path) -> Iterator[Any]:
    if shutil.which("chromium") is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(long_page.as_uri())
        yield page
        assert complaints == []
        browser.close()


def test_it_can_be_searched_filtered_and_read(opened: Any) -> None:
    from playwright.sync_api import expect

    count = opened.locator("[data-count]")
    assert count.inner_text() == f"{COUNT} of {COUNT}"
    opened.locator("details.traj").nth(3).locator("summary").first.click()
    opened.locator("details.traj").nth(3).locator(".turn").first.wait_for()
    assert "甲罪处罚金" in opened.locator("details.traj").nth(3).inner_text()
    assert opened.locator("details.traj .turn").count() <= 3  # only what was opened is in the page
    opened.fill("[data-search]", "n-04321")
    expect(count).to_have_text(f"1 of {COUNT}")
    opened.fill("[data-search]", "")
    opened.fill("[data-least]", "0.5")
    expect(count).not_to_have_text(re.compile(rf"^({COUNT}|1) of"))
    shown = int(count.inner_text().split()[0])
    visible = "[...document.querySelectorAll('details.traj:not([hidden])')]"
    totals = opened.evaluate(f"{visible}.map((e) => Number(e.dataset.total))")
    assert len(totals) == shown and 0 < shown < COUNT and min(totals) >= 0.5
    opened.select_option("[data-filter=family]", "locate")
    assert 0 < int(count.inner_text().split()[0]) < shown


def test_no_filter_freezes_the_page(opened: Any) -> None:
    """The longest time in which the page could not answer, while everything is filtered and shown again."""
    opened.evaluate(
        """window.longest = 0; let last = performance.now();
           setInterval(() => { const now = performance.now(); 
             window.longest = Math.max(window.longest, now - last); last = now; }, 20)"""
    )
    for words in ("罚金", "死刑", "没有这样的文字", ""):
        opened.fill("[data-search]", words)
        time.sleep(0.3)
    assert opened.evaluate("window.longest") < 2000


# -- sampler against weights ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_gap_is_what_the_weights_say(tmp_path: Path, rollouts: dict[str, list[Rollout]]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from legal_rl.policy_model.build import build_policy
    from legal_rl.policy_model.settings import PolicySettings

    settings = PolicySettings(
        vocab_size=400, layers=1, hidden_size=32, heads=1, kv_heads=1, ffn_size=32, steps=0, minutes=0, threads=1
    )
    build_policy(
        settings, ["第一条 盗窃公私财物的，处罚金一千元以上。"], ["<search>第一条</search>"], tmp_path / "model"
    )
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    ids = (5, 9, 17, 33, 20, 8)
    with torch.inference_mode():
        logprobs = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0], -1)
    own = tuple(float(logprobs[t - 1, ids[t]]) if t in (2, 3, 5) else 0.0 for t in range(6))
    shifted = tuple(value - 0.5 * (t == 5) for t, value in enumerate(own))
    record = TokenRecord(ids, (0, 0, 1, 1, 2, 1), shifted, (-1, -1, 0, 0, 0, 1), (False,) * 6)
    meter = GapMeter.from_folder(tmp_path / "model")
    assert meter.gaps(record) == pytest.approx((0.0, 0.0, -0.5), abs=1e-5)
    rollout = dataclasses.replace(rollouts["grpo"][0], tokens=record)
    first, second = of_rollout(rollout, Scoring(), None, meter).turn_tokens
    assert (first.policy, first.environment, second.policy) == (2, 1, 1)
    assert first.max_gap == pytest.approx(0, abs=1e-5) and second.mean_gap == pytest.approx(0.5, abs=1e-5)


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no config"):
        GapMeter.from_folder(tmp_path)


def test_turns_are_counted_without_a_model(rollouts: dict[str, list[Rollout]]) -> None:
    record = TokenRecord((1, 2, 3), (0, 1, 2), (0.0, -0.5, 0.0), (-1, 0, 0), (False, False, True))
    (row,) = of_rollout(dataclasses.replace(rollouts["grpo"][0], tokens=record), Scoring()).turn_tokens
    assert (row.policy, row.environment, row.mean_logprob, row.mean_gap) == (1, 1, -0.5, None)
