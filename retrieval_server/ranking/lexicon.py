"""Everyday words and the statutory terms they stand for: 老板 -> 用人单位 (`lay_terms.txt`, reviewed by hand)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def lay_terms() -> tuple[tuple[tuple[str, ...], str], ...]:
    """(everyday words, statutory terms as one text) per line of the lexicon."""
    text = (files("retrieval_server.ranking") / "lay_terms.txt").read_text(encoding="utf-8")
    rows = [line.partition("=") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple((tuple(words.split()), terms.strip()) for words, _, terms in rows)


def statutory_terms(query: str) -> str:
    """The statutory terms for all everyday words of the query, blank-separated; empty when it holds none."""
    return " ".join(terms for words, terms in lay_terms() if any(word in query for word in words))
