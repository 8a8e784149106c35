"""FlashRAG and the Legal Assistant: its corpus files, our Assistant in its pipelines, its retrievers behind ours.

    SequentialPipeline(config, retriever=AssistantRetriever(assistant, topk=5))     # theirs, with our evidence
    LegalEnv(FlashRAGBackend(bm25_retriever))                                       # ours, with their retriever

FlashRAG itself is not imported here: the classes have the methods that its pipelines call.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from retrieval_server.errors import CorpusError, RetrievalError
from retrieval_server.types import Article, Evidence, SearchQuery, SearchResult, Source, Status

CORPUS_PREFIX = "flashrag:"
ALWAYS = "1900-01-01"
"""Date of documents that tell none: they govern on every day that is asked about."""
Document = dict[str, Any]
"""`id`, `contents` (title, line break, text), `title`, `text`."""


def write_corpus(articles: Iterable[Article], path: Path) -> int:
    """FlashRAG's corpus JSON Lines; returns the number of documents."""
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    count = 0
    with temporary.open("w", encoding="utf-8") as out:
        for article in articles:
            title = f"{article.law_title} {article.article_label}".strip()
            out.write(json.dumps({"id": article.id, "contents": f"{title}\n{article.text}"}, ensure_ascii=False) + "\n")
            count += 1
    os.replace(temporary, path)
    return count


def read_corpus(path: Path) -> Iterator[Article]:
    """Documents of a FlashRAG corpus as articles without numbers: found by content, not by citation.

    Raises:
        CorpusError: names file, line and field.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _article(line, f"{path}: line {number}")
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise CorpusError(f"{path}: cannot be read ({error})") from None


def _article(line: str, where: str) -> Article:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{where}: not valid JSON ({error.msg})") from None
    if not isinstance(record, dict) or record.get("id") in (None, ""):
        raise CorpusError(f"{where}: field 'id' is missing")
    contents = record.get("contents")
    if not isinstance(contents, str) or not contents.strip():
        raise CorpusError(f"{where}: field 'contents' must be a text")
    title, _, text = contents.strip().partition("\n")
    title = title.strip().strip('"')
    return Article(
        id=str(record["id"]), kind="law", law_title=title, law_key=title, version_date=ALWAYS, article_no=None,
        article_label="", text=text.strip() or title,
    )  # fmt: skip


class AssistantRetriever:
    """The Legal Assistant with the two methods of a FlashRAG retriever.

    Args:
        assistant: `LegalAssistant`, or anything with its `search_sync`.
        topk: documents per query where a call names no `num`.
        source: statutes or precedents.

    Raises (from both methods):
        RetrievalError: the Assistant could not answer; never an empty list instead.
    """

    def __init__(self, assistant: Any, topk: int = 5, source: Source = Source.STATUTE) -> None:
        self.assistant, self.topk, self.source = assistant, topk, source

    def search(self, query: str, num: int | None = None, return_score: bool = False) -> Any:
        """Documents of one query, best first; with `return_score` also their scores."""
        documents, scores = self.batch_search([query], num, return_score=True)
        return (documents[0], scores[0]) if return_score else documents[0]

    def batch_search(self, query: Sequence[str], num: int | None = None, return_score: bool = False) -> Any:
        """Documents of each query, in order; FlashRAG names the parameter `query`."""
        texts = [query] if isinstance(query, str) else list(query)
        asked = [SearchQuery(source=self.source, query=text, top_k=num or self.topk) for text in texts]
        results: list[SearchResult] = self.assistant.search_sync(asked)
        failed = next((result.reason for result in results if result.status is Status.ERROR), None)
        if failed is not None:
            raise RetrievalError(f"the Legal Assistant failed: {failed}")
        documents = [[as_document(unit) for unit in result.evidence] for result in results]
        scores = [[unit.score for unit in result.evidence] for result in results]
        return (documents, scores) if return_score else documents


def as_document(unit: Evidence) -> Document:
    """Evidence in FlashRAG's form."""
    title = f"{unit.title} {unit.label}".strip()
    return {"id": unit.id, "contents": f"{title}\n{unit.text}", "title": title, "text": unit.text}


class Searcher(Protocol):
    """What `FlashRAGBackend` needs of a FlashRAG retriever."""

    def batch_search(self, query: list[str], num: int, return_score: bool) -> tuple[Any, Any]: ...


class FlashRAGBackend:
    """A FlashRAG retriever as our `Retriever`: statutes only, without versions, courts or citations.

    Raises (from `search`):
        RetrievalError: the retriever failed or did not answer in time.
    """

    def __init__(self, retriever: Searcher, timeout_s: float = 60.0) -> None:
        self.retriever, self.timeout_s = retriever, timeout_s

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        """One result per query, in order; it runs in a thread, the event loop stays free."""
        if not queries:
            return []
        texts, most = [query.query for query in queries], max(query.top_k for query in queries)
        try:
            async with asyncio.timeout(self.timeout_s):
                found = await asyncio.to_thread(self.retriever.batch_search, texts, most, True)
            documents, scores = found
            pairs = list(zip(queries, documents, scores, strict=True))
            return [_result(list(d)[: q.top_k], list(s)[: q.top_k]) for q, d, s in pairs]
        except TimeoutError as error:
            raise RetrievalError(f"the FlashRAG retriever gave no answer within {self.timeout_s:g} s") from error
        except Exception as error:
            raise RetrievalError(f"the FlashRAG retriever failed: {type(error).__name__}: {error}") from error


def _result(documents: list[Document], scores: list[float]) -> SearchResult:
    if not documents:
        return SearchResult(status=Status.EMPTY, reason="没有找到符合条件的依据")
    best = max((float(score) for score in scores), default=0.0)
    units = []
    for rank, (document, score) in enumerate(zip(documents, scores, strict=True), start=1):
        title, _, text = str(document["contents"]).partition("\n")
        units.append(
            Evidence(
                id=str(document["id"]),
                source=Source.STATUTE,
                title=title.strip('"'),
                label="",
                text=text or title,
                score=min(max(float(score) / best, 0.0), 1.0) if best > 0 else 0.0,
                rank=rank,
                provenance=("flashrag",),
            )
        )
    return SearchResult(status=Status.OK, evidence=tuple(units))
