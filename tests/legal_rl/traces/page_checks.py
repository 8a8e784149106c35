"""What every page must satisfy: well-formed nesting, nothing loaded from outside, no foreign markup."""

from __future__ import annotations

from html.parser import HTMLParser

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


def check_page(html: str) -> Page:
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
