"""An opened knowledge base: look up an article, resolve a citation, find candidates among statutes and precedents."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieval_server.citations import Citation
from retrieval_server.hybrid import HybridIndex
from retrieval_server.law_names import builtin_titles, canonical_key, interpretation_aliases, short_titles, squash
from retrieval_server.manifest import Manifest
from retrieval_server.statutes import StatuteCandidate, StatuteSearcher
from retrieval_server.types import Article, Case, SearchQuery, Source
from retrieval_server.validity import in_force_from, select_version

if TYPE_CHECKING:
    from retrieval_server.case_briefs import StoredBrief
    from retrieval_server.ranking.ranker import StatuteRanker


@dataclass(frozen=True, slots=True)
class CaseCandidate:
    """A precedent with its relevance: the fused score in (0, 1], before authority and diversity."""

    case: Case
    relevance: float
    provenance: tuple[str, ...]


def article_text(article: Article) -> str:
    """What of an article is indexed: title, headings, label and text."""
    parts = (article.law_key, article.part, article.chapter, article.section, article.article_label, article.text)
    return " ".join(part for part in parts if part)


class LegalIndex:
    """An opened index. Safe to share between threads; everything is read only.

    Attributes:
        articles: all articles, current or not, in corpus order.
        cases: all precedents.
        statutes, precedents: the hybrid indexes over them, rows in the same order.
        briefs: case id -> what of its brief was made at index time.
        folder: where the index was opened from; None = never written.
        titles: squashed title or alias -> law key, for `resolve_citations`.
    """

    def __init__(
        self,
        articles: Sequence[Article],
        cases: Sequence[Case],
        statutes: HybridIndex,
        precedents: HybridIndex,
        manifest: Manifest,
        folder: Path | None = None,
        briefs: Mapping[str, StoredBrief] | None = None,
    ) -> None:
        self.briefs = dict(briefs or {})
        self.folder = folder
        self.articles = list(articles)
        self.cases = list(cases)
        self.statutes = statutes
        self.precedents = precedents
        self.manifest = manifest
        self._rows: dict[tuple[str, int, int], list[int]] = {}
        self._row_of_id = {article.id: row for row, article in enumerate(self.articles)}
        self._laws = {article.law_key for article in self.articles}
        self.titles = builtin_titles()
        for row, article in enumerate(self.articles):
            if article.article_no is not None:
                self._rows.setdefault((squash(article.law_key), article.article_no, article.article_sub), []).append(
                    row
                )
        for article in {a.law_key: a for a in self.articles}.values():
            self.titles[squash(article.law_key)] = article.law_key
            self.titles[squash(article.law_title)] = article.law_key
        self._add_aliases()
        self._starts = np.array([in_force_from(a) for a in self.articles], dtype="U10")
        self._ends = np.array([a.in_force_until or "9999-12-31" for a in self.articles], dtype="U10")
        self._mask = lru_cache(maxsize=64)(self._in_force)
        self.searcher = StatuteSearcher(self)
        self._ranker: StatuteRanker | None = None
        self._ranker_lock = threading.Lock()

    @property
    def version(self) -> str:
        """Names the content and the programs it was built with."""
        return self.manifest.recipe.digest

    def _add_aliases(self) -> None:
        """Names interpretations go by in practice; a title keeps its meaning, and the one in force comes first."""
        interpretations = {a.law_key: a for a in self.articles if a.kind == "interpretation"}
        for article in sorted(interpretations.values(), key=lambda a: a.in_force_until is not None):
            for alias in (*short_titles(article.law_key), *interpretation_aliases(article.law_key)):
                self.titles.setdefault(alias, article.law_key)

    def in_force_mask(self, as_of: date | None = None) -> np.ndarray:
        """bool per article row: does it govern on `as_of` (default today)?"""
        return self._mask((as_of or date.today()).isoformat())

    def _in_force(self, day: str) -> np.ndarray:
        return (self._starts <= day) & (day < self._ends)

    def article(self, law: str, no: int, sub: int = 0, as_of: date | None = None) -> Article | None:
        """The version of an article that governs on `as_of` (default today), or None; `law` is a title, alias or key.

        Where no version governs that day, the nearest text is given; `validity.validity_note` tells.
        """
        row = self.row(law, no, sub, as_of)
        return None if row is None else self.articles[row]

    def row(self, law: str, no: int, sub: int = 0, as_of: date | None = None, year: str = "") -> int | None:
        """Row of `article(law, no, sub, as_of)`; where the law has a version of that `year`, of that version."""
        rows = self._rows.get((squash(law), no, sub)) or self._rows.get((squash(canonical_key(law)), no, sub), [])
        versions = [self.articles[r] for r in rows]
        named = [a for a in versions if year and a.version_date.startswith(year)]
        chosen = named[-1] if named else select_version(versions, as_of or date.today())
        return None if chosen is None else self._row_of_id[chosen.id]

    def knows_law(self, key: str) -> bool:
        """True when some article of this law is here, in force or not."""
        return key in self._laws

    def by_id(self, article_id: str) -> Article | None:
        """The article with this id, of whatever version."""
        row = self._row_of_id.get(article_id)
        return None if row is None else self.articles[row]

    def resolve(self, citation: Citation, as_of: date | None = None) -> Article | None:
        """The article a citation means on `as_of`; None when it names no law, or one that is not here."""
        return (
            self.article(citation.law_key, citation.article_no, citation.article_sub, as_of)
            if citation.law_key
            else None
        )

    @property
    def ranker(self) -> StatuteRanker:
        """The learned ranking over these articles, opened on first use; an index without its files takes seconds."""
        with self._ranker_lock:
            if self._ranker is None:
                from retrieval_server.ranking.ranker import StatuteRanker
                from retrieval_server.ranking.store import RankingParts

                parts = RankingParts.load(self.folder, len(self.articles)) if self.folder else None
                if parts is None:
                    parts = RankingParts.build(self.articles, [article_text(article) for article in self.articles])
                self._ranker = StatuteRanker(self.articles, parts, self.statutes.sparse, self.statutes.segmenter)
            return self._ranker

    def statute_candidates(
        self, queries: Sequence[SearchQuery], n: int, ranking: str = "fused"
    ) -> list[list[StatuteCandidate]]:
        """Articles for each query before any rerank: citations first, then those in force by `ranking`."""
        return self.searcher.candidates(queries, n, ranking)

    def case_candidates(self, queries: Sequence[SearchQuery], n: int) -> list[list[CaseCandidate]]:
        """Precedents for each query (facts, circumstances and charge together), most relevant first."""
        texts = [" ".join(part for part in (q.query, q.circumstances, q.charge) if part) for q in queries]
        return [
            [CaseCandidate(self.cases[c.row], c.score, c.provenance) for c in found]
            for found in self.precedents.candidates(texts, n)
        ]

    def warm_up(self) -> None:
        """Compiles and loads what the first query would otherwise wait for."""
        query = SearchQuery(source=Source.STATUTE, query="刑法第一条 犯罪", intent="定义")
        self.searcher.search([query])
        self.case_candidates([query], 1)
