"""The page in a real browser: type, watch, open evidence, read an article, compare, copy; wide and on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from legal_rl.serving.access import add_key

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CONTRAST = Path(__file__).parent / "contrast.js"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

Serve = Callable[..., str]
FALSE = "依据《刑法》第二百六十四条[1]与第九百九十九条，处三年以下有期徒刑。<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A Chinese browser without any network but the application; whatever it complains of fails the test."""
    context = browser.new_context(locale="zh-CN", permissions=["clipboard-read", "clipboard-write"])
    opened = context.new_page()
    complaints: list[str] = []
    foreign: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: foreign.append(request.url) if "127.0.0.1" not in request.url else None)
    yield opened
    context.close()
    assert [c for c in complaints if "401" not in c and "Failed to load resource" not in c] == []
    assert [url for url in foreign if not url.startswith("data:")] == []


def ask(page: Any, question: str) -> None:
    page.fill("#question", question)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".run:not(.busy)")


def test_ask_watch_read_and_copy(serve: Serve, toys: SimpleNamespace, page: Any) -> None:
    page.goto(serve(toys.Every(toys.search, toys.answer), judges={"j": toys.Judge(FALSE, pause_s=0.01)}, judge="j"))
    page.wait_for_function("document.querySelector('#judge').options.length === 2")
    ask(page, "盗窃五千元怎么量刑？")
    steps = page.locator(".steps > li")
    assert steps.count() == 3 and "刑法第二百六十四条" in steps.nth(1).inner_text()
    page.locator(".unit summary").first.click()
    assert "盗窃公私财物" in page.locator(".unit .law").first.inner_text()
    assert page.locator(".unit .mark").first.inner_text() == "版本 2023-12-29"
    assert page.locator(".cited .mark").all_inner_texts() == ["已核实", "已核实", "不存在"]
    assert "引用核对" in page.locator(".notices").inner_text()
    assert page.locator(".answer img").count() == 0 and "<img src=x" in page.locator(".answer").inner_text()
    page.locator(".answer .cite").first.click()
    page.wait_for_function("document.querySelector('#article-text').textContent.includes('盗窃公私财物')")
    page.keyboard.press("Escape")
    page.locator(".foot button").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert (
        copied.startswith("# 盗窃五千元怎么量刑？")
        and "- 不存在: 《刑法》第九百九十九条" in copied
        and "`law/刑法@" in copied
    )


def test_two_runs_side_by_side_and_in_english(serve: Serve, toys: SimpleNamespace, page: Any) -> None:
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(serve(toys.Every(toys.search, toys.answer)))
    ask(page, "第一问：盗窃？")
    ask(page, "第二问：诈骗？")
    boxes = page.locator("#list input")
    boxes.nth(0).check()
    page.locator("#list input").nth(1).check()
    assert page.locator("#runs.two .run").count() == 2
    left, right = (page.locator("#runs .run").nth(i).bounding_box() for i in (0, 1))
    assert abs(left["y"] - right["y"]) < 2 and left["x"] < right["x"]
    page.click("#language")
    assert page.locator("#send").inner_text() == "Ask" and page.evaluate("document.documentElement.lang") == "en"
    assert page.locator(".cited .mark").first.inner_text() == "verified"


@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_and_can_be_used_by_keyboard(serve: Serve, toys: SimpleNamespace, page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(serve(toys.Every(toys.search, toys.answer)))
    ask(page, "盗窃五千元怎么量刑？")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, input, select, textarea')].filter((e) => e.offsetParent
           && !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast(serve: Serve, toys: SimpleNamespace, page: Any, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(serve(toys.Every(toys.search, toys.answer), judges={"j": toys.Judge(FALSE)}, judge="j"))
    ask(page, "盗窃？")
    ratios = page.evaluate(CONTRAST.read_text(encoding="utf-8"))
    assert [name for ratio, name in ratios if ratio < 4.5] == [] and len(ratios) > 15


def test_an_outage_and_a_missing_key_are_told(serve: Serve, toys: SimpleNamespace, page: Any, tmp_path: Any) -> None:
    page.goto(serve(toys.Every(toys.search, toys.answer), knowledge=toys.Broken(None)))
    ask(page, "盗窃？")
    assert "retrieval_unavailable" in page.locator(".wrong").inner_text()
    file = tmp_path / "keys.yaml"
    key = add_key(file, "a")
    page.goto(serve(toys.Every(toys.answer), limits={"keys_file": str(file)}))
    page.wait_for_selector("#key-box[open]")
    page.fill("#key", key)
    page.keyboard.press("Enter")
    ask(page, "盗窃？")
    assert "三年以下" in page.locator(".answer").inner_text()


def test_escape_stops_the_work(serve: Serve, toys: SimpleNamespace, page: Any) -> None:
    policy = toys.Slow([toys.search], 60.0)
    page.goto(serve(policy))
    page.fill("#question", "盗窃？")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".run.busy")
    while not policy.started:
        page.wait_for_timeout(20)
    page.keyboard.press("Escape")
    page.wait_for_selector(".run:not(.busy)")
    page.wait_for_timeout(1000)
    assert policy.cancelled == 1 and page.locator("#said").inner_text() == "已停止"
