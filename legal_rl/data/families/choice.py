"""Multiple choice between neighbouring articles: which text an article has, or which article has a text."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from envs.types import Question
from legal_rl.data.clauses import first_clause
from legal_rl.data.families.base import LETTERS, options_line, shuffled, statute_question, unique_passage
from legal_rl.data.material import Material
from legal_rl.data.wording import ask
from retrieval_server.types import Article

WINDOW = 12
MIN_CHARS, MAX_CHARS = 6, 16
MIN_QUOTE, MAX_QUOTE = 10, 20


def multiple_choice(material: Material, rng: random.Random) -> Iterator[Question]:
    """Distractors are articles of the same law at most `WINDOW` places away; options are shuffled."""
    places = [(law, place) for law, group in material.by_law.items() for place in range(len(group))]
    for law, place in shuffled(places, rng):
        group = material.by_law[law]
        neighbours = [*group[max(0, place - WINDOW) : place], *group[place + 1 : place + 1 + WINDOW]]
        make = _by_text if rng.random() < 0.5 else _by_label
        question = make(group[place], neighbours, material, rng)
        if question is not None:
            yield question


def _by_text(
    article: Article, neighbours: Sequence[Article], material: Material, rng: random.Random
) -> Question | None:
    """`A.盗窃公私财物；B.…` — which is the opening of the named article?"""
    right = first_clause(article.text)
    others = {first_clause(a.text) for a in neighbours}
    wrong = sorted(c for c in others if MIN_CHARS <= len(c) <= MAX_CHARS and c != right and c[:4] != right[:4])
    if not MIN_CHARS <= len(right) <= MAX_CHARS or material.clause_counts[right] != 1 or len(wrong) < 3:
        return None
    return _assemble("choice_text", right, rng.sample(wrong, 3), article, material, rng)


def _by_label(
    article: Article, neighbours: Sequence[Article], material: Material, rng: random.Random
) -> Question | None:
    """`A.第二百六十四条；B.…` — which article has the quoted passage?"""
    snippet = unique_passage(material, article, MIN_QUOTE, MAX_QUOTE, rng)
    if snippet is None or len(neighbours) < 3:
        return None
    wrong = [a.article_label for a in rng.sample(list(neighbours), 3)]
    return _assemble("choice_label", article.article_label, wrong, article, material, rng, snippet=snippet)


def _assemble(
    kind: str, right: str, wrong: list[str], article: Article, material: Material, rng: random.Random, snippet: str = ""
) -> Question:
    options = shuffled([right, *wrong], rng)
    style = rng.choice(("letter_first", "letter_last"))
    values = {"label": article.article_label} if kind == "choice_text" else {"snippet": snippet}
    text = ask(kind, rng, law=article.law_key, options=options_line(options, style), **values)
    return statute_question(
        material,
        "multiple_choice",
        text,
        LETTERS[options.index(right)],
        article,
        grader="choice",
        key_spans=(right,),
        kind=kind,
        snippet=snippet,
        options="|".join(options),
        style=style,
    )
