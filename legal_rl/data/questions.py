"""Rule-made questions over the real corpus: seven families, split by law and article, the same on every machine.

One record in miniature::

    Question(id="recite-test-0003", text="《专利法》第十条的第一个分句是什么？", answer="专利申请权和专利权可以转让",
             grader="rouge_l", family="recite", split="test",
             reference=Reference(("statute", "stop"), ("law/专利法@…#10",), …),
             metadata={"law": "专利法", "label": "第十条", "article": "law/专利法@…#10"})
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from envs.types import Question
from legal_rl.data.families import FAMILY_MAKERS
from legal_rl.data.families.base import Family
from legal_rl.data.material import Material, gather
from legal_rl.data.settings import QuestionSettings
from retrieval_server.types import Article, Case

MAX_PASSES = 6
"""Passes over the material; a later pass asks for the same articles in other words."""


@dataclass(frozen=True)
class QuestionSets:
    """The four sets; `grpo` and `train` come from the same part of the corpus and share no question."""

    train: tuple[Question, ...]
    grpo: tuple[Question, ...]
    dev: tuple[Question, ...]
    test: tuple[Question, ...]

    def counts(self) -> dict[str, dict[str, int]]:
        """set -> family -> number of questions."""
        sets = {"train": self.train, "grpo": self.grpo, "dev": self.dev, "test": self.test}
        return {name: dict(sorted(Counter(q.family for q in questions).items())) for name, questions in sets.items()}


def build_questions(
    articles: Iterable[Article], cases: Sequence[Case], settings: QuestionSettings | None = None
) -> QuestionSets:
    """Make all sets from the whole corpus (`cases` may be empty: then the precedent family is)."""
    settings = settings or QuestionSettings()
    material = gather(articles, cases, settings)
    train: list[Question] = []
    grpo: list[Question] = []
    for family in settings.families:
        drawn = draw(family, material["train"], settings.train_per_family + settings.grpo_per_family)
        cut = round(
            len(drawn) * settings.train_per_family / max(1, settings.train_per_family + settings.grpo_per_family)
        )
        train += _numbered(drawn[:cut], "train")
        grpo += _numbered(drawn[cut:], "grpo")
    dev = [q for f in settings.families for q in _numbered(draw(f, material["dev"], settings.dev_per_family), "dev")]
    test = [
        q for f in settings.families for q in _numbered(draw(f, material["test"], settings.test_per_family), "test")
    ]
    return QuestionSets(tuple(train), tuple(grpo), tuple(dev), tuple(test))


def draw(family: str, material: Material, count: int) -> list[Question]:
    """The first `count` different questions of a family; fewer when the material has no more."""
    found: dict[str, Question] = {}
    for question in _stream(FAMILY_MAKERS[family], family, material):
        if len(found) >= count:
            break
        found.setdefault(question.text, question)
    return list(found.values())


def _stream(make: Family, family: str, material: Material) -> Iterator[Question]:
    for number in range(MAX_PASSES):
        yield from make(material, random.Random(f"{material.settings.seed}/{family}/{material.split}/{number}"))


def _numbered(questions: Sequence[Question], name: str) -> list[Question]:
    return [replace(q, id=f"{q.family}-{name}-{number:04d}") for number, q in enumerate(questions)]
