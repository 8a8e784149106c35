"""Sentencing range: the conduct, or an article and a circumstance -> the range of the main penalty."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from envs.types import Question
from legal_rl.data.clauses import SentencingTier, sentencing_tiers
from legal_rl.data.families.base import shuffled, statute_question
from legal_rl.data.material import Material
from legal_rl.data.splits import CRIMINAL_LAW
from legal_rl.data.wording import ask
from retrieval_server.types import Article

MIN_CHARS, MAX_CHARS = 5, 32
ADDITIONAL = "剥夺政治权利"
"""An additional penalty: ranges that hold it are no pure answer to a question about the main penalty."""


def sentencing_range(material: Material, rng: random.Random) -> Iterator[Question]:
    """Tiers whose condition names one tier of the article only and whose range is visible in the evidence."""
    for article in shuffled(material.by_law.get(CRIMINAL_LAW, ()), rng):
        for tier in shuffled(usable_tiers(article, material), rng):
            yield _question(article, tier, material, rng)


def usable_tiers(article: Article, material: Material) -> list[SentencingTier]:
    """Tiers of one article that can be asked for without doubt."""
    tiers = sentencing_tiers(article.text)
    conditions = Counter(tier.condition for tier in tiers)
    return [
        tier
        for tier in tiers
        if MIN_CHARS <= len(tier.condition) <= MAX_CHARS
        and conditions[tier.condition] == 1
        and tier.penalty.end <= material.settings.visible_chars
        and len(tier.penalty.value) <= material.settings.max_answer_chars
        and not {"“", "《", '"'} & set(tier.condition)
        and article.text.count(f"{tier.condition}，处") == 1
        and ADDITIONAL not in tier.penalty.value
        and "下列" not in tier.condition
    ]


def _question(article: Article, tier: SentencingTier, material: Material, rng: random.Random) -> Question:
    by_conduct = tier.first and material.distinctive(tier.condition) and rng.random() < 0.6
    kind = "sentencing_conduct" if by_conduct else "sentencing_article"
    values = {"condition": tier.condition} | ({} if by_conduct else {"label": article.article_label})
    return statute_question(
        material,
        "sentencing_range",
        ask(kind, rng, **values),
        tier.penalty.value,
        article,
        grader="exact",
        condition=tier.condition,
        style="conduct" if by_conduct else "article",
    )
