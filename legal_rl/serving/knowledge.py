"""What the application asks of the Legal Assistant: in this process, behind HTTP, or as Serve replicas.

All of them raise `RetrievalError` on an outage; none gives an empty result instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from retrieval_server.errors import LegalRLError, RetrievalError
from retrieval_server.types import Article, CitedArticle, Retriever, SearchQuery, SearchResult

if TYPE_CHECKING:
    from retrieval_server.assistant import LegalAssistant
    from retrieval_server.client import AssistantClient

T = TypeVar("T")
READY_WAIT_S = 2.0
"""How long a readiness question may take."""


class ArticleNotFoundError(LegalRLError):
    """The knowledge base has no such article on that day; the text says what it has."""


class Knowledge(Retriever, Protocol):
    """Searches, the text of one article, and the check of what an answer cites."""

    async def citations(self, text: str, as_of: date | None = None) -> list[CitedArticle]: ...

    async def article(self, law: str, article: str, as_of: date | None = None) -> Article:
        """Raises `ArticleNotFoundError` where there is none."""
        ...

    async def ready(self) -> str:
        """Empty when searches can be answered, else why not. Never raises."""
        ...


class LocalKnowledge:
    """An assistant in this process; also the work of one Serve replica."""

    def __init__(self, assistant: LegalAssistant) -> None:
        self.assistant = assistant

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        return await self.assistant.search(queries)

    async def citations(self, text: str, as_of: date | None = None) -> list[CitedArticle]:
        from retrieval_server.citation_check import check_citations

        return await asyncio.to_thread(check_citations, self.assistant.index, text, as_of)

    async def article(self, law: str, article: str, as_of: date | None = None) -> Article:
        from retrieval_server.validity import is_in_force, validity_note

        found, day = self.assistant.article(law, article, as_of), as_of or date.today()
        if found is None:
            raise ArticleNotFoundError(f"no such article: {law[:80]} {article[:80]}")
        if not is_in_force(found, day):
            note = validity_note(found, day)
            raise ArticleNotFoundError(f"not in the knowledge base on {day}; nearest text: {found.id}, {note}")
        return found

    async def ready(self) -> str:
        return ""


class HttpKnowledge:
    """A Legal Assistant service that runs somewhere else."""

    def __init__(self, client: AssistantClient) -> None:
        self.client = client

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        return await self.client.search(queries)

    async def citations(self, text: str, as_of: date | None = None) -> list[CitedArticle]:
        return await self.client.citations(text, as_of)

    async def article(self, law: str, article: str, as_of: date | None = None) -> Article:
        try:
            return await self.client.article(law, article, as_of.isoformat() if as_of else None)
        except RetrievalError as error:
            if "HTTP 404" in str(error):
                raise ArticleNotFoundError(str(error).partition("HTTP 404: ")[2] or str(error)) from error
            raise

    async def ready(self) -> str:
        try:
            await self.client.wait_ready(READY_WAIT_S)
        except RetrievalError as error:
            return str(error)
        return ""


class HandleKnowledge:
    """Serve replicas of the Assistant, through their deployment's handle.

    Args:
        timeout_s: of one search or look-up, a restart of the replica included.
    """

    def __init__(self, handle: Any, timeout_s: float) -> None:
        self.handle, self.timeout_s = handle, timeout_s

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        return await self._ask(self.handle.search, list(queries))

    async def citations(self, text: str, as_of: date | None = None) -> list[CitedArticle]:
        return await self._ask(self.handle.citations, text, as_of)

    async def article(self, law: str, article: str, as_of: date | None = None) -> Article:
        return await self._ask(self.handle.article, law, article, as_of)

    async def ready(self) -> str:
        try:
            return await self._ask(self.handle.ready, timeout_s=READY_WAIT_S)
        except RetrievalError as error:
            return str(error)

    async def _ask(self, method: Any, *arguments: Any, timeout_s: float | None = None) -> Any:
        limit = timeout_s or self.timeout_s
        return await called(lambda: method.remote(*arguments), limit, RetrievalError, "the Legal Assistant")


async def called(ask: Callable[[], Awaitable[T]], timeout_s: float, failure: type[LegalRLError], who: str) -> T:
    """One call of a Serve handle; a dead or silent replica becomes `failure`, our own errors pass."""
    from ray.exceptions import RayError, RayTaskError
    from ray.serve.exceptions import RayServeException

    try:
        async with asyncio.timeout(timeout_s):
            return await ask()
    except TimeoutError as error:
        raise failure(f"{who} gave no answer within {timeout_s:g} s") from error
    except RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, LegalRLError):
            raise cause from error
        raise failure(f"{who} failed: {type(cause or error).__name__}") from error
    except (RayError, RayServeException) as error:
        raise failure(f"{who} went away: {type(error).__name__}") from error
