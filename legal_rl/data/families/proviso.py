"""Proviso (但书): a named article -> what follows 但是, the exception or the turn."""

from __future__ import annotations

import random
from collections.abc import Iterator

from envs.types import Question
from legal_rl.data.clauses import provisos
from legal_rl.data.families.base import shuffled, statute_question
from legal_rl.data.material import Material
from legal_rl.data.wording import ask

MIN_CHARS = 5


def proviso(material: Material, rng: random.Random) -> Iterator[Question]:
    """Articles with exactly one proviso, and that one visible in the clipped evidence."""
    for article in shuffled(material.articles, rng):
        found = provisos(article.text)
        if len(found) != 1 or article.text.count("但") != 1:
            continue
        span = found[0]
        if (
            MIN_CHARS <= len(span.value) <= material.settings.max_answer_chars
            and span.end <= material.settings.visible_chars
        ):
            text = ask("proviso", rng, law=article.law_key, label=article.article_label)
            yield statute_question(
                material,
                "proviso",
                text,
                span.value,
                article,
                grader="rouge_l",
                kind="exception" if span.value.endswith("除外") else "turn",
            )
