"""Intent-aware statute search (paper, section 3.2.2): cited articles, BM25 and dense fused, reranked by the intent.

query ── citations ──> rank 1..            query ── BM25 + dense ── in force on as_of ──> fused
fused ── similarity to "intent query" ──> joined with the fused ranking ──> evidence with version notes
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from retrieval_server.citations import Citation, resolve_citations
from retrieval_server.fusion import RRF_K, reciprocal_rank_fusion
from retrieval_server.law_names import squash
from retrieval_server.merged_laws import Merger, merger_note, replaced_laws, with_successors
from retrieval_server.numerals import chinese_number
from retrieval_server.passages import cited_passage
from retrieval_server.types import Article, Evidence, SearchQuery, Source
from retrieval_server.validity import validity_note

if TYPE_CHECKING:
    from retrieval_server.hybrid import Candidate
    from retrieval_server.legal_index import LegalIndex
    from retrieval_server.ranking.ranker import Ranked

RERANK_DEPTH = 30
"""Candidates that the intent may reorder; at least top_k."""

INTENT_WEIGHT = 0.5

_YEAR = re.compile(r"((?:19|20)\d{2})\s*年?\s*(?:第.次)?(?:修正|修订|修改|版)")
"""A version named in the citation itself: 公司法（2018年修正）第十六条."""


@dataclass(frozen=True, slots=True)
class StatuteCandidate:
    """An article that may answer; `score` in (0, 1], 1.0 for cited articles."""

    article: Article
    row: int
    score: float
    provenance: tuple[str, ...]

    @property
    def cited(self) -> bool:
        """True when the query names this very article: no reranker may move it."""
        return "citation" in self.provenance


class StatuteSearcher:
    """Searches the statutes of one index, many queries at once.

    Args:
        intent_weight: weight of the intent's ranking beside the fused one (weight 1); 0 turns the rerank off.
        rerank_depth: see `RERANK_DEPTH`.
    """

    def __init__(
        self, index: LegalIndex, intent_weight: float = INTENT_WEIGHT, rerank_depth: int = RERANK_DEPTH
    ) -> None:
        self.index = index
        self.intent_weight = intent_weight
        self.rerank_depth = rerank_depth

    def search(self, queries: Sequence[SearchQuery]) -> list[list[Evidence]]:
        """Evidence for each query, best first, at most its `top_k`; no LLM is asked."""
        depth = max([self.rerank_depth, *(query.top_k for query in queries)])
        ranked = self.rerank_by_intent(queries, self.candidates(queries, depth))
        return [self.evidence(query, found[: query.top_k]) for query, found in zip(queries, ranked, strict=True)]

    def candidates(
        self, queries: Sequence[SearchQuery], n: int, ranking: str = "fused"
    ) -> list[list[StatuteCandidate]]:
        """At most `n` articles for each query: cited ones first, then those in force that day by `ranking`."""
        by_day: dict[date, list[int]] = defaultdict(list)
        for position, query in enumerate(queries):
            by_day[query.as_of or date.today()].append(position)
        found: list[list[StatuteCandidate]] = [[] for _ in queries]
        for day, positions in by_day.items():
            mask_N = self.index.in_force_mask(day)
            texts = [with_successors(queries[p].query, self._replaced(queries[p].query)) for p in positions]
            hybrid = self._ranked(texts, n, mask_N, ranking)
            for position, hits in zip(positions, hybrid, strict=True):
                cited = self._cited(queries[position], day)
                taken = {candidate.row for candidate in cited}
                rest = [self._candidate(h.row, h.score, h.provenance) for h in hits if h.row not in taken]
                found[position] = (cited + rest)[:n]
        return found

    def _ranked(
        self, texts: Sequence[str], n: int, mask_N: np.ndarray, ranking: str
    ) -> Sequence[Sequence[Candidate | Ranked]]:
        if ranking == "learned":
            return [self.index.ranker.rank(text, n, mask_N) for text in texts]
        return self.index.statutes.candidates(texts, n, mask_N)

    def _cited(self, query: SearchQuery, day: date) -> list[StatuteCandidate]:
        rows: dict[int, None] = {}
        for citation in resolve_citations(query.query, self.index.titles):
            if citation.law_key:
                year = _YEAR.search(query.query, *citation.span) if query.as_of is None else None
                row = self.index.row(
                    citation.law_key, citation.article_no, citation.article_sub, day, year[1] if year else ""
                )
                if row is not None:
                    rows[row] = None
        return [self._candidate(row, 1.0, ("citation",)) for row in rows]

    def _replaced(self, text: str) -> dict[str, Merger]:
        return replaced_laws(text, self.index.knows_law)

    def _candidate(self, row: int, score: float, provenance: tuple[str, ...]) -> StatuteCandidate:
        return StatuteCandidate(self.index.articles[row], row, score, provenance)

    def rerank_by_intent(
        self, queries: Sequence[SearchQuery], candidates: Sequence[Sequence[StatuteCandidate]]
    ) -> list[list[StatuteCandidate]]:
        """Joins each fused ranking with the ranking by similarity to "intent query"; cited articles keep their places.

        Queries without an intent, and all when the weight is 0, stay as they are.
        """
        asked = [i for i, q in enumerate(queries) if q.intent.strip() and self.intent_weight and candidates[i]]
        texts = [intent_text(queries[i]) for i in asked]
        similar = self.index.statutes.similarity(texts, [[c.row for c in candidates[i]] for i in asked])
        ranked = [list(found) for found in candidates]
        for i, similarity in zip(asked, similar, strict=True):
            ranked[i] = self._join(ranked[i], similarity)
        return ranked

    def _join(self, found: list[StatuteCandidate], similarity: np.ndarray) -> list[StatuteCandidate]:
        free = [position for position, candidate in enumerate(found) if not candidate.cited]
        by_intent = sorted(free, key=lambda position: -float(similarity[position]))
        weights = {"fused": 1.0, "intent": self.intent_weight}
        best = sum(weights.values()) / (RRF_K + 1)
        joined = reciprocal_rank_fusion({"fused": free, "intent": by_intent}, weights)
        reranked = [
            replace(found[position], score=min(1.0, score / best), provenance=(*found[position].provenance, "intent"))
            for position, score, _ in joined
        ]
        return [candidate for candidate in found if candidate.cited] + reranked

    def evidence(self, query: SearchQuery, candidates: Sequence[StatuteCandidate]) -> list[Evidence]:
        """The candidates as evidence units, ranked from 1, each with a note on its version."""
        day = query.as_of or date.today()
        notes = self._notes(query, [candidate.article for candidate in candidates])
        return [
            article_evidence(c.article, day, c.score, rank, c.provenance, notes.get(c.article.id, ()))
            for rank, c in enumerate(candidates, start=1)
        ]

    def _notes(self, query: SearchQuery, articles: Sequence[Article]) -> dict[str, tuple[str, ...]]:
        """Article id -> remarks: the paragraph that is cited, the old law that this one replaced."""
        notes: dict[str, list[str]] = defaultdict(list)
        by_place = {(squash(a.law_key), a.article_no, a.article_sub): a for a in articles}
        details = ("款" in query.query or "项" in query.query) and resolve_citations(query.query, self.index.titles)
        for citation in details or ():
            place = (squash(citation.law_key), citation.article_no, citation.article_sub)
            if article := by_place.get(place):
                passage = cited_passage(article.text, citation.paragraph, citation.item)
                if passage:
                    notes[article.id].append(f"所引{_detail_label(citation)}：{passage}")
        for old, merger in self._replaced(query.query).items():
            for article in articles:
                if article.law_key == merger.successor:
                    notes[article.id].append(merger_note(old, merger))
        return {name: tuple(texts) for name, texts in notes.items()}


def intent_text(query: SearchQuery) -> str:
    """What candidates are compared with when the query states an intent."""
    return f"{query.intent} {query.query}"


def article_evidence(
    article: Article,
    as_of: date,
    score: float = 1.0,
    rank: int = 1,
    provenance: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Evidence:
    """One article as an evidence unit for facts of the day `as_of`."""
    return Evidence(
        id=article.id,
        source=Source.STATUTE,
        title=article.law_title,
        label=article.article_label,
        text=article.text,
        score=score,
        rank=rank,
        version_date=article.version_date,
        effective_date=article.effective_date,
        provenance=provenance,
        notes=(validity_note(article, as_of), *notes),
    )


def _detail_label(citation: Citation) -> str:
    """第二款第三项 of a citation."""
    parts = ((citation.paragraph, "款"), (citation.item, "项"))
    return "".join(f"第{chinese_number(number)}{unit}" for number, unit in parts if number)
