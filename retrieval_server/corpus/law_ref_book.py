"""K_norm from a folder of Markdown files laid out like the public LawRefBook collection.

One file is one version of a norm, its folder is the category::

    刑法/刑法(2020-12-26).md
        # 中华人民共和国刑法
        1979年7月1日…通过
        2020年12月26日…修正
        <!-- INFO END -->
        ## 第一编 总则
        ### 第一章 刑法的任务、基本原则和适用范围
        第一条 为了惩罚犯罪，保护人民，…
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from retrieval_server.corpus.json_lines import KIND_PREFIX
from retrieval_server.corpus.unique import unique_ids
from retrieval_server.errors import CorpusError
from retrieval_server.law_names import STATE
from retrieval_server.numerals import NUMERAL_CHARS, article_label, parse_label, parse_number
from retrieval_server.types import Article
from retrieval_server.validity import close_versions

KIND_OF_FOLDER = {"司法解释": "interpretation", "行政法规": "regulation", "部门规章": "rule"}
"""Top folder -> kind; every other folder holds laws."""

LEFT_OUT = ("案例", "DLC")

_FILE_DATE = re.compile(r"[（(](\d{4}-\d{2}-\d{2})[)）]$")
_HEADER_DATE = re.compile(r"(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日")
_EFFECTIVE = re.compile(r"自\s*(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日起(?:施行|实施|生效)")
_HEADING = re.compile(r"#+\s*(.+)")
_UNIT = re.compile(
    rf"(第\s*[{NUMERAL_CHARS}\s]+?\s*条(?:\s*之\s*[{NUMERAL_CHARS}]+)?)(?=[\s　]|$|[^\d、之至和款项])[\s　]*(.*)"
)
_ITEM = re.compile(r"([一二三四五六七八九十百]{1,4})[、．.]\s*(.+)")
_INFO_END = "<!-- INFO END -->"
_LEVELS = (
    ("part", re.compile(r"第.{1,4}(?:编|分编)")),
    ("chapter", re.compile(r"第.{1,4}章")),
    ("section", re.compile(r"第.{1,4}节")),
)


@dataclass(slots=True)
class _Unit:
    label: str
    number: int | None
    sub: int
    headings: dict[str, str]
    lines: list[str] = field(default_factory=list)


def read_law_ref_book(root: Path) -> Iterator[Article]:
    """Streams the articles of every `.md` file under `root` in path order, versions closed by their successors.

    Raises:
        CorpusError: no Markdown file with articles, an unreadable file, or a file without a title; names the file.
    """
    paths = sorted(p for p in root.rglob("*.md") if not p.name.startswith("_") and not set(p.parts) & set(LEFT_OUT))
    articles = [article for path in paths for article in _read_file(root, path)]
    if not articles:
        raise CorpusError(f"{root}: holds no Markdown file with articles (第一条 …)")
    yield from close_versions(unique_ids(articles))


def _read_file(root: Path, path: Path) -> list[Article]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from error
    title = next((m[1].strip() for line in lines if (m := _HEADING.fullmatch(line.strip()))), "")
    if not title:
        if not any(line.strip() for line in lines) or path.name.lower() == "readme.md":
            return []
        raise CorpusError(f"{path}, line 1: field 'title' is missing (expected a heading '# 法律名称')")
    head, body = _split_header(lines)
    key, version = _key_and_version(path, head)
    kind = KIND_OF_FOLDER.get(path.relative_to(root).parts[0], "law")
    effective = _last_date(_EFFECTIVE, head)
    base = {"kind": kind, "law_title": title, "law_key": key, "version_date": version, "effective_date": effective}
    return [_article(unit, base) for unit in _units(body) if unit.lines]


def _split_header(lines: list[str]) -> tuple[list[str], list[str]]:
    """Header (title and dates) and body; without the marker the first article or second heading starts the body."""
    for index, line in enumerate(lines):
        if line.strip() == _INFO_END:
            return lines[:index], lines[index + 1 :]
    first = next(
        (i for i, line in enumerate(lines) if i and (_UNIT.match(line.strip()) or line.startswith("##"))), len(lines)
    )
    return lines[:first], lines[first:]


def _key_and_version(path: Path, head: list[str]) -> tuple[str, str]:
    match = _FILE_DATE.search(path.stem)
    key = _FILE_DATE.sub("", path.stem).strip().removeprefix(STATE)
    return key, match[1] if match else _last_date(_HEADER_DATE, head) or ""


def _last_date(pattern: re.Pattern[str], lines: list[str]) -> str | None:
    found = [match.groups() for line in lines for match in pattern.finditer(line)]
    try:
        return date(*(int(part) for part in found[-1])).isoformat() if found else None
    except ValueError:
        return None


def _units(body: list[str]) -> list[_Unit]:
    """Articles, or 一、二、… items where the norm has no article, or the whole text as 全文."""
    has_articles = any(_UNIT.match(line.strip()) for line in body)
    units: list[_Unit] = [] if has_articles else [_Unit("全文", None, 0, {})]
    headings: dict[str, str] = {}
    for line in (raw.strip() for raw in body):
        heading = _HEADING.fullmatch(line)
        if heading:
            headings = _under(headings, heading[1].strip())
            continue
        start = _start(line, has_articles, dict(headings))
        if start:
            units.append(start)
        elif line and not line.startswith("<!--") and units:
            units[-1].lines.append(line)
    # What stands before the first numbered item is the formula of promulgation.
    return units if has_articles or len(units) == 1 else units[1:]


def _under(headings: dict[str, str], text: str) -> dict[str, str]:
    for depth, (level, pattern) in enumerate(_LEVELS):
        if pattern.match(text):
            kept = {name: headings[name] for name, _ in _LEVELS[:depth] if name in headings}
            return {**kept, level: text}
    return headings


def _start(line: str, has_articles: bool, headings: dict[str, str]) -> _Unit | None:
    match = (_UNIT if has_articles else _ITEM).match(line)
    if not match:
        return None
    if has_articles:
        numbers = parse_label(re.sub(r"\s", "", match[1]))
        label = article_label(*numbers) if numbers else match[1]
    else:
        number = parse_number(match[1])
        numbers, label = (None if number is None else (number, 0)), match[1]
    if numbers is None:
        return None
    return _Unit(label, *numbers, headings, [match[2].strip()] if match[2].strip() else [])


def _article(unit: _Unit, base: dict[str, str | None]) -> Article:
    suffix = unit.label if unit.number is None else f"{unit.number}-{unit.sub}" if unit.sub else str(unit.number)
    prefix = KIND_PREFIX[str(base["kind"])]
    return Article.model_validate(
        {
            **base,
            **unit.headings,
            "id": f"{prefix}/{base['law_key']}@{base['version_date']}#{suffix}",
            "article_no": unit.number,
            "article_sub": unit.sub,
            "article_label": unit.label,
            "text": "\n".join(unit.lines),
        }
    )
