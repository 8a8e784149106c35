"""What the question families draw from: the eligible articles and cases of one part, and corpus-wide counts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from legal_rl.data.clauses import clips
from legal_rl.data.settings import QuestionSettings
from legal_rl.data.splits import SPLITS, split_of_article, split_of_case
from retrieval_server.types import Article, Case

_PUNCTUATION = re.compile(r"[，。；：、\s（）“”《》]+")
_REFERENCE = re.compile(r"本法|本条例|本章|本节|前款|前条|第[一二三四五六七八九十百千零]+[条款项]")
"""Words that mean something only beside the rest of their law: such a passage is not quoted alone."""
_LABEL = re.compile(r"第[一二三四五六七八九十百千零]+条(?:之[一二三四五六七八九十]+)?")


@dataclass(frozen=True)
class Material:
    """One part's sources. `articles` is in corpus order; `clause_counts` is of the law in force by the given day.

    `corpus_text` holds every text that was not replaced, later laws too: a search may return any of them.
    """

    split: str
    articles: tuple[Article, ...]
    cases: tuple[Case, ...]
    clause_counts: Counter[str]
    corpus_text: str
    court_counts: Counter[tuple[str, str]]
    """(court, charge) -> number of cases, over all parts: only a court with one case of a charge names that case."""
    settings: QuestionSettings

    @cached_property
    def by_law(self) -> dict[str, tuple[Article, ...]]:
        """law_key -> its articles of this part, in order."""
        groups: dict[str, list[Article]] = defaultdict(list)
        for article in self.articles:
            groups[article.law_key].append(article)
        return {law: tuple(group) for law, group in groups.items()}

    def distinctive(self, piece: str) -> bool:
        """True when some clause of `piece` stands in one article of the corpus only."""
        return any(len(clause) >= 6 and self.clause_counts[clause] == 1 for clause in split_clauses(piece))

    def unique(self, piece: str) -> bool:
        """True when the piece stands at one place of the corpus only, not even inside a longer clause elsewhere."""
        first = self.corpus_text.find(piece)
        return first >= 0 and self.corpus_text.find(piece, first + 1) < 0

    def passages(self, article: Article, min_chars: int, max_chars: int) -> list[str]:
        """Whole clauses of the article's visible part that name it, for a question that quotes one of them."""
        visible = self.settings.visible_chars
        return [
            clip.value
            for clip in clips(article.text, min_chars, max_chars)
            if clip.end <= visible and not _REFERENCE.search(clip.value) and self.distinctive(clip.value)
        ]


def split_clauses(text: str) -> list[str]:
    """The text cut at every punctuation mark and blank."""
    return [clause for clause in _PUNCTUATION.split(text) if clause]


def in_force(articles: Iterable[Article], latest_effective_date: str) -> list[Article]:
    """Articles of laws that have one version only, were never replaced, and were in force by the given day.

    A law with several versions is left out whole, so that no answer hangs on the date on which it is asked.
    """
    articles = list(articles)
    versions: dict[str, set[str]] = defaultdict(set)
    for article in articles:
        versions[article.law_key].add(article.version_date)
    return [
        a
        for a in articles
        if len(versions[a.law_key]) == 1
        and a.in_force_until is None
        and (a.effective_date or a.version_date or "9999") <= latest_effective_date
    ]


def eligible(article: Article, settings: QuestionSettings) -> bool:
    """Short law names and real 第X条 labels only; an article that is the word 删去 is no material."""
    return (
        article.kind == "law"
        and len(article.law_key) <= settings.max_law_chars
        and _LABEL.fullmatch(article.article_label) is not None
        and len(article.text) >= 12
    )


def gather(articles: Iterable[Article], cases: Sequence[Case], settings: QuestionSettings) -> dict[str, Material]:
    """The material of each part: split -> Material."""
    articles = list(articles)
    current = in_force(articles, settings.latest_effective_date)
    counts = Counter(clause for article in current for clause in set(split_clauses(article.text)))
    corpus_text = "\n\n".join(article.text for article in articles if article.in_force_until is None)
    court_counts = Counter((case.court, charge) for case in cases for charge in set(case.charges))
    parts: dict[str, list[Article]] = {split: [] for split in SPLITS}
    for article in current:
        split = split_of_article(article, settings.seed)
        if split and eligible(article, settings):
            parts[split].append(article)
    return {
        split: Material(
            split,
            tuple(parts[split]),
            tuple(c for c in cases if split_of_case(c, settings.seed) == split),
            counts,
            corpus_text,
            court_counts,
            settings,
        )
        for split in SPLITS
    }
