"""Locate: a clipped or paraphrased passage -> short law title and article label."""

from __future__ import annotations

import random
from collections.abc import Iterator

from envs.types import Question
from legal_rl.data.clauses import paraphrase
from legal_rl.data.families.base import name_of, shuffled, statute_question, unique_passage
from legal_rl.data.material import Material
from legal_rl.data.wording import ask

MIN_CHARS, MAX_CHARS = 10, 24
PARAPHRASE_SHARE = 0.35


def locate(material: Material, rng: random.Random) -> Iterator[Question]:
    """The passage stands in the article's visible part, and nowhere else in the corpus."""
    for article in shuffled(material.articles, rng):
        original = unique_passage(material, article, MIN_CHARS, MAX_CHARS, rng)
        if original is None:
            continue
        snippet = paraphrase(original) if rng.random() < PARAPHRASE_SHARE else original
        style = "clipped" if snippet == original else "paraphrased"
        text = ask("locate", rng, snippet=snippet)
        yield statute_question(
            material,
            "locate",
            text,
            name_of(article),
            article,
            grader="exact",
            snippet=snippet,
            original=original,
            style=style,
        )
