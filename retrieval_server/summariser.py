"""The LLM-based case summariser (paper, sections 3.2.2 and A.2): one precedent into a compact evidence text.

Court, level and PSI come from the record, never from the model.
"""

from __future__ import annotations

from typing import Any

from retrieval_server.config import AssistantConfig
from retrieval_server.errors import AssistantError
from retrieval_server.llm import ChatModel, PromptTooLongError
from retrieval_server.templates import fill_prompt
from retrieval_server.types import Case, SearchQuery

_PARTS = {"key_facts": "事实", "reasoning": "理由", "outcome": "结果", "sentence": "量刑"}
_REQUIRED = ("key_facts", "outcome")


async def summarise_case(llm: ChatModel, query: SearchQuery, case: Case, config: AssistantConfig) -> str:
    """Brief of `case` for the reader of `query`: one line per part.

    Raises:
        AssistantError: the model gave no usable brief.
    """
    budget = config.brief_input_chars
    try:
        answer = await _ask_brief(llm, query, case, budget, config.brief_max_tokens)
    except PromptTooLongError:
        answer = await _ask_brief(llm, query, case, budget // 4, config.brief_max_tokens)
    return render_brief(answer, case)


def render_brief(answer: Any, case: Case) -> str:
    """The evidence text from the model's JSON.

    Raises:
        AssistantError: a required part is missing or empty.
    """
    parts = answer if isinstance(answer, dict) else {}
    texts = {name: " ".join(str(parts.get(name) or "").split()) for name in _PARTS}
    for name in _REQUIRED:
        if not texts[name]:
            raise AssistantError(f"Assistant LLM sent a brief without `{name}` for case {case.id}")
    return "\n".join([case.court, *(f"{_PARTS[name]}：{text}" for name, text in texts.items() if text)])


async def _ask_brief(llm: ChatModel, query: SearchQuery, case: Case, budget: int, max_tokens: int) -> Any:
    wanted = "\n".join(part for part in (query.query, query.circumstances, query.charge) if part)
    half, quarter = budget // 2, budget // 4
    messages = [
        {"role": "system", "content": fill_prompt("brief_system")},
        {
            "role": "user",
            "content": fill_prompt(
                "brief_user",
                fact_query=wanted[:half],
                doc_fact=case.facts[:half],
                doc_reason=case.reason[:quarter] or "（无）",
                doc_result=case.result[:quarter] or "（无）",
            ),
        },
    ]
    return await llm.complete_json(messages, _schema(), "case_brief", max_tokens)


def _schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": dict.fromkeys(_PARTS, text),
        "required": list(_PARTS),
        "additionalProperties": False,
    }
