"""The LLM-based normative reranker (paper, sections 3.2.2 and A.1): orders candidate articles by the stated intent.

The model answers with an ordered list of candidate numbers. Candidates that exceed one prompt go through several,
whose winners meet in a final one. What the model leaves out follows in the order it came in, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrieval_server.config import AssistantConfig
from retrieval_server.errors import AssistantError
from retrieval_server.llm import ChatModel, PromptTooLongError
from retrieval_server.templates import fill_prompt
from retrieval_server.types import Evidence, SearchQuery

_TOKENS_PER_NUMBER = 6


async def rerank_statutes(
    llm: ChatModel, query: SearchQuery, candidates: Sequence[Evidence], config: AssistantConfig
) -> list[Evidence]:
    """Candidates, best for `query.intent` first; a permutation of the input.

    Raises:
        AssistantError: the model gave no usable order.
    """
    chunks = _chunks(candidates, config)
    if len(chunks) <= 1:
        return await _rerank_chunk(llm, query, list(candidates), config)
    ranked = [await _rerank_chunk(llm, query, chunk, config) for chunk in chunks]
    seats = max(1, len(candidates) // (2 * len(chunks)))
    finalists = [unit for chunk in ranked for unit in chunk[:seats]]
    rest = [unit for chunk in ranked for unit in chunk[seats:]]
    return await rerank_statutes(llm, query, finalists, config) + rest


async def _rerank_chunk(
    llm: ChatModel, query: SearchQuery, candidates: list[Evidence], config: AssistantConfig
) -> list[Evidence]:
    """One prompt; a prompt that the endpoint finds too long is tried once more with a quarter of the text."""
    if len(candidates) < 2:
        return candidates
    width = config.rerank_candidate_chars
    try:
        order = await _ask_order(llm, query, candidates, width)
    except PromptTooLongError:
        longest = max(len(unit.text) for unit in candidates)
        order = await _ask_order(llm, query, candidates, max(20, min(width, longest) // 4))
    chosen = [candidates[number] for number in order]
    left_out = [unit for number, unit in enumerate(candidates) if number not in set(order)]
    return chosen + left_out


async def _ask_order(llm: ChatModel, query: SearchQuery, candidates: Sequence[Evidence], width: int) -> list[int]:
    count = len(candidates)
    results = "\n".join(f"[{i + 1}] {_line(unit, width)}" for i, unit in enumerate(candidates))
    messages = [
        {"role": "system", "content": fill_prompt("rerank_system", topk=str(count))},
        {
            "role": "user",
            "content": fill_prompt("rerank_user", query=query.query, context=query.intent or "未说明", results=results),
        },
    ]
    answer = await llm.complete_json(messages, _schema(count), "rerank", 32 + _TOKENS_PER_NUMBER * count)
    return read_order(answer, count)


def read_order(answer: Any, count: int) -> list[int]:
    """Zero-based positions from `{"order": [1-based numbers]}`; strange and repeated numbers are passed over.

    Raises:
        AssistantError: no list, or no number of it names a candidate.
    """
    numbers = answer.get("order") if isinstance(answer, dict) else None
    if not isinstance(numbers, list):
        raise AssistantError("Assistant LLM sent no list `order` for the rerank")
    valid = [n - 1 for n in numbers if isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= count]
    if not valid:
        raise AssistantError(f"Assistant LLM named none of the {count} candidates: {str(numbers)[:80]}")
    return list(dict.fromkeys(valid))


def _chunks(candidates: Sequence[Evidence], config: AssistantConfig) -> list[list[Evidence]]:
    """Consecutive candidates whose prompt lines fit `rerank_chunk_chars` together; at least two in each."""
    chunks: list[list[Evidence]] = [[]]
    used = 0
    for unit in candidates:
        length = len(_line(unit, config.rerank_candidate_chars)) + 8
        if used + length > config.rerank_chunk_chars and len(chunks[-1]) >= 2:
            chunks.append([])
            used = 0
        chunks[-1].append(unit)
        used += length
    return chunks


def _line(unit: Evidence, width: int) -> str:
    return f"《{unit.title}》{unit.label} {unit.text[:width]}".replace("\n", " ")


def _schema(count: int) -> dict[str, Any]:
    number = {"type": "integer", "minimum": 1, "maximum": count}
    order = {"type": "array", "items": number, "minItems": 1, "maxItems": count}
    return {"type": "object", "properties": {"order": order}, "required": ["order"], "additionalProperties": False}
