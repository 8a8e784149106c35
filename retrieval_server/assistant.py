"""The Legal Assistant (paper, section 3.2.2): answers the Lawyer's requests from statutes and precedents.

query ── normalise ── remembered? ── batch through the index ── LLM rerank | LLM briefs ──> SearchResult
                                                          └─ LLM away: hybrid order, status `degraded`

In-process and over HTTP the same object answers, so the results are the same.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
import unicodedata
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from retrieval_server.batching import LRUCache, MicroBatcher
from retrieval_server.citations import resolve_citations
from retrieval_server.config import AssistantConfig
from retrieval_server.errors import AssistantError
from retrieval_server.llm import ChatModel
from retrieval_server.loops import PerLoop, run_sync
from retrieval_server.numerals import NUMERAL_CHARS, parse_number
from retrieval_server.pools import Pool, find_pools, finish, normalise_query
from retrieval_server.reranker import rerank_statutes
from retrieval_server.summariser import summarise_case
from retrieval_server.types import Article, Evidence, SearchQuery, SearchResult, Source, Status

if TYPE_CHECKING:
    from retrieval_server.legal_index import LegalIndex

_log = logging.getLogger(__name__)
_ARTICLE_NUMBER = re.compile(rf"([{NUMERAL_CHARS}]{{1,12}})(?:条?(?:之|-)([{NUMERAL_CHARS}]{{1,4}})|条)?")
_DEFAULT = AssistantConfig()


class LegalAssistant:
    """Implements `retrieval_server.types.Retriever` over an opened index.

    Args:
        index: an opened `LegalIndex`.
        llm: the Assistant LLM; None makes one from `config.llm`, and without that no LLM is asked.

    `search` never raises for a single query: an internal failure is an answer with status `error` and a reason.
    """

    def __init__(self, index: LegalIndex, config: AssistantConfig = _DEFAULT, llm: ChatModel | None = None) -> None:
        self.index = index
        self.config = config
        self.llm = llm or (ChatModel(config.llm) if config.llm else None)
        self.cache: LRUCache[Hashable, SearchResult] = LRUCache(config.cache_size)
        self._orders: LRUCache[Hashable, tuple[str, ...]] = LRUCache(config.cache_size)
        self._briefs: LRUCache[Hashable, str] = LRUCache(config.cache_size)
        self.batches = 0
        self.batched_queries = 0
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="legal-rl-index")
        self._batchers: PerLoop[MicroBatcher[SearchQuery, Pool]] = PerLoop(
            partial(MicroBatcher, self._batch, config.max_batch, config.batch_wait_ms / 1000)
        )
        self._in_flight: PerLoop[dict[Hashable, asyncio.Task[SearchResult]]] = PerLoop(dict)

    @property
    def index_version(self) -> str:
        return self.index.version

    def warm_up(self) -> None:
        """Compile and load what the first query of each source would otherwise wait for."""
        self.index.warm_up()
        if self.config.ranking == "learned":
            self.index.ranker.warm_up()
        probes = [SearchQuery(source=source, query="盗窃罪的量刑", intent="量刑幅度") for source in Source]
        self._find(probes, for_llm=False)

    def article(self, law: str, article: str, as_of: date | None = None) -> Article | None:
        """The article `264`, `133-1`, `133之一` or `第一百三十三条之一` of a law, or None.

        Where no version governs on `as_of` (default today), the nearest one is given; `validity.is_in_force` tells.
        """
        plain = unicodedata.normalize("NFKC", article).strip()
        if match := _ARTICLE_NUMBER.fullmatch(plain):
            number, sub = parse_number(match[1]), parse_number(match[2]) if match[2] else 0
            return None if number is None or sub is None else self.index.article(law, number, sub, as_of)
        for citation in resolve_citations(f"《{law}》{article}", self.index.titles):
            return self.index.article(law, citation.article_no, citation.article_sub, as_of)
        return None

    def search_sync(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        """`search` for synchronous callers."""
        if self.llm:
            return run_sync(partial(self._search_and_close, queries))
        plain = [normalise_query(query) for query in queries]
        keys = [_key(query) for query in plain]
        answers = {key: answer for key in keys if (answer := self.cache.get(key))}
        fresh = {key: query for key, query in zip(keys, plain, strict=True) if key not in answers}
        for key, pool in zip(fresh, self._find_each(list(fresh.values())), strict=True):
            answers[key] = self._plain_answer(pool)
            self._remember(key, answers[key])
        return [answers[key] for key in keys]

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        """One result per query, in order. Equal queries that run at the same time are worked on once."""
        tasks = [self._task(normalise_query(query)) for query in queries]
        # Shielded: another caller may wait for the same task when this one is cancelled.
        return list(await asyncio.gather(*(asyncio.shield(task) for task in tasks)))

    def _task(self, query: SearchQuery) -> asyncio.Task[SearchResult]:
        key, running = _key(query), self._in_flight.get()
        if key not in running:
            running[key] = asyncio.get_running_loop().create_task(self._answer(key, query))
            running[key].add_done_callback(lambda _: running.pop(key, None))
        return running[key]

    async def _answer(self, key: Hashable, query: SearchQuery) -> SearchResult:
        if remembered := self.cache.get(key):
            return remembered
        start = time.perf_counter()
        try:
            (pool,) = await self._batchers.get().submit([query])
            answer = await self._refined_answer(pool)
        except Exception as error:
            answer = _internal_error(error)
        timings = {**answer.timings_ms, "total": round(1000 * (time.perf_counter() - start), 3)}
        answer = answer.model_copy(update={"timings_ms": timings})
        self._remember(key, answer)
        return answer

    def _remember(self, key: Hashable, answer: SearchResult) -> None:
        """Degraded and failed answers are asked anew next time."""
        if answer.status in (Status.OK, Status.EMPTY):
            self.cache.put(key, answer)

    async def _search_and_close(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        try:
            return await self.search(queries)
        finally:
            if self.llm:
                await self.llm.aclose()

    # ---- without the LLM ----

    async def _batch(self, queries: list[SearchQuery]) -> list[Pool | Exception]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._find_each, queries)

    def _find_each(self, queries: list[SearchQuery]) -> list[Pool | Exception]:
        """Pools of a batch; when the batch fails, each query alone, so that one bad query cannot fail the others."""
        try:
            return list(self._find(queries, for_llm=self._reranks))
        except Exception as error:
            if len(queries) == 1:
                return [error]
        return [pool for query in queries for pool in self._find_each([query])]

    def _find(self, queries: Sequence[SearchQuery], for_llm: bool) -> list[Pool]:
        with self._lock:
            self.batches += 1
            self.batched_queries += len(queries)
            return find_pools(self.index, self.config, queries, for_llm)

    def _plain_answer(self, pool: Pool | Exception) -> SearchResult:
        return _internal_error(pool) if isinstance(pool, Exception) else finish(pool, self.config)

    # ---- with the LLM ----

    @property
    def _reranks(self) -> bool:
        return self.llm is not None and self.config.rerank_with_llm

    async def _refined_answer(self, pool: Pool) -> SearchResult:
        """The LLM stage of one query; what it cannot do in time is left out, and the answer is marked `degraded`."""
        if self.llm is None or not pool.units:
            return finish(pool, self.config)
        start = time.perf_counter()
        if pool.query.source is Source.STATUTE:
            stage, (units, reason) = "llm_rerank", await self._rerank(self.llm, pool)
        else:
            stage, (units, reason) = "llm_brief", await self._brief(self.llm, pool)
        timings = {**pool.timings_ms, stage: round(1000 * (time.perf_counter() - start), 3)}
        return finish(replace(pool, units=units, timings_ms=timings), self.config, reason)

    async def _rerank(self, llm: ChatModel, pool: Pool) -> tuple[tuple[Evidence, ...], str]:
        """Cited articles stay in front; the rest goes in the LLM's order, or stays in hybrid order with a reason."""
        if not self.config.rerank_with_llm:
            return pool.units, ""
        cited = tuple(unit for unit in pool.units if "citation" in unit.provenance)
        rest = [unit for unit in pool.units if "citation" not in unit.provenance]
        if len(cited) >= pool.query.top_k or len(rest) < 2:
            return pool.units, ""
        key = (pool.query.query, pool.query.intent, tuple(unit.id for unit in rest))
        try:
            order = self._orders.get(key)
            if order is None:
                async with asyncio.timeout(self.config.llm_stage_deadline_s):
                    ranked = await rerank_statutes(llm, pool.query, rest, self.config)
                order = tuple(unit.id for unit in ranked)
                self._orders.put(key, order)
        except (AssistantError, TimeoutError) as error:
            return pool.units, self._degraded("rerank", error)
        by_id = {unit.id: unit for unit in rest}
        return cited + tuple(_reranked(by_id[i], place, len(order)) for place, i in enumerate(order)), ""

    async def _brief(self, llm: ChatModel, pool: Pool) -> tuple[tuple[Evidence, ...], str]:
        """Each precedent's text becomes the LLM's brief; where that fails the extractive one stays, with a reason."""
        if not self.config.summarise_with_llm:
            return pool.units, ""
        units = pool.units[: pool.query.top_k]
        briefs = await asyncio.gather(*(self._brief_of(llm, pool, u) for u in units), return_exceptions=True)
        told: list[Evidence] = []
        reason = ""
        for unit, brief in zip(units, briefs, strict=True):
            if isinstance(brief, AssistantError | TimeoutError):
                reason = self._degraded("brief", brief)
            elif isinstance(brief, BaseException):
                raise brief
            else:
                unit = unit.model_copy(update={"text": brief, "provenance": (*unit.provenance, "llm")})
            told.append(unit)
        return tuple(told), reason

    async def _brief_of(self, llm: ChatModel, pool: Pool, unit: Evidence) -> str:
        query = pool.query
        stored = self.index.briefs.get(unit.id)
        if stored is not None and stored.told:
            return unit.text  # told at index time; the line that depends on the query is there already
        key = (query.query, query.circumstances, query.charge, unit.id)
        brief = self._briefs.get(key)
        if brief is None:
            async with asyncio.timeout(self.config.llm_stage_deadline_s):
                brief = await summarise_case(llm, query, pool.cases[unit.id], self.config)
            self._briefs.put(key, brief)
        return brief

    def _degraded(self, stage: str, error: BaseException) -> str:
        text = str(error) or f"no answer within {self.config.llm_stage_deadline_s:.1f} s"
        _log.warning("LLM %s left out: %s", stage, text)
        return f"{stage}: {text}"


def _reranked(unit: Evidence, place: int, count: int) -> Evidence:
    """Scores fall with the LLM's order, so that they still sort the answer."""
    return unit.model_copy(update={"score": (count - place) / (count + 1), "provenance": (*unit.provenance, "llm")})


def _key(query: SearchQuery) -> Hashable:
    """Without `as_of` the law in force today answers: the day is part of what is remembered."""
    day = query.as_of or (date.today() if query.source is Source.STATUTE else None)
    texts = (query.query, query.intent, query.circumstances, query.charge)
    return (query.source, texts, day, query.court_levels, query.top_k)


def _internal_error(error: Exception) -> SearchResult:
    _log.error("a query failed inside the Legal Assistant", exc_info=error)
    return SearchResult(status=Status.ERROR, reason=f"internal error ({type(error).__name__}); see the server's log")
