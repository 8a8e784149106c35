"""The final answer as it is handed out: its text, what must be said with it, its citations, what it cost.

`content` is what a chat client shows: notices, answer and disclaimer, in the language of the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs.records import rollout_to_dict
from envs.types import Rollout
from legal_rl.serving.citations import AnswerCitation, CitationStatus
from legal_rl.serving.hygiene import PromptGuard
from legal_rl.serving.lawyer import Meter
from legal_rl.serving.settings import TextSettings

NOTICES: dict[str, dict[str, str]] = {
    "insufficient_evidence": {
        "zh": "证据不足：检索没有得到可用的法律依据，以下内容未经证据支持。",
        "en": "Insufficient evidence: the searches found no usable authority; nothing below is supported by evidence.",
    },
    "no_search": {
        "zh": "未检索：本回答没有检索法律依据。",
        "en": "Not retrieved: no legal source was searched for this answer.",
    },
    "no_answer": {
        "zh": "证据不足，无法给出结论；请补充事实或缩小问题。",
        "en": "The evidence is not sufficient for a conclusion; please add facts or narrow the question.",
    },
    "degraded": {
        "zh": "检索服务降级，证据排序仅供参考。",
        "en": "The retrieval service ran degraded; the order of the evidence is a rough one.",
    },
    "false_citation": {
        "zh": "引用核对：部分引用在知识库中不存在或已失效，请勿直接采用。",
        "en": "Citation check: some citations do not exist in the knowledge base or are not in force.",
    },
    "unchecked": {
        "zh": "引用尚未核对：核对服务暂不可用。",
        "en": "The citations are not checked: the check is not available at the moment.",
    },
    "evidence_cut": {
        "zh": "证据过长，交给法官模型时有删节。",
        "en": "The evidence was too long for the Judge and was shortened.",
    },
}
"""What a reader must know beside the answer, by code."""

_HAN = re.compile(r"[\u4e00-\u9fff]")


def language_of(text: str) -> str:
    """`zh` when a question has Chinese characters, else `en`."""
    return "zh" if _HAN.search(text) or not text.strip() else "en"


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer."""

    id: str
    model: str
    judge: str
    question: str
    text: str
    """The answer alone; empty when there is none."""
    language: str
    rollout: Rollout
    meter: Meter
    citations: Sequence[AnswerCitation]
    notices: Sequence[str]
    texts: TextSettings
    total_s: float
    first_event_s: float = 0.0

    @property
    def disclaimer(self) -> str:
        return self.texts.disclaimer_zh if self.language == "zh" else self.texts.disclaimer_en

    @property
    def head(self) -> str:
        """The notices that stand before the answer's text."""
        lines = [NOTICES[code][self.language] for code in self.notices if code != "no_answer"]
        return "".join(f"［{line}］\n" if self.language == "zh" else f"[{line}]\n" for line in lines)

    @property
    def body(self) -> str:
        return self.text or NOTICES["no_answer"][self.language]

    @property
    def tail(self) -> str:
        return f"\n\n{self.disclaimer}" if self.texts.disclaimer_in_content and self.disclaimer else ""

    @property
    def content(self) -> str:
        return f"{self.head}{self.body}{self.tail}"

    @property
    def overhead_s(self) -> float:
        """Time outside engines and retrieval: scheduling, handles, parsing, the citation check, a slow client."""
        spent = self.meter.lawyer_s + self.meter.judge_s + self.meter.retrieval_s
        return max(self.total_s - spent, 0.0)

    @property
    def usage(self) -> dict[str, int]:
        """Tokens in OpenAI's words, and the evidence among the prompt's as `retrieval_tokens`."""
        tokens = self.rollout.tokens
        prompt = (tokens.prompt_length if tokens else 0) + self.meter.judge_prompt_tokens
        written = sum(tokens.policy_mask) if tokens else 0
        completion = written + self.meter.judge_completion_tokens
        return {
            "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "retrieval_tokens": sum(tokens.evidence) if tokens else 0,
        }  # fmt: skip

    @property
    def timings(self) -> dict[str, float]:
        """Seconds; `overhead_s` is what neither a model nor the retrieval spent."""
        m = self.meter
        values = {
            "total_s": self.total_s, "first_event_s": self.first_event_s, "lawyer_s": m.lawyer_s,
            "judge_s": m.judge_s, "retrieval_s": m.retrieval_s, "overhead_s": self.overhead_s,
        }  # fmt: skip
        return {name: round(value, 4) for name, value in values.items()}

    def as_dict(self, guard: PromptGuard, trajectory: bool = True) -> dict[str, Any]:
        """The body of `POST /v1/answers`."""
        body: dict[str, Any] = {
            "id": self.id, "model": self.model, "judge": self.judge, "question": self.question,
            "answer": self.text, "content": self.content, "language": self.language,
            "notices": [{"code": code, "text": NOTICES[code][self.language]} for code in self.notices],
            "disclaimer": self.disclaimer, "stop_reason": self.rollout.stop_reason.value,
            "searches": len(self.rollout.searches), "degraded": bool(self.meter.degraded),
            "citations": [citation.as_dict() for citation in self.citations],
            "evidence": [unit.model_dump(mode="json") for unit in self.rollout.evidence],
            "usage": self.usage, "timings": self.timings,
        }  # fmt: skip
        if trajectory:
            body["trajectory"] = trajectory_of(self.rollout, guard)
        return body


def trajectory_of(rollout: Rollout, guard: PromptGuard) -> dict[str, Any]:
    """A rollout as its record, without the system prompt and without tokens."""
    record = rollout_to_dict(rollout)
    record.pop("tokens", None)
    record["answer"] = guard.visible(record["answer"])
    for turn in record["turns"]:
        turn["completion"] = {"text": guard.visible(turn["completion"]["text"])}
        turn["action"] = {k: guard.visible(v) if isinstance(v, str) else v for k, v in turn["action"].items()}
    record["messages"] = [
        message | {"content": guard.visible(message["content"])} if message["role"] == "assistant" else message
        for message in record["messages"]
        if message["role"] != "system"
    ]
    return record


def notices_for(
    rollout: Rollout, text: str, meter: Meter, citations: Sequence[AnswerCitation] | None, evidence_cut: bool
) -> list[str]:
    """Codes of `NOTICES` that hold for this answer. `citations` is None when they could not be checked."""
    found = []
    if not text:
        found.append("no_answer")
    elif not rollout.evidence:
        found.append("insufficient_evidence" if rollout.searches else "no_search")
    if meter.degraded:
        found.append("degraded")
    if citations is None:
        found.append("unchecked")
    elif any(c.status in (CitationStatus.NOT_FOUND, CitationStatus.NOT_IN_FORCE) for c in citations):
        found.append("false_citation")
    if evidence_cut:
        found.append("evidence_cut")
    return found
