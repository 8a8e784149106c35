"""K_norm from JSON Lines, plain or gzip'd: one article per line with the fields of `Article`.

Two more fields are understood: `superseded_by` (title that replaced this one) and `is_latest` (false for an older
version). Both say that the text is not in force any more; where no later version in the file tells the day it ended,
the version counts as ended from its start: searches leave it out, citations still find it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrieval_server.errors import CorpusError
from retrieval_server.law_names import law_key
from retrieval_server.types import Article
from retrieval_server.validity import close_versions, in_force_from

KIND_PREFIX = {"law": "law", "interpretation": "int", "regulation": "reg", "rule": "rule"}

_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT_FIELDS = ("id", "kind", "law_title", "text")
_OPTIONAL_TEXT = ("law_key", "part", "chapter", "section", "article_label", "status")


def iter_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, record) and skips blank lines.

    Raises:
        CorpusError: not readable, not UTF-8, not JSON or not an object; names file and line.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _parse_object(path, number, line)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read after line {number}: {error}") from error


def _parse_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{path}, line {number}: not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError:
        raise CorpusError(f"{path}, line {number}: not usable, lists or objects are nested too deeply") from None
    if not isinstance(record, dict):
        raise CorpusError(f"{path}, line {number}: expected an object, found {type(record).__name__}")
    return record


def read_json_lines(path: Path) -> Iterator[Article]:
    """Streams the articles of a norms file in file order, versions closed by their successors.

    Raises:
        CorpusError: names file, line and field of the first record that cannot be used.
    """
    ended: set[str] = set()
    articles: list[Article] = []
    lines: dict[str, int] = {}
    for number, record in iter_json_lines(path):
        article = _article(path, number, record)
        if lines.setdefault(article.id, number) != number:
            raise CorpusError(f"{path}, line {number}: field 'id' is {article.id}, as in line {lines[article.id]}")
        articles.append(article)
        if record.get("superseded_by") or record.get("is_latest") is False:
            ended.add(article.id)
    if not articles:
        raise CorpusError(f"{path}: holds no article")
    for article in close_versions(articles):
        if article.id in ended and article.in_force_until is None:
            # The day it ended is unknown: an empty interval keeps it out of every search, citations still find it.
            article = article.model_copy(update={"in_force_until": in_force_from(article)})
        yield article


def _article(path: Path, number: int, record: dict[str, Any]) -> Article:
    for name in _TEXT_FIELDS:
        if not isinstance(record.get(name), str) or not record[name].strip():
            raise CorpusError(f"{path}, line {number}: field {name!r} is missing, empty or not a text")
    for name in _OPTIONAL_TEXT:
        if not isinstance(record.get(name, "") or "", str):
            raise CorpusError(f"{path}, line {number}: field {name!r} must be a text")
    for name in (*_TEXT_FIELDS, *_OPTIONAL_TEXT):
        if _SURROGATE.search(record.get(name) or ""):
            raise CorpusError(f"{path}, line {number}: field {name!r} holds half a character (a lone surrogate)")
    if not isinstance(record.get("is_latest", True), bool | None):
        raise CorpusError(f"{path}, line {number}: field 'is_latest' must be true or false")
    if record["kind"] not in KIND_PREFIX:
        raise CorpusError(
            f"{path}, line {number}: field 'kind' is {record['kind']!r}, not one of {', '.join(KIND_PREFIX)}"
        )
    return Article(
        **{name: record[name] for name in _TEXT_FIELDS},
        **{name: record.get(name) or "" for name in _OPTIONAL_TEXT if name != "law_key"},
        law_key=record.get("law_key") or law_key(record["law_title"]),
        version_date=_date(path, number, record, "version_date") or "",
        effective_date=_date(path, number, record, "effective_date"),
        in_force_until=_date(path, number, record, "in_force_until"),
        article_no=_integer(path, number, record, "article_no"),
        article_sub=_integer(path, number, record, "article_sub") or 0,
    )


def _integer(path: Path, number: int, record: dict[str, Any], name: str) -> int | None:
    value = record.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise CorpusError(f"{path}, line {number}: field {name!r} must be a whole number from 0, found {value!r}")


def _date(path: Path, number: int, record: dict[str, Any], name: str) -> str | None:
    from datetime import date

    value = record.get(name)
    if value in (None, ""):
        return None
    try:
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError) as error:
        raise CorpusError(
            f"{path}, line {number}: field {name!r} must be a date YYYY-MM-DD, found {value!r}"
        ) from error
