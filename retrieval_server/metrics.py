"""Prometheus metrics of the service, all under `legal_rl_`, one registry per app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from retrieval_server.types import SearchQuery, SearchResult

if TYPE_CHECKING:
    from retrieval_server.assistant import LegalAssistant

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class ServiceMetrics:
    """Counters of one app. `observe` takes answered queries, `render` gives the text of `GET /metrics`."""

    def __init__(self, assistant: LegalAssistant) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter("legal_rl_requests", "HTTP requests.", ["route", "code"], registry=registry)
        self.request_seconds = Histogram(
            "legal_rl_request_seconds", "HTTP request time.", ["route"], buckets=_SECONDS, registry=registry
        )
        self.queries = Counter("legal_rl_queries", "Answered queries.", ["source", "status"], registry=registry)
        self.stage_seconds = Histogram(
            "legal_rl_stage_seconds",
            "Time per stage of a search.",
            ["source", "stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.rejected = Counter("legal_rl_rejected_queries", "Queries not let in.", ["reason"], registry=registry)
        self.in_flight = Gauge("legal_rl_in_flight_queries", "Accepted, not yet answered.", registry=registry)
        self._add_assistant_gauges(assistant)

    def _add_assistant_gauges(self, assistant: LegalAssistant) -> None:
        index, cache = assistant.index, assistant.cache
        gauges = {
            "legal_rl_index_articles": ("Articles in the index.", lambda: len(index.articles)),
            "legal_rl_index_cases": ("Precedents in the index.", lambda: len(index.cases)),
            "legal_rl_cache_hits": ("Queries answered from memory.", lambda: cache.hits),
            "legal_rl_cache_misses": ("Queries not found in memory.", lambda: cache.misses),
            "legal_rl_batches": ("Batches sent through the index.", lambda: assistant.batches),
            "legal_rl_batched_queries": ("Queries in these batches.", lambda: assistant.batched_queries),
        }
        for name, (text, read) in gauges.items():
            Gauge(name, text, registry=self.registry).set_function(read)
        if llm := assistant.llm:
            calls = Gauge("legal_rl_llm_calls", "Calls of the Assistant LLM.", ["outcome"], registry=self.registry)
            for outcome in ("ok", "retry", "error", "open"):
                calls.labels(outcome).set_function(lambda outcome=outcome: llm.calls.get(outcome, 0))

    def observe(self, queries: Sequence[SearchQuery], results: Sequence[SearchResult]) -> None:
        """Count answered queries and the time of their stages."""
        for query, result in zip(queries, results, strict=True):
            self.queries.labels(query.source.value, result.status.value).inc()
            for stage, milliseconds in result.timings_ms.items():
                self.stage_seconds.labels(query.source.value, stage).observe(milliseconds / 1000)

    def render(self) -> bytes:
        """Text exposition format."""
        return generate_latest(self.registry)
