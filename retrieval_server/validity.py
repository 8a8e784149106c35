"""Which version of a norm governs on a given day (decisions.md, "Temporal validity").

Sources often give a law's **first** effective date with its latest text (Criminal Law: text of 2020, in force since
1997). The day a version starts to govern is therefore the later of its effective date and its version date.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from retrieval_server.types import Article

EARLIEST = "0000-00-00"
"""Sorts before every ISO date: a version without dates has always been there."""


def in_force_from(article: Article) -> str:
    """ISO date from which this version governs; `EARLIEST` when the source gives no date at all."""
    return max(article.effective_date or "", article.version_date or "") or EARLIEST


def is_in_force(article: Article, as_of: date) -> bool:
    """True when this version governs on `as_of` (from its start, up to but not including `in_force_until`)."""
    day = as_of.isoformat()
    return in_force_from(article) <= day and (article.in_force_until is None or day < article.in_force_until)


def select_version(versions: Sequence[Article], as_of: date) -> Article | None:
    """The version that governs on `as_of`; else the last one that had started; else the earliest text there is.

    The two fall-backs answer a direct citation only; `validity_note` says that the text is not the one in force.
    """
    if not versions:
        return None
    ordered = sorted(versions, key=in_force_from)
    started = [a for a in ordered if in_force_from(a) <= as_of.isoformat()]
    governing = [a for a in started if is_in_force(a, as_of)]
    return (governing or started or ordered[:1])[-1]


def validity_note(article: Article, as_of: date) -> str:
    """One Chinese sentence for the evidence: which version this is and whether it governs on `as_of`."""
    start = in_force_from(article)
    version = f"{article.version_date}版本" if article.version_date else "版本日期不详"
    day = as_of.isoformat()
    if start > day:
        return f"{version}，{start}起施行，{day}尚未生效"
    if article.in_force_until is not None and article.in_force_until <= day:
        return f"{version}，自{article.in_force_until}起被新版本取代或废止，{day}已不再有效"
    return f"{version}，{day}有效"


def close_versions(articles: Iterable[Article]) -> list[Article]:
    """Sets `in_force_until` of every version that a later version of the same law follows.

    A version whose end the source already tells keeps it when that is earlier. Order is kept.
    """
    rows = list(articles)
    starts: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        versions = starts.setdefault((row.kind, row.law_key), {})
        versions[row.version_date] = max(versions.get(row.version_date, EARLIEST), in_force_from(row))
    ends = {
        (*law, version): min((s for s in versions.values() if s > start), default=None)
        for law, versions in starts.items()
        for version, start in versions.items()
    }
    return [_ended(row, ends[(row.kind, row.law_key, row.version_date)]) for row in rows]


def _ended(article: Article, end: str | None) -> Article:
    if end is None or (article.in_force_until is not None and article.in_force_until <= end):
        return article
    return article.model_copy(update={"in_force_until": end})
