"""The teacher through the real Assistant: right, marked where imperfect on purpose, resumable, loud on an outage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from envs.env import EnvConfig
from envs.records import read_questions, read_rollouts, write_rollouts
from envs.types import Question, Rollout, StopReason
from legal_rl.data.questions import QuestionSets
from legal_rl.data.settings import TeacherSettings
from legal_rl.data.synthesize import finished, reason_to_drop, synthesize
from legal_rl.data.teacher import choose_imperfection
from legal_rl.errors import StageError
from retrieval_server.assistant import LegalAssistant
from retrieval_server.errors import RetrievalError
from retrieval_server.types import SearchQuery, SearchResult
from rewards.graders import grade


class Outage:
    """A Retriever that answers a number of queries and then cannot be reached."""

    def __init__(self, inner: LegalAssistant, answers: int) -> None:
        self.inner, self.left = inner, answers

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        if self.left < len(queries):
            raise RetrievalError("connection refused")
        self.left -= len(queries)
        return await self.inner.search(queries)


@pytest.fixture
def few(sets: QuestionSets) -> QuestionSets:
    """One question in four of the train part, nothing else."""
    return replace(sets, train=sets.train[::4], grpo=(), dev=(), test=())


def _untimed(path: Path) -> list[tuple[object, ...]]:
    """What a trajectory file says, clock readings aside, in the order of the questions."""
    return sorted((r.question.id, r.messages, r.answer, r.stop_reason) for r in read_rollouts(path))


def test_the_perfect_teacher_is_right_on_almost_all(synthesis: Path) -> None:
    manifest = json.loads((synthesis / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["test"]["teacher_accuracy"] >= 0.85
    assert manifest["test"]["questions"] == 84


def test_no_trajectory_for_sft_is_wrong(synthesis: Path) -> None:
    rollouts = list(read_rollouts(synthesis / "sft.rollouts.jsonl"))
    assert len(rollouts) > 100
    assert all(grade(r.question.grader, r.answer, r.question.answer) >= 0.999 for r in rollouts)


def test_kept_and_dropped_are_all(synthesis: Path, sets: QuestionSets) -> None:
    dropped = [json.loads(line) for line in (synthesis / "dropped.jsonl").read_text(encoding="utf-8").splitlines()]
    kept = [r.question.id for r in read_rollouts(synthesis / "sft.rollouts.jsonl")]
    assert all(row["reason"] for row in dropped)
    assert sorted([*kept, *(row["id"] for row in dropped)]) == sorted(q.id for q in sets.train)


def test_imperfect_trajectories_are_marked_and_really_detour(synthesis: Path) -> None:
    rollouts = list(read_rollouts(synthesis / "sft.all.jsonl"))
    marked = [r for r in rollouts if "imperfection" in r.question.metadata]
    assert {r.question.metadata["imperfection"] for r in marked} == {
        "needless",
        "repeated",
        "vague",
        "wrong_source",
        "memory",
    }
    assert all(_strays(r) for r in marked)
    assert 0.25 < len(marked) / len(rollouts) < 0.55, "configured: 0.4, and 0.2 where no search is needed"


def _strays(rollout: Rollout) -> bool:
    """More searches than needed, or none where the perfect teacher would have made one."""
    if rollout.question.metadata["imperfection"] == "memory":
        return not rollout.searches and rollout.question.family != "no_retrieval"
    least = 1 if rollout.question.family == "no_retrieval" else 2
    return len(rollout.searches) >= least or (rollout.question.metadata["imperfection"] == "vague")


def test_from_memory_is_right_and_its_own_habit(synthesis: Path) -> None:
    remembered = [
        r for r in read_rollouts(synthesis / "sft.all.jsonl") if r.question.metadata.get("imperfection") == "memory"
    ]
    assert remembered
    assert all(r.answer == r.question.answer and not reason_to_drop(r) for r in remembered)
    assert all("凭记忆" in r.turns[0].completion.text for r in remembered)


def test_imperfections_occur_at_their_rates(sets: QuestionSets) -> None:
    questions = [replace(sets.train[0], id=f"recite-{n}") for n in range(4_000)]
    settings = TeacherSettings(repeated_search=0.1, vague_query=0.2, wrong_source=0.05, from_memory=0.15)
    kinds = [choose_imperfection(question, settings) for question in questions]
    for kind, rate in (("repeated", 0.1), ("vague", 0.2), ("wrong_source", 0.05), ("memory", 0.15), ("", 0.5)):
        assert abs(kinds.count(kind) / 4_000 - rate) < 0.03
    assert {choose_imperfection(question, TeacherSettings.perfect()) for question in questions} == {""}


def test_references_are_the_perfect_teachers_actions(synthesis: Path) -> None:
    for question in read_questions(synthesis / "grpo.questions.jsonl"):
        assert question.reference is not None and question.reference.actions[-1] == "stop"
        searches = question.reference.num_searches
        assert searches == (0 if question.family == "no_retrieval" else searches)
        assert len(question.reference.queries) == searches


def test_the_same_trajectories_twice(
    few: QuestionSets, assistant: LegalAssistant, tmp_path: Path, quickstart_environment: EnvConfig
) -> None:
    for name in ("a", "b"):
        synthesize(few, assistant, quickstart_environment, tmp_path / name)
    assert _untimed(tmp_path / "a" / "sft.rollouts.jsonl") == _untimed(tmp_path / "b" / "sft.rollouts.jsonl")
    assert (tmp_path / "a" / "train.questions.jsonl").read_bytes() == (
        tmp_path / "b" / "train.questions.jsonl"
    ).read_bytes()


def test_resumes_after_a_torn_line(
    few: QuestionSets, assistant: LegalAssistant, tmp_path: Path, quickstart_environment: EnvConfig
) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    synthesize(few, assistant, quickstart_environment, whole)
    lines = (whole / "sft.all.jsonl").read_bytes().splitlines(keepends=True)
    torn.mkdir()
    (torn / "sft.all.jsonl").write_bytes(b"".join(lines[:20]) + lines[20][:50])
    played: list[int] = []
    synthesize(few, assistant, quickstart_environment, torn, progress=lambda name, done, total: played.append(done))
    assert played == list(range(21, len(few.train) + 1))
    assert _untimed(torn / "sft.rollouts.jsonl") == _untimed(whole / "sft.rollouts.jsonl")


def test_a_changed_question_is_played_again(tmp_path: Path) -> None:
    old, new = Question("recite-train-0000", "旧题", "甲"), Question("recite-train-0000", "新题", "乙")
    same, path = Question("recite-train-0001", "题", "丙", metadata={"imperfection": "vague"}), tmp_path / "a.jsonl"
    write_rollouts(path, [Rollout(question, (), StopReason.ANSWER) for question in (old, same)])
    assert list(finished(path, [new, same])) == ["recite-train-0001"]
    assert list(finished(path, [old, replace(same, metadata={})])) == ["recite-train-0000"]
    assert finished(tmp_path / "none.jsonl", [old]) == {}


def test_an_outage_stops_the_stage_and_keeps_what_is_done(
    sets: QuestionSets, assistant: LegalAssistant, tmp_path: Path, quickstart_environment: EnvConfig
) -> None:
    several = replace(sets, train=sets.train[:100], grpo=(), dev=(), test=())
    with pytest.raises(StageError, match="connection refused"):
        synthesize(several, Outage(assistant, 75), quickstart_environment, tmp_path)
    assert list(read_rollouts(tmp_path / "sft.all.jsonl"))
    assert not (tmp_path / "manifest.json").exists()
    assert not (tmp_path / "sft.rollouts.jsonl").exists()
    manifest = synthesize(several, assistant, quickstart_environment, tmp_path)
    assert sum(manifest["sft"]["kept"].values()) + sum(manifest["sft"]["dropped"].values()) == 100
