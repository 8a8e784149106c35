"""A real but tiny Lawyer that has learned one way by heart: search Article 264, then answer from what it found."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from envs.actions import render_action
from envs.env import EnvConfig, LegalEnv
from envs.errors import PolicyError
from envs.policy import Budget, ChatEndpoint, ScriptedPolicy
from envs.rollout import run_rollout
from envs.tokens import Dialogue
from envs.types import Completion, Question, Statute, Stop
from legal_rl.serving.answerer import Answerer
from legal_rl.serving.api import create_app
from legal_rl.serving.knowledge import LocalKnowledge
from legal_rl.serving.lawyer import Meter
from legal_rl.serving.settings import JudgeSettings, ServeConfig
from retrieval_server.assistant import LegalAssistant
from retrieval_server.errors import RetrievalError
from retrieval_server.types import CitedArticle, SearchQuery, SearchResult

ENVIRONMENT = EnvConfig(
    max_turns=3, top_k=1, evidence_chars=40, evidence_style="compact", max_response_tokens=400, max_turn_tokens=96,
    forced_answer_tokens=64, system_prompt="lawyer_system_compact",
)  # fmt: skip
SEARCH = render_action(Statute("刑法第二百六十四条", intent="量刑", thought="缺条文，先检索刑法第二百六十四条"))
ANSWER = render_action(Stop("依据《刑法》第二百六十四条，处三年以下有期徒刑、拘役或者管制。", thought="已有条文"))
QUESTIONS = (
    "盗窃三千元怎么量刑？", "盗窃公私财物的，怎么处罚？", "入户盗窃怎么办？", "商场盗窃手机如何定罪？",
    "拾得遗失物怎么办？", "what is the penalty for theft?", "刑法第二百六十四条是什么？", "多次盗窃如何处罚？",
)  # fmt: skip
TEXTS = [f"第{n}条 盗窃公私财物，处罚金{n}元，法律另有规定的除外。" for n in range(1, 40)]


def article_line(number: int, label: str, text: str) -> str:
    record = {
        "id": f"law/刑法@2023-12-29#{number}", "kind": "law", "law_title": "中华人民共和国刑法", "law_key": "刑法",
        "version_date": "2023-12-29", "effective_date": "2023-12-29", "article_no": number, "article_label": label,
        "text": text,
    }  # fmt: skip
    return json.dumps(record, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Parts:
    """What an application is made of."""

    model: Path
    index: Path
    environment: EnvConfig

    def settings(self, **more: Any) -> dict[str, Any]:
        """A `ServeConfig` as plain values."""
        engine = {"max_model_len": 1024, "kv_cache_gib": 0.25, "threads": 1}
        return {
            "lawyer": {"path": str(self.model), "engine": engine, "num_cpus": 0.1},
            "retrieval": {"index_dir": str(self.index), "num_cpus": 0.1},
            "environment": self.environment.model_dump(mode="json"),
            "app_cpus": 0.1,
            "port": 0,
            **more,
        }


@pytest.fixture(scope="session")
def index_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from retrieval_server.index import build_index

    folder = tmp_path_factory.mktemp("serving")
    lines = [
        article_line(
            264, "第二百六十四条", "盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金。"
        ),
        article_line(266, "第二百六十六条", "诈骗公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制。"),
        *(article_line(n, f"第{n}条", text) for n, text in enumerate(TEXTS[:20], start=1)),
    ]
    (folder / "norms.jsonl").write_text("".join(lines), encoding="utf-8")
    build_index(folder / "index", [str(folder / "norms.jsonl")], ["generated:count=4"], "none")
    return folder / "index"


@pytest.fixture(scope="session")
def parts(index_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Model, index and environment; the model plays SEARCH, then ANSWER, whatever it is asked."""
    return Parts(memorised(index_dir, tmp_path_factory.mktemp("lawyer") / "model"), index_dir, ENVIRONMENT)


def memorised(index_dir: Path, out: Path) -> Path:
    from transformers import AutoTokenizer

    from legal_rl.policy_model.build import build_policy
    from legal_rl.policy_model.settings import PolicySettings

    settings = PolicySettings(
        vocab_size=900, layers=2, hidden_size=64, heads=2, kv_heads=2, ffn_size=128, steps=0, minutes=0, threads=1,
        copying_start=False,
    )  # fmt: skip
    build_policy(settings, TEXTS, [SEARCH, ANSWER, *QUESTIONS], out)
    learn(out, rollout_rows(index_dir, AutoTokenizer.from_pretrained(out)), steps=240)
    return out


def learn(folder: Path, rows: Sequence[tuple[Sequence[int], Sequence[int]]], steps: int) -> None:
    """Teach a model folder its rows (ids, mask) by heart."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for step in range(steps):
        ids, mask = rows[step % len(rows)]
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1]
        labels = torch.where(torch.tensor(mask[1:], dtype=torch.bool), torch.tensor(ids[1:]), -100)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05, f"the rows were not learnt: {loss.item():.3f}"
    model.save_pretrained(folder)


@pytest.fixture(scope="session")
def rambler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows one sentence and says it again and again, without an end."""
    from transformers import AutoTokenizer

    from legal_rl.policy_model.build import build_policy
    from legal_rl.policy_model.settings import PolicySettings

    folder = tmp_path_factory.mktemp("rambler") / "model"
    settings = PolicySettings(
        vocab_size=400, layers=2, hidden_size=64, heads=2, kv_heads=2, ffn_size=64, steps=0, minutes=0, threads=1,
        max_positions=8192, copying_start=False,
    )  # fmt: skip
    build_policy(settings, ["第一条 盗窃公私财物的，处罚金一千元以上。"], ["<answer>第一条</answer>"], folder)
    ids = AutoTokenizer.from_pretrained(folder)("盗窃公私财物的，处罚金。" * 20, add_special_tokens=False)["input_ids"]
    learn(folder, [(ids, [1] * len(ids))], steps=80)
    return folder


def rollout_rows(index_dir: Path, tokenizer: Any) -> list[tuple[Sequence[int], Sequence[int]]]:
    """(token ids, policy mask) of the scripted way, one per question, evidence from the real index."""
    from retrieval_server.index import open_index

    assistant = LegalAssistant(open_index(index_dir))

    async def play() -> list[tuple[Sequence[int], Sequence[int]]]:
        rows = []
        for number, text in enumerate(QUESTIONS):
            env = LegalEnv(assistant, ENVIRONMENT)
            rollout = await run_rollout(
                Question(f"q{number}", text, ""), ScriptedPolicy([SEARCH, ANSWER]), env, tokenizer
            )
            assert rollout.tokens is not None and rollout.answer
            rows.append((rollout.tokens.token_ids, rollout.tokens.policy_mask))
        return rows

    return asyncio.run(play())


# -- the application without Ray: scripted Lawyers for unit tests, next to the real ones above -------------------------


class TextJudge:
    """A Judge that says given texts in turn, in pieces."""

    def __init__(self, *texts: str, room: int = 10**9, pause_s: float = 0.0, step: int = 4) -> None:
        self.texts, self.room, self.pause_s, self.step = list(texts), room, pause_s, step
        self.prompts: list[str] = []
        endpoint = ChatEndpoint(base_url="http://127.0.0.1:9/v1", model="toy")
        self.settings = JudgeSettings(endpoint=endpoint, evidence_chars=200)

    def fits(self, prompt: str) -> bool:
        return len(prompt) <= self.room

    async def stream(self, prompt: str, session: str, deadline_s: float, meter: Meter) -> AsyncIterator[str]:
        self.prompts.append(prompt)
        text = self.texts[min(len(self.prompts), len(self.texts)) - 1]
        if text == "!":
            raise PolicyError("toy Judge failed")
        for end in range(self.step, len(text) + self.step, self.step):
            await asyncio.sleep(self.pause_s)
            yield text[:end]


class SlowPolicy:
    """Plays a script slowly; counts the turns that were cancelled in the middle."""

    def __init__(self, turns: Sequence[str], pause_s: float) -> None:
        self.turns, self.pause_s, self.cancelled, self.started = turns, pause_s, 0, 0

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        self.started += 1
        try:
            await asyncio.sleep(self.pause_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Completion(self.turns[min(budget.turn, len(self.turns) - 1)])


class EveryQuestion:
    """A scripted policy that starts over for every question."""

    def __init__(self, *turns: str) -> None:
        self.turns = turns

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        return Completion(self.turns[min(budget.turn, len(self.turns) - 1)])


class BrokenKnowledge(LocalKnowledge):
    """A Legal Assistant that is away, wholly or for citations only."""

    def __init__(self, assistant: LegalAssistant, only_citations: bool = False) -> None:
        super().__init__(assistant)
        self.only_citations = only_citations

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        if self.only_citations:
            return await super().search(queries)
        raise RetrievalError("the Legal Assistant went away")

    async def citations(self, text: str, as_of: date | None = None) -> list[CitedArticle]:
        raise RetrievalError("the Legal Assistant went away")

    async def ready(self) -> str:
        return "" if self.only_citations else "the Legal Assistant went away"


@pytest.fixture(scope="session")
def toys() -> SimpleNamespace:
    """The scripted parts; test modules cannot import them from here."""
    return SimpleNamespace(
        Judge=TextJudge, Slow=SlowPolicy, Every=EveryQuestion, Broken=BrokenKnowledge, search=SEARCH, answer=ANSWER,
        running=running,
    )  # fmt: skip


@pytest.fixture(scope="session")
def assistant(index_dir: Path) -> LegalAssistant:
    from retrieval_server.index import open_index

    return LegalAssistant(open_index(index_dir))


def config_of(index_dir: Path, **more: Any) -> ServeConfig:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "toy"}
    environment = {"max_turns": 3, "top_k": 2, "system_prompt": "lawyer_system"}
    base = {"lawyer_endpoint": endpoint, "retrieval": {"index_dir": str(index_dir)}, "environment": environment}
    return ServeConfig.model_validate({**base, **more})


@pytest.fixture
def answerer_of(index_dir: Path, assistant: LegalAssistant) -> Callable[..., Answerer]:
    """`answerer_of(policy, judges={...}, knowledge=..., **config)`."""

    def make(policy: Any, judges: dict[str, Any] | None = None, knowledge: Any = None, **more: Any) -> Answerer:
        named = {name: judge.settings.model_dump(mode="json") for name, judge in (judges or {}).items()}
        config = config_of(index_dir, judges=named, **more)
        return Answerer(config, knowledge or LocalKnowledge(assistant), policy, None, judges)

    return make


@pytest.fixture
def serve(answerer_of: Callable[..., Answerer]) -> Iterator[Callable[..., str]]:
    """As `answerer_of`, running under a real uvicorn; gives the URL."""
    with contextlib.ExitStack() as stack:

        def start(policy: Any, **more: Any) -> str:
            answerer = answerer_of(policy, **more)
            return stack.enter_context(running(create_app(answerer, answerer.config)))

        yield start


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
