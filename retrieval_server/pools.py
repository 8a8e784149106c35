"""The part of a search that needs no LLM: candidates of both sources, intent rerank, authority-aware MMR, clipping.

Queries are worked on in batches. What an answer holds never depends on the batch it was in: queries that need different
candidate depths are searched apart.
"""

from __future__ import annotations

import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from retrieval_server.config import AssistantConfig
from retrieval_server.precedents import rerank_precedents
from retrieval_server.statutes import intent_text
from retrieval_server.types import Case, Evidence, SearchQuery, SearchResult, Source, Status

if TYPE_CHECKING:
    from retrieval_server.case_briefs import StoredBrief
    from retrieval_server.legal_index import CaseCandidate, LegalIndex

CLIPPED_NOTE = "正文过长，已截断"


@dataclass(frozen=True, slots=True)
class Pool:
    """What the index found for one query: `units` best first, not yet cut to top_k when an LLM is to rerank them."""

    query: SearchQuery
    units: tuple[Evidence, ...] = ()
    cases: dict[str, Case] = field(default_factory=dict)
    """Case id -> record of the precedents among `units`, for their briefs."""
    timings_ms: dict[str, float] = field(default_factory=dict)
    """Milliseconds per stage, those of the whole batch."""


def normalise_query(query: SearchQuery) -> SearchQuery:
    """The query with control characters and repeated blanks folded to single blanks: what is searched."""
    texts = {name: _fold(getattr(query, name)) for name in ("query", "intent", "circumstances", "charge")}
    changed = {name: text for name, text in texts.items() if text != getattr(query, name)}
    return query.model_copy(update=changed) if changed else query


def _fold(text: str) -> str:
    visible = "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join(visible.split())


def find_pools(index: LegalIndex, config: AssistantConfig, queries: Sequence[SearchQuery], for_llm: bool) -> list[Pool]:
    """One pool per normalised query, in order.

    Args:
        for_llm: leave statutes in hybrid order and uncut, for the LLM reranker; else rerank by intent and cut to top_k.
    """
    groups: dict[tuple[Source, int], list[int]] = defaultdict(list)
    pools = [Pool(query) for query in queries]
    for position, query in enumerate(queries):
        if query.query:
            groups[query.source, _depth(query, config)].append(position)
    for (source, depth), positions in groups.items():
        asked = [queries[p] for p in positions]
        if source is Source.STATUTE:
            found = _statute_pools(index, config, asked, depth, for_llm)
        else:
            found = _precedent_pools(index, config, asked, depth)
        for position, pool in zip(positions, found, strict=True):
            pools[position] = pool
    return pools


def _depth(query: SearchQuery, config: AssistantConfig) -> int:
    least = config.statute_candidates if query.source is Source.STATUTE else config.precedent_candidates
    return max(least, query.top_k)


def _statute_pools(
    index: LegalIndex, config: AssistantConfig, queries: Sequence[SearchQuery], depth: int, for_llm: bool
) -> list[Pool]:
    watch = _Stopwatch()
    _encode_together(index, config, queries, for_llm)
    found = index.statute_candidates(queries, depth, config.ranking)
    watch.lap("candidates")
    if not for_llm:
        ranked = index.searcher.rerank_by_intent(queries, found)
        found = [candidates[: query.top_k] for query, candidates in zip(queries, ranked, strict=True)]
        watch.lap("rerank")
    return [
        Pool(query, tuple(index.searcher.evidence(query, candidates)), timings_ms=dict(watch.laps_ms))
        for query, candidates in zip(queries, found, strict=True)
    ]


def _encode_together(index: LegalIndex, config: AssistantConfig, queries: Sequence[SearchQuery], for_llm: bool) -> None:
    """Queries and intents in one call of the encoder; the stages that need a vector then find it remembered."""
    hybrid = index.statutes
    if hybrid.dense is None or for_llm:
        return
    texts = [] if config.ranking == "learned" else [query.query for query in queries]
    intents = [intent_text(query) for query in queries if query.intent.strip()]
    if texts and intents:
        hybrid.encode([*texts, *intents])


def _precedent_pools(
    index: LegalIndex, config: AssistantConfig, queries: Sequence[SearchQuery], depth: int
) -> list[Pool]:
    watch = _Stopwatch()
    found = index.case_candidates(queries, depth)
    watch.lap("candidates")
    pools = []
    for query, candidates in zip(queries, found, strict=True):
        allowed = [c for c in candidates if not query.court_levels or c.case.court_level in query.court_levels]
        pools.append(_select(query, allowed, config, index.briefs))
    watch.lap("mmr")
    return [Pool(p.query, p.units, p.cases, dict(watch.laps_ms)) for p in pools]


def _select(
    query: SearchQuery,
    candidates: Sequence[CaseCandidate],
    config: AssistantConfig,
    briefs: Mapping[str, StoredBrief] | None = None,
) -> Pool:
    """Authority- and diversity-aware selection; the units keep the names of the retrievers that found them."""
    pairs = [(c.case, c.relevance) for c in candidates]
    compact = config.brief_style == "compact"
    chosen = rerank_precedents(
        query, pairs, query.top_k, config.alpha, config.beta, brief_chars=config.brief_chars, compact=compact,
        briefs=briefs,
    )  # fmt: skip
    by_id = {c.case.id: c for c in candidates}
    units = tuple(
        unit.model_copy(update={"provenance": tuple(dict.fromkeys((*by_id[unit.id].provenance, *unit.provenance)))})
        for unit in chosen
    )
    return Pool(query, units, {unit.id: by_id[unit.id].case for unit in units})


def finish(pool: Pool, config: AssistantConfig, reason: str = "") -> SearchResult:
    """The answer from a pool: cut to top_k, ranked from 1, long texts clipped; a `reason` marks it as degraded."""
    kept = pool.units[: pool.query.top_k]
    evidence = tuple(_present(unit, rank, config.evidence_chars) for rank, unit in enumerate(kept, start=1))
    if not evidence:
        status, reason = Status.EMPTY, reason or "没有找到符合条件的依据"
    else:
        status = Status.DEGRADED if reason else Status.OK
    return SearchResult(status=status, evidence=evidence, reason=reason, timings_ms=pool.timings_ms)


def _present(unit: Evidence, rank: int, width: int) -> Evidence:
    changes: dict[str, object] = {}
    if unit.rank != rank:
        changes["rank"] = rank
    if len(unit.text) > width:
        changes |= {"text": unit.text[: width - 1] + "…", "notes": (*unit.notes, CLIPPED_NOTE)}
    return unit.model_copy(update=changes) if changes else unit


class _Stopwatch:
    """Milliseconds between laps."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = clock()
        self.laps_ms: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = self._clock()
        self.laps_ms[name] = round(1000 * (now - self._last), 3)
        self._last = now
