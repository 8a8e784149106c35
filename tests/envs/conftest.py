"""Toy retrievers, a Qwen-style tokenizer and a question, shared by the environment's tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import settings

from envs.env import EnvConfig
from envs.tokens import QWEN3_TEMPLATE_PATH
from envs.types import Question, Reference
from retrieval_server.errors import RetrievalError
from retrieval_server.types import Evidence, SearchQuery, SearchResult, Status

settings.register_profile("shared_machine", deadline=None)  # a loaded machine is slow, not wrong
settings.load_profile("shared_machine")

ARTICLE = Evidence(
    id="law/刑法@2023-12-29#264",
    source="statute",
    title="中华人民共和国刑法",
    label="第二百六十四条",
    text="盗窃公私财物，数额较大的，或者多次盗窃、入户盗窃、携带凶器盗窃、扒窃的，处三年以下有期徒刑、拘役或者管制。",
    score=1.0,
)


class ToyRetriever:
    """Answers every query with one article and remembers what it was asked."""

    def __init__(self, result: SearchResult | None = None) -> None:
        self.result = result or SearchResult(status=Status.OK, evidence=(ARTICLE,))
        self.queries: list[SearchQuery] = []

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        self.queries.extend(queries)
        return [self.result for _ in queries]


class BrokenRetriever(ToyRetriever):
    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        raise RetrievalError("the Legal Assistant at 127.0.0.1:1 cannot be reached")


class SlowRetriever(ToyRetriever):
    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        await asyncio.sleep(30)
        return await super().search(queries)


@pytest.fixture
def retriever() -> ToyRetriever:
    return ToyRetriever()


@pytest.fixture
def broken_retriever() -> ToyRetriever:
    return BrokenRetriever()


@pytest.fixture
def slow_retriever() -> ToyRetriever:
    return SlowRetriever()


@pytest.fixture
def retriever_of():
    """Makes a toy retriever that gives the same result to every query."""
    return ToyRetriever


@pytest.fixture
def article() -> Evidence:
    return ARTICLE


@pytest.fixture
def question() -> Question:
    reference = Reference(("statute", "stop"), (ARTICLE.id,), ("盗窃公私财物",), ("刑法第264条",))
    return Question("recite-1", "《刑法》第二百六十四条的内容是什么？", "盗窃公私财物", "rouge_l", reference=reference)


@pytest.fixture(scope="session")
def tokenizer():
    """A byte-level BPE with Qwen's special tokens and our template of Qwen3's rules."""
    transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    # Qwen's own pre-tokenisation pattern, so that line breaks and punctuation merge as they do there.
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    from tokenizers import Regex

    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    lines = [
        ARTICLE.text,
        ARTICLE.title,
        '<think>\n\n</think>\n\n<search>{"source": "statute", "query": "刑法"}</search>\n',
    ]
    core.train_from_iterator(
        lines * 20 + ["<tool_response>\n<information>\n[1] </information>\n</tool_response>\n\n"] * 20, trainer
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = QWEN3_TEMPLATE_PATH.read_text(encoding="utf-8")
    return fast


@pytest.fixture(scope="session")
def short_environment() -> EnvConfig:
    """Compact evidence and short turns, with room for the toy tokenizer's longer sequences."""
    return EnvConfig(
        max_turns=4,
        top_k=2,
        evidence_chars=80,
        evidence_style="compact",
        max_response_tokens=768,
        max_turn_tokens=128,
        forced_answer_tokens=128,
        system_prompt="lawyer_system_compact",
    )
