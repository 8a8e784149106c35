"""Stable ids where a source repeats a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from retrieval_server.types import Article


def unique_ids(articles: Iterable[Article]) -> Iterator[Article]:
    """Numbers the repeats of an id (~2, ~3): a decision that quotes treaties, a reply that counts 一、二、 twice."""
    seen: dict[str, int] = {}
    for article in articles:
        count = seen[article.id] = seen.get(article.id, 0) + 1
        yield article if count == 1 else article.model_copy(update={"id": f"{article.id}~{count}"})
