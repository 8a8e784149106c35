"""The teacher behind a real endpoint that misbehaves: retries, counts, cache, budget, and a kill in the middle."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from legal_rl.data.pipeline.endpoint import (
    Answer,
    AnswerCache,
    BudgetError,
    EndpointTeacher,
    TeacherEndpoint,
    TeacherError,
)
from legal_rl.data.pipeline.gates import gate1, read_feasibility
from legal_rl.data.pipeline.profiles import builtin_profiles
from legal_rl.data.pipeline.synthesis import ModelTeacher, estimate, load_prompt, make_all, read_synthesis
from legal_rl.data.readers.lines import DataError
from legal_rl.data.readers.sources import SourceText

PROFILE = builtin_profiles()["concept_comprehension"]
Pairs = list[tuple[SourceText, Any]]
Make = Callable[..., ModelTeacher]


@pytest.fixture
def pairs(material: list[SourceText]) -> Pairs:
    return [(source, PROFILE) for source in material[:40]]


@pytest.fixture
def open_caches() -> Iterator[list[AnswerCache]]:
    caches: list[AnswerCache] = []
    yield caches
    for cache in caches:
        cache.close()


@pytest.fixture
def teacher(toy: Any, open_caches: list[AnswerCache]) -> Callable[..., ModelTeacher]:
    """A teacher on a cache; the one before it gives its file up, as at the end of a run."""

    def make(cache: Path, **settings: object) -> ModelTeacher:
        for other in open_caches:
            other.close()
        open_caches.append(AnswerCache(cache))
        endpoint = TeacherEndpoint.model_validate({"base_url": toy.url, "model": "toy", **settings})
        return ModelTeacher(EndpointTeacher(endpoint, open_caches[-1]))

    return make


def test_trouble_is_survived_and_unusable_answers_are_counted(
    toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path
) -> None:
    asked = teacher(tmp_path / "answers.jsonl", concurrency=4)
    outcomes = make_all(pairs, asked)
    assert [o.source_id for o in outcomes] == [s.id for s, _ in pairs], "in their order"
    assert set(toy.failures) == {"429", "500", "dropped"} and asked.endpoint.spending.retried == toy.failures.total()
    reasons = Counter(o.reason for o in outcomes if o.record is None)
    assert reasons["没有定义"] == 1 and {r for r in reasons if r != "没有定义"} <= {
        "invalid JSON: cut off", "invalid JSON", "task mismatch", "missing answer"
    }  # fmt: skip
    assert sum(o.record is not None for o in outcomes) >= 20
    assert toy.temperatures == {0.1} and toy.most_in_work <= 4
    record = next(o.record for o in outcomes if o.record)
    assert [step.stage for step in record.history] == ["gate1", "gate2", "synthesis"]
    assert (record.source, record.licence, record.articles) == ("toy", "MIT", (f"试行法第{record.source_id[2:]}条",))


def test_a_rerun_costs_nothing(toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path) -> None:
    first = make_all(pairs, teacher(tmp_path / "answers.jsonl"))
    paid = toy.sent.total()
    again = teacher(tmp_path / "answers.jsonl")
    assert make_all(pairs, again) == first
    assert toy.sent.total() == paid and again.endpoint.spending.asked == 0
    assert again.endpoint.spending.cached == paid


def test_a_dead_endpoint_is_an_error_and_what_was_paid_stays(
    toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path
) -> None:
    make_all(pairs[:5], teacher(tmp_path / "answers.jsonl"))
    toy.down = True
    with pytest.raises(TeacherError, match=r"failed after 1 retries.*run the same command again"):
        make_all(pairs, teacher(tmp_path / "answers.jsonl", max_retries=1))
    toy.down = False
    assert len(make_all(pairs, teacher(tmp_path / "answers.jsonl"))) == 40
    assert max(toy.sent.values()) == 1


def test_the_budget_stops_the_run(toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path) -> None:
    """Whatever is on its way counts with all it may still cost, and a second run starts from what is spent."""
    settings = {"max_tokens": 100, "concurrency": 8}
    asked = teacher(tmp_path / "answers.jsonl", token_budget=4_000, **settings)
    with pytest.raises(BudgetError, match="token budget of 4,000 used up"):
        make_all(pairs, asked)
    spending = asked.endpoint.spending
    assert 2_400 < spending.tokens_in + spending.tokens_out <= 4_000
    assert toy.sent.total() * 120 == spending.tokens_in + spending.tokens_out, "all that was paid is kept"
    sent = toy.sent.total()
    with pytest.raises(BudgetError):
        make_all(pairs, teacher(tmp_path / "answers.jsonl", token_budget=4_000, **settings))
    assert toy.sent.total() == sent


def test_the_estimate_is_made_before_the_run(toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path) -> None:
    endpoint = TeacherEndpoint(base_url=toy.url, model="toy", price_in=2.0, price_out=8.0)
    cost = estimate(pairs, endpoint, set())
    assert cost["requests"] == 80 and toy.attempts.total() == 0
    assert cost["cost"] == round((cost["tokens_in"] * 2 + cost["tokens_out"] * 8) / 1e6, 4)
    make_all(pairs, teacher(tmp_path / "answers.jsonl"))
    cached = set(AnswerCache(tmp_path / "answers.jsonl", read_only=True).answers)
    left = estimate(pairs, endpoint, cached)
    assert left["requests"] == 1, "the infeasible pair was never asked for a question"


def test_a_torn_line_of_the_cache_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    cache = AnswerCache(path)
    cache.put("a", Answer("甲"))
    cache.put("b", Answer("乙", "length", 3, 4))
    cache.close()
    path.write_bytes(path.read_bytes()[:-5])
    again = AnswerCache(path)
    assert again.answers == {"a": Answer("甲")}
    again.put("b", Answer("乙"))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_a_damaged_line_and_a_second_writer_are_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    cache = AnswerCache(path)
    cache.put("a", Answer("\ud83d", "stop", 3, 4))
    with pytest.raises(DataError, match="another run is writing to it"):
        AnswerCache(path)
    assert AnswerCache(path, read_only=True).answers == {"a": Answer("\ud83d", "stop", 3, 4)}
    cache.close()
    with path.open("a", encoding="utf-8") as out:
        out.write('{"key": "b"\n{"key": "c", "text": "乙"}\n')
    with pytest.raises(DataError, match=r"answers\.jsonl, line 2: not an answer of the teacher"):
        AnswerCache(path)
    assert not (tmp_path / "none").exists() and AnswerCache(tmp_path / "none" / "a", read_only=True).answers == {}
    assert not (tmp_path / "none").exists()


def test_the_same_request_at_the_same_time_is_sent_once(toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path) -> None:
    toy.delay_s = 0.05
    asked = teacher(tmp_path / "answers.jsonl")
    outcomes = make_all([pairs[0]] * 6, asked)
    assert len({(o.reason, o.record) for o in outcomes}) == 1
    assert set(toy.sent.values()) == {1} and asked.endpoint.spending.asked == toy.sent.total() <= 2
    assert asked.endpoint.spending.shared >= 5


def test_replies_that_are_no_completions_are_asked_again(toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path) -> None:
    """HTML, cut-off JSON and missing choices with status 200; half a surrogate pair is an answer, but no text."""
    expected = make_all(pairs, teacher(tmp_path / "straight.jsonl"))
    toy.attempts.clear()
    toy.garbled = True
    assert make_all(pairs, teacher(tmp_path / "answers.jsonl")) == expected
    assert {name for name in toy.failures if "garbled" in name} >= {"garbled 4", "garbled 5"}
    toy.attempts.clear()
    with pytest.raises(TeacherError, match=r"failed after 0 retries: .*run the same command again"):
        make_all(pairs, teacher(tmp_path / "none.jsonl", max_retries=0))


def test_the_first_error_stops_new_requests_and_keeps_those_on_their_way(
    toy: Any, pairs: Pairs, teacher: Make, tmp_path: Path
) -> None:
    toy.delay_s = 0.05
    asked = teacher(tmp_path / "answers.jsonl", max_retries=0, concurrency=4)
    with pytest.raises(TeacherError):
        make_all(pairs, asked)
    assert toy.sent.total() == len(asked.endpoint.cache.answers), "what was paid is kept"
    assert toy.attempts.total() < 30, "nothing is sent after the error"


def test_what_a_teacher_may_answer() -> None:
    assert read_feasibility({"feasible": True, "reason": "有"}).passed
    silent = read_feasibility({"feasible": False, "reason": " \n"})
    assert not silent.passed and silent.reason == "gate 2: refused without a reason"  # no row without its reason
    assert not read_feasibility({"feasible": "yes"}).passed and not read_feasibility(None).passed
    good = {"task": PROFILE.id, "question": " 何谓留置？ ", "answer": "扣留财产"}
    assert read_synthesis(good, PROFILE) == ({"question": "何谓留置？", "answer": "扣留财产"}, "")
    for change, reason in (
        ({"task": "x"}, "task mismatch"),
        ({"question": ""}, "missing question"),
        ({"answer": 3}, "missing answer"),
    ):
        assert read_synthesis({**good, **change}, PROFILE) == (None, reason)


def test_gate_1_by_hand() -> None:
    source = SourceText("a", "statute", "甲" * 30, metadata={"law": "刑法", "label": "第一条"})
    profiles = builtin_profiles()
    assert gate1(source, profiles["clause_recall"]).passed
    assert gate1(source, profiles["sentence_prediction"]).reason == "material of kind statute, the task needs judgment"
    fact = SourceText("b", "fact", "甲" * 30, metadata={"charges": ["盗窃罪"]})
    assert gate1(fact, profiles["charge_with_law"]).reason == "metadata lacks articles"
    short = SourceText("c", "fact", "甲", metadata={"charges": ["盗窃罪"]})
    assert gate1(short, profiles["charge_prediction"]).reason == "1 characters, the task takes 20 to 6000"


def test_prompts_are_filled() -> None:
    assert {"task", "text"} <= set(load_prompt("synthesis").get_identifiers())


@pytest.mark.slow
def test_a_killed_build_ends_as_a_straight_one_and_pays_nothing_twice(toy: Any, sources: Path, tmp_path: Path) -> None:
    toy.delay_s = 0.02

    def command(out: Path) -> list[str]:
        return [
            sys.executable, "-m", "legal_rl", "data", "build", str(out), "--without-benchmarks", "--json",
            "--source", str(sources), "--profile", "concept_comprehension", "--records", "50",
            "--teacher-url", toy.url, "--teacher-model", "toy", "--concurrency", "4",
        ]  # fmt: skip

    done = subprocess.run(command(tmp_path / "straight"), capture_output=True, text=True, timeout=1_200)
    assert done.returncode == 0, done.stderr[-2000:]
    toy.attempts.clear(), toy.sent.clear()
    killed = tmp_path / "killed"
    for stop_at in sorted(random.Random().sample(range(5, 70), 2)):
        process = subprocess.Popen(command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while toy.sent.total() < stop_at and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.3)
        assert not (killed / "manifest.json").exists()
    again = subprocess.run(command(killed), capture_output=True, text=True, timeout=1_200)
    assert again.returncode == 0, again.stderr[-2000:]
    for name in ("records.jsonl", "discarded.jsonl", "train.questions.jsonl", "manifest.json", "README.md"):
        assert (killed / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name
    keys = [json.loads(line)["key"] for line in (killed / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(keys) == len(set(keys)), "every answer is stored once"
    assert set(keys) == set(toy.sent)
    assert sum(n - 1 for n in toy.sent.values()) <= 2 * 4, "only what was on its way at a kill is asked again"
