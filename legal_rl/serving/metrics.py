"""Prometheus metrics of one application replica, all under `legal_rl_app_`, one registry per app."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from legal_rl.serving.answer import Answer

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class ServeMetrics:
    """Counters of one app; `render` gives the text of `GET /metrics`."""

    def __init__(self) -> None:
        r = self.registry = CollectorRegistry()
        self.requests = Counter("legal_rl_app_requests", "HTTP requests.", ["route", "code"], registry=r)
        self.request_seconds = Histogram(
            "legal_rl_app_request_seconds", "Time to the end of the response.", ["route"], buckets=_SECONDS, registry=r
        )
        self.rejected = Counter("legal_rl_app_rejected", "Requests not let in.", ["reason"], registry=r)
        self.in_flight = Gauge("legal_rl_app_in_flight", "Questions in work.", registry=r)
        self.answers = Counter("legal_rl_app_answers", "Finished answers.", ["stop_reason"], registry=r)
        self.failures = Counter("legal_rl_app_failures", "What went wrong.", ["code"], registry=r)
        self.cancelled = Counter("legal_rl_app_cancelled", "Questions whose client went away.", registry=r)
        self.first_event = Histogram(
            "legal_rl_app_first_event_seconds", "Time to the first thought or search.", buckets=_SECONDS, registry=r
        )
        self.seconds = Histogram("legal_rl_app_answer_seconds", "Whole answers.", buckets=_SECONDS, registry=r)
        self.parts = Counter("legal_rl_app_part_seconds", "Seconds by who spent them.", ["part"], registry=r)
        self.turn_overhead = Histogram(
            "legal_rl_app_turn_overhead_seconds",
            "Per turn, outside models and retrieval.",
            buckets=_SECONDS,
            registry=r,
        )
        self.tokens = Counter("legal_rl_app_tokens", "Tokens.", ["kind"], registry=r)
        self.searches = Counter("legal_rl_app_searches", "Searches.", ["source"], registry=r)
        self.degraded = Counter("legal_rl_app_degraded", "Answers with degraded evidence.", registry=r)
        self.citations = Counter("legal_rl_app_citations", "Citations of answers.", ["status"], registry=r)

    @contextmanager
    def question(self) -> Iterator[_Seen]:
        """Counts one question in work, and its cancellation."""
        self.in_flight.inc()
        try:
            yield _Seen(self)
        except asyncio.CancelledError:
            self.cancelled.inc()
            raise
        finally:
            self.in_flight.dec()

    def answered(self, answer: Answer) -> None:
        """Count a finished answer."""
        self.answers.labels(answer.rollout.stop_reason.value).inc()
        self.seconds.observe(answer.total_s)
        for part in ("lawyer_s", "judge_s", "retrieval_s", "overhead_s"):
            self.parts.labels(part.removesuffix("_s")).inc(answer.timings[part])
        turns = max(len(answer.rollout.turns) + (answer.meter.judge_s > 0), 1)
        self.turn_overhead.observe(answer.overhead_s / turns)
        for kind, count in answer.usage.items():
            self.tokens.labels(kind.removesuffix("_tokens")).inc(count)
        for search in answer.rollout.searches:
            self.searches.labels(search.kind).inc()
        self.degraded.inc(bool(answer.meter.degraded))
        for citation in answer.citations:
            self.citations.labels(citation.status.value).inc()

    def render(self) -> bytes:
        """Text exposition format."""
        return generate_latest(self.registry)


class _Seen:
    """What one question reports while it is in work."""

    def __init__(self, metrics: ServeMetrics) -> None:
        self._metrics = metrics

    def first_event(self, seconds: float) -> None:
        self._metrics.first_event.observe(seconds)

    def failed(self, code: str) -> None:
        self._metrics.failures.labels(code).inc()
