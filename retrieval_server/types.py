"""The wire words of the Legal Assistant: what is asked, what is answered, and the two kinds of legal source.

Light on purpose: pydantic only, so that an environment worker can talk to the service without torch or an index.

One search, in miniature::

    SearchQuery(source="statute", query="刑法第264条", intent="量刑幅度", top_k=2)
    -> SearchResult(status="ok", evidence=(Evidence(id="law/刑法@2023-12-29#264", title="中华人民共和国刑法",
                    label="第二百六十四条", text="盗窃公私财物，…", score=1.0, provenance=("citation",)), …))
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

MAX_QUERY_CHARS = 4_000
MAX_TOP_K = 100
TIMEOUT_HEADER = "X-Timeout-S"
"""Request header: seconds that the caller will wait for its answer."""
MAX_CITING_CHARS = 20_000
"""Of a text whose citations are checked."""


class Source(StrEnum):
    """Where evidence comes from: K_norm or K_case (paper, section 3.1)."""

    STATUTE = "statute"
    PRECEDENT = "precedent"


class CourtLevel(StrEnum):
    """Adjudicating court's level; `SUPREME` shares the top authority tier with `HIGH` (paper, appendix F.1)."""

    SUPREME = "supreme"
    HIGH = "high"
    INTERMEDIATE = "intermediate"
    PRIMARY = "primary"
    UNKNOWN = "unknown"


class Status(StrEnum):
    """How one query went. An outage is never `EMPTY`: clients raise instead."""

    OK = "ok"
    EMPTY = "empty"
    DEGRADED = "degraded"
    ERROR = "error"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Article(_Record):
    """One unit of K_norm: an article of a law, or a numbered item of a judicial interpretation."""

    id: str
    """`law|int|reg|rule/<law_key>@<version_date>#<number>[-<sub>]`, unique."""
    kind: str
    law_title: str
    law_key: str
    """Title without 中华人民共和国."""
    version_date: str
    """ISO date of this version of the text; empty where the source does not tell."""
    effective_date: str | None = None
    in_force_until: str | None = None
    """First day on which a later version or a repeal replaced it; None while in force."""
    part: str = ""
    chapter: str = ""
    section: str = ""
    article_no: int | None = None
    article_sub: int = 0
    article_label: str = ""
    status: str = ""
    """What the source says of this version, such as 现行有效, 已废止, 历史版本; empty where it does not tell."""
    text: str


class Case(_Record):
    """One unit of K_case: a criminal judgment with the annotations of paper section 4.1."""

    id: str
    court: str
    court_level: CourtLevel
    charges: tuple[str, ...] = ()
    articles: tuple[str, ...] = ()
    """Labels of the Criminal Law articles the judgment cites, such as 第二百六十四条."""
    facts: str
    reason: str = ""
    result: str = ""
    psi: float | None = None
    """Punishment Severity Index (appendix F.2), day equivalents; None when it cannot be read."""
    psi_note: str = ""
    generated: bool = False
    """True for cases written by a program, not by a court."""
    source: str = ""


class Evidence(_Record):
    """One evidence unit as the Lawyer sees it. `rank` counts from 1; `score` orders within one answer only."""

    id: str
    source: Source
    title: str
    label: str = ""
    """Article label for statutes, court level for precedents."""
    text: str
    score: float = 0.0
    rank: int = 1
    version_date: str = ""
    effective_date: str | None = None
    court_level: CourtLevel | None = None
    charges: tuple[str, ...] = ()
    psi: float | None = None
    generated: bool = False
    provenance: tuple[str, ...] = ()
    """Which retrievers found it: citation, bm25, dense, intent, mmr, llm."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, such as the version chosen for `as_of`."""


class SearchQuery(_Record):
    """One request of the Lawyer to the Legal Assistant (paper, section 3.2.2)."""

    source: Source
    query: str = Field(min_length=1, max_length=MAX_QUERY_CHARS)
    intent: str = Field(default="", max_length=MAX_QUERY_CHARS)
    circumstances: str = Field(default="", max_length=MAX_QUERY_CHARS)
    charge: str = Field(default="", max_length=200)
    as_of: date | None = None
    court_levels: tuple[CourtLevel, ...] = ()
    top_k: int = Field(default=5, ge=1, le=MAX_TOP_K)


class SearchResult(_Record):
    """The answer to one `SearchQuery`; evidence is best first, `timings_ms` is per stage."""

    status: Status
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""
    timings_ms: dict[str, float] = Field(default_factory=dict)


class SearchRequest(_Record):
    """Body of `POST /v1/search`."""

    queries: tuple[SearchQuery, ...] = Field(min_length=1, max_length=256)


class SearchResponse(_Record):
    """Answer of `POST /v1/search`, one result per query in order."""

    results: tuple[SearchResult, ...]
    index_version: str = ""


class CitedStatus(StrEnum):
    """What the knowledge base says of a citation."""

    IN_FORCE = "in_force"
    NOT_IN_FORCE = "not_in_force"
    """It exists, but its text does not govern on the day that is meant."""
    NOT_FOUND = "not_found"
    """The law has no such article, or the knowledge base holds no such law or case."""
    UNRESOLVED = "unresolved"
    """The text names no law, and none can be told from what stands before."""


class CitedArticle(_Record):
    """One citation of a text, looked up. `span` counts characters of that text."""

    kind: Literal["article", "case"] = "article"
    law: str = ""
    label: str
    """第一百三十三条之一, or a case number as it was cited."""
    status: CitedStatus
    article_id: str = ""
    note: str = ""
    text: str = ""
    """Of the article, where the knowledge base has it."""
    span: tuple[int, int] = (0, 0)


class CitationRequest(_Record):
    """Body of `POST /v1/citations`."""

    text: str = Field(max_length=MAX_CITING_CHARS)
    as_of: date | None = None


class CitationResponse(_Record):
    """Answer of `POST /v1/citations`, in order of the text."""

    citations: tuple[CitedArticle, ...]
    index_version: str = ""


@runtime_checkable
class Retriever(Protocol):
    """What the environment needs from the Legal Assistant: in-process engine and HTTP client both provide it.

    Raises:
        retrieval_server.errors.RetrievalError: the Assistant could not be asked. Never an empty result.
    """

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]: ...
