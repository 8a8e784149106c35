"""Jinja templates to one self-contained HTML file: styles and scripts inside, nothing loaded from anywhere."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from legal_rl.traces.metrics import MISSING

_TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """A page's HTML. Everything is escaped, except the charts and the page's own style and script."""
    style = Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8"))
    script = Markup((_TEMPLATES / "page.js").read_text(encoding="utf-8"))
    return _environment().get_template(template).render(style=style, script=script, **values)


def template_module(template: str) -> Any:
    """A template's macros as functions."""
    return _environment().get_template(template).module


def write_page(path: Path, html: str) -> Path:
    """Write a page (temporary name, then rename). Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(html.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode())
    os.replace(temporary, path)
    return path


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = duration
    environment.filters["num"] = plain_number
    environment.filters["subscript"] = subscript
    return environment


def duration(seconds: float | None) -> str:
    """Example: 75 -> `1 min 15 s`."""
    if seconds is None:
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def plain_number(value: float | None, digits: int = 3) -> str:
    """Fixed digits with a true minus sign; None is a dash."""
    return MISSING if value is None else f"{value:.{digits}f}".replace("-", "−")


def subscript(text: str) -> Markup:
    """Example: `R_acc: answer grade` -> R<sub>acc</sub>: answer grade."""
    return Markup(re.sub(r"\bR_([a-z]+)", r"R<sub>\1</sub>", str(escape(text))))
