"""Client of the Legal Assistant's HTTP service: the same `search` as in-process, over pooled connections.

What cannot be answered raises `RetrievalError`; an outage is never an empty result. Light on purpose (httpx and
pydantic): agent workers import it without an index, torch or numba.

    client = AssistantClient("http://127.0.0.1:8000", outage_patience_s=600, on_outage=lambda o: print(o))
    results = await client.search([SearchQuery(source="statute", query="刑法第264条")])
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from retrieval_server.errors import RetrievalError
from retrieval_server.loops import PerLoop, run_sync
from retrieval_server.types import (
    MAX_CITING_CHARS,
    TIMEOUT_HEADER,
    Article,
    CitationRequest,
    CitationResponse,
    CitedArticle,
    SearchQuery,
    SearchRequest,
    SearchResponse,
    SearchResult,
)

MAX_QUERIES_PER_REQUEST = 256
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Outage:
    """What `on_outage` is told before every pause: `str(outage)` is one clear line."""

    base_url: str
    reason: str
    elapsed_s: float
    next_try_s: float
    gives_up_s: float
    """Seconds until the client stops trying."""

    def __str__(self) -> str:
        return (
            f"Legal Assistant at {self.base_url} does not answer for {self.elapsed_s:.0f} s ({self.reason}); "
            f"next try in {self.next_try_s:.1f} s, giving up in {self.gives_up_s:.0f} s"
        )


class _Refusal(Exception):
    """One failed attempt: worth another one or not, and what the server asked to wait."""

    def __init__(self, reason: str, retried: bool = True, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retried = retried
        self.retry_after_s = retry_after_s


@dataclass
class AssistantClient:
    """Implements `retrieval_server.types.Retriever` over HTTP; usable from several event loops and after a fork.

    Raises (from `search`, `article`, `wait_ready`):
        RetrievalError: no usable answer before the deadline, or a request the service refuses.
    """

    base_url: str
    timeout_s: float = 60.0
    """Deadline of one attempt, and of the whole call when `outage_patience_s` is smaller."""
    connect_timeout_s: float = 5.0
    outage_patience_s: float = 0.0
    """How long a call keeps trying while the service is away."""
    max_retries: int = 1_000
    """Retry budget of one call; the deadline usually ends first."""
    api_key: str | None = None
    max_connections: int = 64
    on_outage: Callable[[Outage], None] | None = None
    on_recovery: Callable[[float], None] | None = None
    """Called with the length of the outage in seconds when an answer came after at least one failure."""
    transport: Callable[[], httpx.AsyncBaseTransport] | None = None
    """Makes another transport, such as `httpx.ASGITransport`, once per event loop."""
    _http: PerLoop[httpx.AsyncClient] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.base_url = self.base_url.rstrip("/")
        if not self.base_url.startswith(("http://", "https://")):
            raise RetrievalError(
                f"the Legal Assistant's address must start with http:// or https://: {self.base_url!r}"
            )
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        make = partial(
            _make_http,
            self.base_url,
            headers,
            self.timeout_s,
            self.connect_timeout_s,
            self.max_connections,
            self.transport,
        )
        self._http = PerLoop(make)

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        """One result per query, in order; more than 256 queries travel as several requests at once."""
        parts = [queries[i : i + MAX_QUERIES_PER_REQUEST] for i in range(0, len(queries), MAX_QUERIES_PER_REQUEST)]
        answers = await asyncio.gather(*(self._search_part(part) for part in parts))
        return [result for answer in answers for result in answer]

    def search_sync(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        """`search` for synchronous callers."""
        return run_sync(partial(self._and_close, self.search, queries))

    async def article(self, law: str, article: str, as_of: str | None = None) -> Article:
        """One article in force at `as_of` (ISO date; None = today), such as `article("刑法", "第二百六十四条")`."""
        path = f"/v1/articles/{_quote(law)}/{_quote(article)}"
        body = await self._call("GET", path, params={"as_of": as_of} if as_of else None)
        return _read(Article, body)

    async def citations(self, text: str, as_of: date | None = None) -> list[CitedArticle]:
        """Every article and case number that a text cites, looked up; only the first 20,000 characters are read."""
        body = CitationRequest(text=text[:MAX_CITING_CHARS], as_of=as_of).model_dump_json().encode()
        answer = await self._call("POST", "/v1/citations", content=body, read=partial(_read, CitationResponse))
        return list(answer.citations)

    async def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Return when `/readyz` says ready."""
        deadline = time.monotonic() + timeout_s
        reason = "not asked yet"
        while (left := deadline - time.monotonic()) > 0:
            try:
                await self._attempt("GET", "/readyz", min(left, self.connect_timeout_s))
                return
            except _Refusal as refusal:
                reason = refusal.reason
                await asyncio.sleep(min(0.2, max(left, 0)))
        raise RetrievalError(f"Legal Assistant at {self.base_url} is not ready after {timeout_s:.0f} s: {reason}")

    async def aclose(self) -> None:
        """Close this loop's connections; the client stays usable."""
        if http := self._http.pop():
            await http.aclose()

    async def _and_close(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return await call(*args)
        finally:
            await self.aclose()

    async def _search_part(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        content = SearchRequest(queries=tuple(queries)).model_dump_json(exclude_defaults=True).encode()
        read = partial(_read_results, expected=len(queries))
        return await self._call("POST", "/v1/search", content=content, read=read)

    async def _call(self, method: str, path: str, read: Callable[[bytes], Any] = bytes, **request: Any) -> Any:
        """One call with retries until the deadline; an unreadable answer counts as an outage too."""
        start = time.monotonic()
        deadline = start + max(self.timeout_s, self.outage_patience_s)
        for attempt in range(self.max_retries + 1):
            try:
                left = deadline - time.monotonic()
                answer = read(await self._attempt(method, path, min(self.timeout_s, max(left, 0.001)), **request))
            except _Refusal as refusal:
                await self._pause(refusal, attempt, start, deadline)
            else:
                if attempt and self.on_recovery:
                    self.on_recovery(time.monotonic() - start)
                return answer
        raise RetrievalError(f"Legal Assistant at {self.base_url}: retry budget of {self.max_retries} is used up")

    async def _pause(self, refusal: _Refusal, attempt: int, start: float, deadline: float) -> None:
        """Wait before the next attempt, or raise when there is none."""
        now = time.monotonic()
        growing = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(attempt, 10))
        pause = max(growing * random.uniform(0.5, 1.0), refusal.retry_after_s * random.uniform(1.0, 1.25))
        if not refusal.retried:
            raise RetrievalError(
                f"Legal Assistant at {self.base_url} refused the request: {refusal.reason}"
            ) from refusal
        if attempt >= self.max_retries or now + pause >= deadline:
            tries = "1 try" if attempt == 0 else f"{attempt + 1} tries"
            raise RetrievalError(
                f"Legal Assistant at {self.base_url} gave no answer in {now - start:.1f} s, {tries}: {refusal.reason}"
            ) from refusal
        if self.on_outage:
            self.on_outage(Outage(self.base_url, refusal.reason, now - start, pause, deadline - now))
        await asyncio.sleep(pause)

    async def _attempt(self, method: str, path: str, timeout_s: float, **request: Any) -> bytes:
        """One attempt, whole body within `timeout_s` (a server that sends a byte now and then does not prolong it)."""
        request["headers"] = {TIMEOUT_HEADER: f"{timeout_s:.3f}"}
        if "content" in request:
            request["headers"]["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._http.get().request(method, path, **request)
        except TimeoutError as error:
            raise _Refusal(f"no answer within {timeout_s:.1f} s") from error
        except httpx.TransportError as error:
            raise _Refusal(f"{type(error).__name__}: {error}".rstrip(": ")) from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _Refusal(f"{type(error).__name__}: {error}", retried=False) from error
        if answer.status_code != 200:
            raise _refusal_of(answer)
        return answer.content


def _make_http(
    base_url: str,
    headers: dict[str, str],
    timeout_s: float,
    connect_timeout_s: float,
    max_connections: int,
    transport: Callable[[], httpx.AsyncBaseTransport] | None,
) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=base_url,
        headers=headers,
        timeout=httpx.Timeout(timeout_s, connect=min(connect_timeout_s, timeout_s)),
        limits=httpx.Limits(max_connections=max_connections, max_keepalive_connections=max_connections),
        transport=transport() if transport else None,
        trust_env=False,  # A proxy of the environment must not stand between a trainer and its own service.
    )


def _refusal_of(answer: httpx.Response) -> _Refusal:
    """The named reason of an answer that is not 200; `Retry-After` in seconds is honoured."""
    try:
        detail = answer.json().get("error", "")
    except (ValueError, AttributeError):
        detail = ""
    wait = answer.headers.get("retry-after", "")
    return _Refusal(
        reason=f"HTTP {answer.status_code}" + (f": {detail}" if detail else ""),
        retried=answer.status_code in _RETRIED_STATUS,
        retry_after_s=float(wait) if wait.isdigit() else 0.0,
    )


def _read(model: type[BaseModel], body: bytes) -> Any:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise _Refusal(f"unreadable answer: {first['loc']}: {first['msg']}") from error


def _read_results(body: bytes, expected: int) -> list[SearchResult]:
    results = list(_read(SearchResponse, body).results)
    if len(results) != expected:
        raise _Refusal(f"unreadable answer: {len(results)} results for {expected} queries")
    return results


def _quote(segment: str) -> str:
    return quote(segment, safe="", errors="replace")
