"""How well the Legal Assistant answers the questions' own reference queries: the ceiling a Lawyer can reach with them.

One question in miniature: queries ("刑法第264条",), actions ("statute", "stop"), evidence ids ("law/刑法@…#264",) ->
the Assistant's ten best articles against that id. Where a question has several queries, their answers are interleaved.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from envs.types import Question
from legal_rl.evaluation.ranking import interleave, ranking_quality
from retrieval_server.errors import RetrievalError
from retrieval_server.types import MAX_QUERY_CHARS, SearchQuery, SearchResult, Source, Status

BATCH = 64


class SyncRetriever(Protocol):
    """What is needed of the Assistant here."""

    def search_sync(self, queries: Sequence[SearchQuery]) -> list[SearchResult]: ...


def reference_query_quality(
    questions: Iterable[Question], assistant: SyncRetriever, k: int = 10, *, seed: int = 0, resamples: int = 2000
) -> dict[str, Any]:
    """nDCG, recall, MRR and hit rate at `k` on the questions' reference queries, by family.

    Questions without reference queries or evidence (those that need no retrieval) are counted, not scored.

    Returns:
        As `ranking.ranking_quality`, with `queries`, `without_reference`, `batch_ms_per_query` and, by source
        (statute or precedent), `by_source`.

    Raises:
        RetrievalError: the Assistant failed on a query; never scored as an empty answer.
    """
    asked = list(questions)
    usable = {q.id: q for q in asked if reference_searches(q, k) and q.reference and q.reference.evidence_ids}
    queries = [(name, query) for name, question in usable.items() for query in reference_searches(question, k)]
    started = time.perf_counter()
    answers = search_in_batches(assistant, [query for _, query in queries])
    elapsed_ms = 1000 * (time.perf_counter() - started)
    lists: dict[str, list[list[str]]] = {name: [] for name in usable}
    for (name, _), answer in zip(queries, answers, strict=True):
        lists[name].append([unit.id for unit in answer.evidence])
    runs = {name: interleave(rankings) for name, rankings in lists.items()}
    gold = {name: set(q.reference.evidence_ids) for name, q in usable.items() if q.reference}
    families = {name: question.family for name, question in usable.items()}
    sources = {name: _source(question) for name, question in usable.items()}
    result = ranking_quality(runs, gold, families, k, seed=seed, resamples=resamples)
    return result | {
        "by_source": ranking_quality(runs, gold, sources, k, seed=seed, resamples=resamples)["by_type"],
        "queries": len(queries),
        "without_reference": len(asked) - len(usable),
        "batch_ms_per_query": round(elapsed_ms / max(1, len(queries)), 3),
    }


def reference_searches(question: Question, k: int) -> list[SearchQuery]:
    """The reference queries with the sources that the reference actions name, in order."""
    reference = question.reference
    if reference is None:
        return []
    kinds = [kind for kind in reference.actions if kind in set(Source)]
    return [
        SearchQuery(source=Source(kind), query=text[:MAX_QUERY_CHARS], top_k=k, as_of=question.as_of)  # type: ignore[arg-type]
        for kind, text in zip(kinds, reference.queries, strict=False)
        if text
    ]


def search_in_batches(assistant: SyncRetriever, queries: Sequence[SearchQuery]) -> list[SearchResult]:
    """All answers, `BATCH` queries at a time; raises `RetrievalError` when one failed."""
    answers: list[SearchResult] = []
    for start in range(0, len(queries), BATCH):
        answers.extend(assistant.search_sync(queries[start : start + BATCH]))
    for query, answer in zip(queries, answers, strict=True):
        if answer.status is Status.ERROR:
            raise RetrievalError(f"the Legal Assistant failed on {query.query[:40]!r}: {answer.reason}")
    return answers


def _source(question: Question) -> str:
    kinds = {query.source.value for query in reference_searches(question, 1)}
    return kinds.pop() if len(kinds) == 1 else "both"
