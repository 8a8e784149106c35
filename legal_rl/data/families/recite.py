"""Recite: a named article -> its first clause."""

from __future__ import annotations

import random
from collections.abc import Iterator

from envs.types import Question
from legal_rl.data.clauses import first_clause
from legal_rl.data.families.base import shuffled, statute_question
from legal_rl.data.material import Material
from legal_rl.data.wording import ask

MIN_CHARS = 6


def recite(material: Material, rng: random.Random) -> Iterator[Question]:
    """Only clauses that no other article opens or holds, so that boilerplate cannot be guessed."""
    for article in shuffled(material.articles, rng):
        clause = first_clause(article.text)
        if MIN_CHARS <= len(clause) <= material.settings.max_answer_chars and material.clause_counts[clause] == 1:
            text = ask("recite", rng, law=article.law_key, label=article.article_label)
            yield statute_question(material, "recite", text, clause, article, grader="rouge_l")
