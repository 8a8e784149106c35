"""JSON Lines of rollouts and questions: round trip, faults by file, line and field, appending, atomic writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.env import EnvConfig, LegalEnv
from envs.errors import RecordError
from envs.policy import ScriptedPolicy
from envs.records import (
    RolloutWriter,
    question_from_dict,
    question_to_dict,
    read_questions,
    read_rollouts,
    rollout_from_dict,
    rollout_to_dict,
    write_questions,
    write_rollouts,
)
from envs.rollout import run_rollout
from envs.types import (
    Completion,
    Malformed,
    Precedent,
    Question,
    Reference,
    Rollout,
    Statute,
    Stop,
    StopReason,
    TokenRecord,
    Turn,
)
from retrieval_server.types import Evidence, SearchResult

short = st.text(max_size=12)
finite = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
words = st.lists(short, max_size=3).map(tuple)
references = st.builds(Reference, actions=words, evidence_ids=words, key_spans=words, queries=words)
questions = st.builds(
    Question, id=short, text=short, answer=short, choices=words, reference=st.none() | references,
    as_of=st.none() | st.just("2020-01-02"), metadata=st.dictionaries(short, short, max_size=2),
)  # fmt: skip
actions = st.one_of(
    st.builds(Statute, query=short, intent=short, thought=short, kind=st.just("statute")),
    st.builds(Precedent, query=short, circumstances=short, charge=short, thought=short, kind=st.just("precedent")),
    st.builds(Stop, answer=short, thought=short, kind=st.just("stop")),
    st.builds(Malformed, reason=short, kind=st.just("malformed")),
)
completions = st.builds(
    Completion, text=short, token_ids=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    logprobs=st.lists(finite, max_size=3).map(tuple), finish_reason=st.sampled_from(["stop", "length"]),
)  # fmt: skip
evidence = st.builds(Evidence, id=short, source=st.sampled_from(["statute", "precedent"]), title=short, text=short)
results = st.builds(SearchResult, status=st.just("ok"), evidence=st.lists(evidence, max_size=2).map(tuple))
turns = st.builds(
    Turn, index=st.integers(0, 5), completion=completions, action=actions, result=st.none() | results,
    observation=short, forced=st.booleans(), policy_s=finite, tool_s=finite,
)  # fmt: skip
tokens = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 2), finite, st.integers(-1, 3), st.booleans()), max_size=4
).map(
    lambda rows: TokenRecord(*(tuple(row[i] for row in rows) for i in range(5)))  # type: ignore[arg-type]
)
rollouts = st.builds(
    Rollout, question=questions, turns=st.lists(turns, max_size=3).map(tuple), stop_reason=st.sampled_from(StopReason),
    answer=short, messages=st.lists(st.fixed_dictionaries({"role": short, "content": short}), max_size=2).map(tuple),
    tokens=st.none() | tokens, error=short, elapsed_s=finite,
)  # fmt: skip


@given(rollouts)
def test_round_trip_through_json(rollout: Rollout) -> None:
    data = json.loads(json.dumps(rollout_to_dict(rollout)))
    assert rollout_from_dict(data) == rollout


@given(questions)
def test_question_round_trip_through_json(question: Question) -> None:
    assert question_from_dict(json.loads(json.dumps(question_to_dict(question)))) == question


@pytest.fixture
async def rollout(question: Question, retriever: Any, tokenizer: Any, short_environment: EnvConfig) -> Rollout:
    policy = ScriptedPolicy(['<search>{"source": "statute", "query": "刑法"}</search>', "乱", "<answer>A</answer>"])
    return await run_rollout(question, policy, LegalEnv(retriever, short_environment), tokenizer)


def test_real_rollout_round_trip(rollout: Rollout, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "rollouts.jsonl"
    assert write_rollouts(path, [rollout, rollout]) == 2
    assert list(read_rollouts(path)) == [rollout, rollout]
    assert path.read_text(encoding="utf-8").startswith('{"schema_version":1,"question":{')
    assert [file.name for file in path.parent.iterdir()] == ["rollouts.jsonl"]


def test_questions_file(question: Question, tmp_path: Path) -> None:
    assert write_questions(tmp_path / "q.jsonl", [question]) == 1
    assert list(read_questions(tmp_path / "q.jsonl")) == [question]


def test_a_failing_source_leaves_the_old_file(rollout: Rollout, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_rollouts(path, [rollout])

    def failing():
        yield rollout
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        write_rollouts(path, failing())
    assert list(read_rollouts(path)) == [rollout] and len(list(tmp_path.iterdir())) == 1


def test_writer_appends_and_is_readable_while_open(rollout: Rollout, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "r.jsonl"
    with RolloutWriter(path) as writer:
        writer.write(rollout)
        assert list(read_rollouts(path)) == [rollout]
    with RolloutWriter(path) as writer:
        writer.write(rollout)
    assert list(read_rollouts(path)) == [rollout, rollout]


def test_torn_last_line(rollout: Rollout, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_rollouts(path, [rollout])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"question": {"id"')
    with pytest.raises(RecordError, match=r"r\.jsonl:2: no JSON object"):
        list(read_rollouts(path))
    assert list(read_rollouts(path, allow_torn_end=True)) == [rollout]
    with RolloutWriter(path) as writer:
        writer.write(rollout)
    assert list(read_rollouts(path)) == [rollout, rollout]


def change(data: dict, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        data = data[int(name)] if isinstance(data, list) else data[name]
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("schema_version", 2, "schema_version"),
        ("surprise", 1, "surprise"),
        ("turns", 3, "turns"),
        ("turns.0.action.kind", "web", r"turns\[0\]\.action\.kind"),
        ("turns.1.action", {"kind": "stop"}, r"turns\[1\]\.action\.answer"),
        ("turns.0.extra", 1, r"turns\[0\]\.extra"),
        ("turns.0.completion", None, r"turns\[0\]\.completion"),
        ("turns.0.result", {"status": "fine"}, r"turns\[0\]\.result\.status"),
        ("question.surprise", 1, r"question\.surprise"),
        ("question.id", 7, r"question\.id"),
        ("question", [], "record"),
        ("stop_reason", "tired", "stop_reason"),
        ("tokens.turn", "x", r"tokens\.turn"),
    ],
)
def test_faults_name_file_line_and_field(rollout: Rollout, tmp_path: Path, path: str, value: Any, field: str) -> None:
    data = json.loads(json.dumps(rollout_to_dict(rollout)))
    change(data, path, value)
    file = tmp_path / "bad.jsonl"
    good = json.dumps(rollout_to_dict(rollout))
    file.write_text(f"{good}\n\n{json.dumps(data)}\n", encoding="utf-8")
    with pytest.raises(RecordError, match=rf"bad\.jsonl:3: field '{field}'"):
        list(read_rollouts(file))


@pytest.mark.parametrize("name", ["question", "stop_reason"])
def test_missing_fields_are_named(rollout: Rollout, name: str) -> None:
    data = rollout_to_dict(rollout)
    del data[name]
    with pytest.raises(RecordError, match=f"field '{name}': missing"):
        rollout_from_dict(data)


def test_other_faults(tmp_path: Path, rollout: Rollout) -> None:
    with pytest.raises(RecordError, match="cannot be opened"):
        list(read_rollouts(tmp_path / "none.jsonl"))
    (tmp_path / "list.jsonl").write_text("[]\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"list\.jsonl:1: field 'record'"):
        list(read_rollouts(tmp_path / "list.jsonl"))
    data = rollout_to_dict(rollout)
    data["turns"][0] = 5
    with pytest.raises(RecordError, match=r"turns\[0\]"):
        rollout_from_dict(data)
