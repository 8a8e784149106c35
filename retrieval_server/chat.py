"""What every caller of an OpenAI-compatible endpoint shares: the client, and what a reply says.

client = make_client("http://127.0.0.1:8001/v1", "LEGAL_RL_LLM_API_KEY", timeout_s=30)
text = turn_text(first_choice(await client.chat.completions.create(...)).message)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openai


def make_client(base_url: str, api_key_env: str, timeout_s: float, max_retries: int = 0) -> openai.AsyncOpenAI:
    """A client whose loopback requests never go through a proxy of the environment.

    Args:
        api_key_env: environment variable that holds the key; unset = a word in its place, as local servers want it.
        timeout_s: seconds of one attempt.
        max_retries: the library's own retries; 0 where the caller retries inside its deadline.
    """
    import openai

    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=os.environ.get(api_key_env) or "none",
        timeout=timeout_s,
        max_retries=max_retries,
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if is_local(base_url) else None,
    )


def is_local(base_url: str) -> bool:
    """True for loopback addresses."""
    import httpx

    host = httpx.URL(base_url).host
    return host in ("localhost", "::1") or host.startswith("127.")


def first_choice(reply: Any) -> Any:
    """The reply's first choice; raises `ValueError` when a status 200 brought no chat completion."""
    choices = getattr(reply, "choices", None)
    if not choices or choices[0].message is None:
        raise ValueError(f"the reply has no choices: {str(reply)[:80]!r}")
    return choices[0]


def turn_text(message: Any) -> str:
    """A turn as the model wrote it: what the server split off as reasoning and tool calls is put back as tags."""
    thought = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    text = (f"<think>{thought}</think>" if thought else "") + (message.content or "")
    for call in message.tool_calls or ():
        arguments = call.function.arguments or "{}"
        text += f'<tool_call>\n{{"name": "{call.function.name}", "arguments": {arguments}}}\n</tool_call>'
    return text
