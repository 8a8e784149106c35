"""Who writes the final answer (the paper's Judge): a model in our own engine, or any chat endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from envs.errors import PolicyError
from envs.policy import ChatEndpoint
from envs.tokens import TokenDialogue, Tokenizer
from legal_rl.serving.engines import TokenEngine
from legal_rl.serving.lawyer import Meter
from legal_rl.serving.settings import JudgeSettings
from retrieval_server.chat import make_client
from retrieval_server.loops import PerLoop

if TYPE_CHECKING:
    import openai

AGAIN_PROMPT = Path(__file__).parent / "prompts" / "judge_again.txt"
MIN_ANSWER_TOKENS = 16


class Judge(Protocol):
    """Writes an answer from a prompt.

    Raises:
        envs.errors.PolicyError: the model failed or was too slow.
    """

    settings: JudgeSettings

    def stream(self, prompt: str, session: str, deadline_s: float, meter: Meter) -> AsyncIterator[str]:
        """The whole text so far, again and again."""
        ...

    def fits(self, prompt: str) -> bool:
        """False when the prompt leaves no room for an answer."""
        ...


class EngineJudge:
    """A Judge in our own engine."""

    def __init__(self, settings: JudgeSettings, engine: TokenEngine, tokenizer: Tokenizer) -> None:
        assert settings.model is not None
        self.settings, self.engine, self.tokenizer = settings, engine, tokenizer
        self.model = settings.model

    def fits(self, prompt: str) -> bool:
        room = self.model.engine.max_model_len - len(self._dialogue(prompt).token_ids)
        return room >= min(MIN_ANSWER_TOKENS, self.settings.max_tokens)

    async def stream(self, prompt: str, session: str, deadline_s: float, meter: Meter) -> AsyncIterator[str]:
        dialogue = self._dialogue(prompt)
        options: dict[str, Any] = {
            "max_tokens": self.settings.max_tokens, "stop_ids": (dialogue.turn_end_id,),
            "temperature": self.settings.temperature, "chunk_s": self.model.chunk_ms / 1000,
        }  # fmt: skip
        meter.judge_prompt_tokens += dialogue.prompt_length
        ids: list[int] = []
        async for piece in self.engine.stream(dialogue.token_ids, options, session, deadline_s):
            ids += piece.token_ids
            meter.judge_s += piece.engine_s
            meter.judge_completion_tokens += len(piece.token_ids)
            yield self.tokenizer.decode(ids, skip_special_tokens=True)

    def _dialogue(self, prompt: str) -> TokenDialogue:
        messages = [{"role": "user", "content": prompt}]
        return TokenDialogue(self.tokenizer, messages, enable_thinking=self.settings.enable_thinking)


class EndpointJudge:
    """A Judge behind an OpenAI-compatible endpoint; its context is its own affair (400 = the prompt is too long)."""

    def __init__(self, settings: JudgeSettings) -> None:
        assert settings.endpoint is not None
        self.settings, self.endpoint = settings, settings.endpoint
        e: ChatEndpoint = settings.endpoint
        self._clients: PerLoop[openai.AsyncOpenAI] = PerLoop(
            partial(make_client, e.base_url, e.api_key_env, e.request_timeout_s, e.max_retries)
        )

    def fits(self, prompt: str) -> bool:
        return True

    async def stream(self, prompt: str, session: str, deadline_s: float, meter: Meter) -> AsyncIterator[str]:
        import openai

        loop = asyncio.get_running_loop()
        started, text = loop.time(), ""
        try:
            chunks = await self._clients.get().chat.completions.create(
                model=self.endpoint.model,
                messages=[{"role": "user", "content": prompt}],
                max_tokens=self.settings.max_tokens,
                temperature=self.settings.temperature,
                stream=True,
                stream_options={"include_usage": True},
                extra_body=dict(self.endpoint.extra_body) or None,
                timeout=min(deadline_s, self.endpoint.request_timeout_s),
            )
            async with chunks:
                async for chunk in chunks:
                    if chunk.usage is not None:
                        meter.judge_prompt_tokens += chunk.usage.prompt_tokens
                        meter.judge_completion_tokens += chunk.usage.completion_tokens
                    if chunk.choices and chunk.choices[0].delta.content:
                        text += chunk.choices[0].delta.content
                        yield text
        except (openai.OpenAIError, ValueError) as error:
            said = " ".join(str(error).split())[:300]
            raise PolicyError(f"Judge {self.endpoint.model} at {self.endpoint.base_url} failed: {said}") from error
        finally:
            meter.judge_s += loop.time() - started
