"""What every family shares: the question under construction and its reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from envs.types import Question, Reference
from legal_rl.data.material import Material
from retrieval_server.types import Article

Family = Callable[[Material, random.Random], Iterator[Question]]
"""One pass over the material in random order; each call words and clips anew."""

LETTERS = "ABCD"
T = TypeVar("T")


def name_of(article: Article) -> str:
    """Short title and label, such as 刑法第二百六十四条."""
    return f"{article.law_key}{article.article_label}"


def shuffled(items: Iterable[T], rng: random.Random) -> list[T]:
    """A shuffled copy."""
    items = list(items)
    rng.shuffle(items)
    return items


def unique_passage(
    material: Material, article: Article, min_chars: int, max_chars: int, rng: random.Random
) -> str | None:
    """One random quotable passage of the article that stands nowhere else in the corpus; None when there is none."""
    candidates = shuffled(material.passages(article, min_chars, max_chars), rng)
    return next((passage for passage in candidates if material.unique(passage)), None)


def statute_question(
    material: Material,
    family: str,
    text: str,
    answer: str,
    article: Article,
    *,
    grader: str,
    key_spans: tuple[str, ...] = (),
    **metadata: str,
) -> Question:
    """A question that one article answers; the reference is one statute search, then stop."""
    reference = Reference(
        actions=("statute", "stop"),
        evidence_ids=(article.id,),
        key_spans=(name_of(article), answer, *key_spans) if len(answer) > 1 else (name_of(article), *key_spans),
    )
    return Question(
        id="",
        text=text,
        answer=answer,
        grader=grader,
        family=family,
        split=material.split,
        reference=reference,
        metadata={"law": article.law_key, "label": article.article_label, "article": article.id, **metadata},
    )


def options_line(options: list[str], style: str) -> str:
    """Four options in one line, letter first (`A.甲；B.乙。`) or letter last (`甲（A）；乙（B）。`)."""
    if style == "letter_first":
        return "；".join(f"{letter}.{option}" for letter, option in zip(LETTERS, options, strict=False)) + "。"
    return "；".join(f"{option}（{letter}）" for letter, option in zip(LETTERS, options, strict=False)) + "。"
