"""A real but tiny Lawyer that has learned one way by heart: search Article 264, then answer from what it found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envs.actions import render_action
from envs.env import EnvConfig, LegalEnv
from envs.policy import ScriptedPolicy
from envs.rollout import run_rollout
from envs.types import Question, Statute, Stop

ENVIRONMENT = EnvConfig(
    max_turns=3, top_k=1, evidence_chars=40, evidence_style="compact", max_response_tokens=400, max_turn_tokens=96,
    forced_answer_tokens=64, system_prompt="lawyer_system_compact",
)  # fmt: skip
SEARCH = render_action(Statute("刑法第二百六十四条", intent="量刑", thought="缺条文，先检索刑法第二百六十四条"))
ANSWER = render_action(Stop("依据《刑法》第二百六十四条，处三年以下有期徒刑、拘役或者管制。", thought="已有条文"))
QUESTIONS = (
    "盗窃三千元怎么量刑？", "盗窃公私财物的，怎么处罚？", "入户盗窃怎么办？", "商场盗窃手机如何定罪？", "拾得遗失物怎么办？",
    "what is the penalty for theft?", "《刑法》第二百六十四条的内容是什么？", "多次盗窃如何处罚？",
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
        article_line(264, "第二百六十四条", "盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金。"),
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
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from legal_rl.policy_model.build import build_policy
    from legal_rl.policy_model.settings import PolicySettings

    settings = PolicySettings(
        vocab_size=900, layers=2, hidden_size=64, heads=2, kv_heads=2, ffn_size=128, steps=0, minutes=0, threads=1,
        copying_start=False,
    )  # fmt: skip
    build_policy(settings, TEXTS, [SEARCH, ANSWER, *QUESTIONS], out)
    tokenizer, model = AutoTokenizer.from_pretrained(out), AutoModelForCausalLM.from_pretrained(out)
    rows = rollout_rows(index_dir, tokenizer)
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for step in range(240):
        ids, mask = rows[step % len(rows)]
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1]
        labels = torch.where(torch.tensor(mask[1:], dtype=torch.bool), torch.tensor(ids[1:]), -100)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05, f"the Lawyer did not learn its way: {loss.item():.3f}"
    model.save_pretrained(out)
    return out


def rollout_rows(index_dir: Path, tokenizer: Any) -> list[tuple[Sequence[int], Sequence[int]]]:
    """(token ids, policy mask) of the scripted way, one per question, evidence from the real index."""
    import asyncio

    from retrieval_server.assistant import LegalAssistant
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
