"""A toy world for full-stack training tests: four articles, a retrieval server over them, a tiny model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envs.env import EnvConfig, LegalEnv
from envs.policy import ScriptedPolicy
from envs.records import write_questions, write_rollouts
from envs.rollout import run_rollout
from envs.tokens import QWEN3_TEMPLATE_PATH
from envs.types import Question, Reference, Rollout
from retrieval_server.types import Evidence, SearchQuery, SearchRequest, SearchResponse, SearchResult, Source, Status

ARTICLES = {"第一条": "甲罪处罚金", "第二条": "乙罪处拘役", "第三条": "丙罪处管制", "第四条": "丁罪处徒刑"}
ENVIRONMENT = EnvConfig(
    max_turns=3,
    top_k=1,
    evidence_chars=20,
    evidence_style="compact",
    max_response_tokens=320,
    max_turn_tokens=96,
    forced_answer_tokens=96,
    system_prompt="lawyer_system_compact",
)


def toy_search(query: SearchQuery) -> SearchResult:
    """The article whose label stands in the query."""
    for label, text in ARTICLES.items():
        if label in query.query:
            unit = Evidence(
                id=f"law/试验法@2024-01-01#{label}", source=Source.STATUTE, title="试验法", label=label, text=text
            )
            return SearchResult(status=Status.OK, evidence=(unit,))
    return SearchResult(status=Status.EMPTY)


class ToyRetriever:
    async def search(self, queries):
        return [toy_search(query) for query in queries]


def toy_questions(count: int) -> list[Question]:
    questions = []
    for i in range(count):
        label = list(ARTICLES)[i % len(ARTICLES)]
        reference = Reference(("statute", "stop"), (f"law/试验法@2024-01-01#{label}",), (ARTICLES[label],), (label,))
        questions.append(
            Question(f"toy-{i}", f"{label}是什么？", ARTICLES[label], "exact", family="recite", reference=reference)
        )
    return questions


async def teacher_rollout(question: Question) -> Rollout:
    label = question.text[:3]
    script = [
        f'<think>查{label}</think><search>{{"source": "statute", "query": "{label}"}}</search>',
        f"<think>看{label}</think><answer>{question.answer}</answer>",
    ]
    return await run_rollout(question, ScriptedPolicy(script), LegalEnv(ToyRetriever(), ENVIRONMENT))


@dataclass
class ToyServer:
    """The typed route of the Legal Assistant; `down` makes it answer 503 as a server that is going away does."""

    url: str = ""
    down: bool = False
    queries: list[SearchQuery] = field(default_factory=list)


@pytest.fixture(scope="module")
def toy_server() -> Iterator[ToyServer]:
    import uvicorn
    from fastapi import FastAPI, HTTPException

    from legal_rl.training.process import free_port

    state, app, port = ToyServer(), FastAPI(), free_port()

    @app.post("/v1/search")
    def search(request: SearchRequest) -> SearchResponse:
        if state.down:
            raise HTTPException(503, "going away")
        state.queries += request.queries
        return SearchResponse(results=tuple(toy_search(query) for query in request.queries))

    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    state.url = f"http://127.0.0.1:{port}"
    yield state
    server.should_exit = True
    thread.join(10)


@dataclass(frozen=True)
class ToyWorld:
    """Files that the training stages read."""

    model: Path
    rollouts: Path
    questions: Path


@pytest.fixture(scope="session")
def toy_environment() -> EnvConfig:
    return ENVIRONMENT


@pytest.fixture(scope="session")
def toy_question() -> Question:
    return toy_questions(1)[0]


@pytest.fixture(scope="session")
def toy_world(tmp_path_factory) -> ToyWorld:
    """A 0.3 M parameter Qwen3 with its tokenizer, the teacher's trajectories, and questions."""
    import asyncio

    folder = tmp_path_factory.mktemp("toy world")
    rollouts = [asyncio.run(teacher_rollout(question)) for question in toy_questions(64)]
    write_rollouts(folder / "rollouts.jsonl", rollouts)
    write_questions(folder / "questions.jsonl", toy_questions(16))
    _write_model(folder / "model", [message["content"] for rollout in rollouts for message in rollout.messages])
    return ToyWorld(folder / "model", folder / "rollouts.jsonl", folder / "questions.jsonl")


def _write_model(folder: Path, texts: list[str]) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=448, special_tokens=special, initial_alphabet=alphabet)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = QWEN3_TEMPLATE_PATH.read_text(encoding="utf-8")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=512,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        tie_word_embeddings=True,
        max_position_embeddings=1024,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
