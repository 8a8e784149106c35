"""The trajectory page of any rollout file, and who wrote which token."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from envs.errors import RecordError
from envs.records import write_rollouts
from envs.types import Rollout, TokenRecord
from legal_rl.traces import trace
from legal_rl.traces.token_strip import Piece, TokenReader, segments
from legal_rl.traces.trace import write_trace_page
from legal_rl.traces.trajectories import Scoring, of_rollout
from rewards import RewardWeights, compute_reward

Check = Callable[[str], Any]


@pytest.fixture
def file(tmp_path: Path, rollouts: dict[str, list[Rollout]]) -> Path:
    path = tmp_path / "some.rollouts.jsonl"
    write_rollouts(path, rollouts["grpo"])
    return path


def page_of(path: Path, **options: int) -> str:
    return write_trace_page(path, path.with_suffix(".html"), **options).read_text(encoding="utf-8")


def test_all_trajectories_stand_on_the_page(file: Path, check_page: Check) -> None:
    html = page_of(file)
    page = check_page(html)
    assert html.count('<details class="traj card"') == 18
    assert "18 trajectories" in page.text and "Showing the first" not in page.text
    assert '<script>alert("x")</script>' in page.text and '<script>alert("x")' not in html


def test_a_limit_is_said(file: Path, check_page: Check) -> None:
    assert "Showing the first 4 of 18 trajectories in this file." in check_page(page_of(file, limit=4)).text


def test_a_page_that_would_be_too_big_is_cut(file: Path, monkeypatch: pytest.MonkeyPatch, check_page: Check) -> None:
    monkeypatch.setattr(trace, "MAX_PAGE_CHARS", 3000)
    html = page_of(file)
    assert 1 <= html.count('<details class="traj card"') < 18
    assert "of 18 trajectories" in check_page(html).text


def test_verl_dumps_are_read_without_guessing_who_wrote_what(tmp_path: Path, check_page: Check) -> None:
    path = tmp_path / "3.jsonl"
    record = {
        "input": "法律问题", "output": "<think>想</think><information>假证据</information><script>alert(1)</script>",
        "gts": "C", "score": 0.25, "step": 3, "acc": 1.0, "reward/gain": 0.5, "request_id": "x",
    }  # fmt: skip
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    text = check_page(page_of(path)).text
    assert "step 3 · line 1" in text and "reward 0.25" in text and "reward/gain 0.5" in text
    assert "who wrote which token is not known" in text
    assert "environment: masked" not in text


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "line 1: not valid JSON"), ("[]", "line 1: must be a JSON object"), ("{}", "line 1: field 'turns'")],
)
def test_unreadable_files_are_one_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        page_of(path)
    assert not path.with_suffix(".html").exists()


def test_an_empty_file_says_so(tmp_path: Path, check_page: Check) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("", encoding="utf-8")
    assert "The file holds no trajectories." in check_page(page_of(path)).text


def test_lone_surrogates_do_not_stop_the_page(file: Path, rollouts: dict[str, list[Rollout]]) -> None:
    record = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    record["answer"] = "坏\ud800字"
    file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert "坏�字" in page_of(file)


def test_terms_add_up_to_the_total(rollouts: dict[str, list[Rollout]]) -> None:
    for rollout in rollouts["grpo"]:
        shown = of_rollout(rollout, Scoring())
        assert shown.total == pytest.approx(sum(term.share or 0.0 for term in shown.terms))
        assert shown.total == pytest.approx(compute_reward(rollout).total)


def test_the_run_s_own_weights_are_used(rollouts: dict[str, list[Rollout]]) -> None:
    scoring = Scoring.of_config({"rewards": {"preset": "default", "weights": {"acc": 2.0}}})
    assert scoring.weights == RewardWeights(acc=2.0)
    right = next(r for r in rollouts["grpo"] if r.answer == "罚金")
    assert of_rollout(right, scoring).total == pytest.approx(compute_reward(right).total + 1.0)


def test_gold_evidence_is_marked(rollouts: dict[str, list[Rollout]]) -> None:
    right = next(r for r in rollouts["grpo"] if r.answer == "罚金")
    assert [unit.gold for step in of_rollout(right, Scoring()).steps for unit in step.evidence] == [True]


def byte_tokenizer() -> Tokenizer:
    """Every byte a token of its own: a Chinese character is three."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([], trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet))
    return tokenizer


def test_tokens_of_one_character_are_one_piece_with_their_sum() -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode("a罚").ids
    assert len(ids) == 4
    pieces = TokenReader(tokenizer).pieces(ids, [-0.5, -0.25, -0.5, -1.0])
    assert pieces == (Piece("a", -0.5), Piece("罚", -1.75))


def test_segments_follow_provenance_turn_and_evidence(rollouts: dict[str, list[Rollout]]) -> None:
    tokenizer = byte_tokenizer()
    ids = tuple(tokenizer.encode("abcdefg").ids)
    record = TokenRecord(
        token_ids=ids,
        provenance=(0, 0, 1, 1, 2, 2, 1),
        logprobs=(0.0, 0.0, -0.5, -1.0, 0.0, 0.0, -2.0),
        turn=(-1, -1, 0, 0, 0, 0, 1),
        evidence=(False, False, False, False, True, False, False),
    )
    found = segments(dataclasses.replace(rollouts["grpo"][0], tokens=record), TokenReader(tokenizer))
    assert [(s.writer, s.turn, s.text, s.evidence) for s in found] == [
        ("prompt", -1, "ab", False),
        ("policy", 0, "cd", False),
        ("environment", 0, "e", True),
        ("environment", 0, "f", False),
        ("policy", 1, "g", False),
    ]
    assert [p.logprob for s in found for p in s.pieces] == [None, None, -0.5, -1.0, None, None, -2.0]


def test_without_tokens_the_messages_are_coloured(rollouts: dict[str, list[Rollout]]) -> None:
    right = next(r for r in rollouts["grpo"] if r.answer == "罚金")
    assert [s.writer for s in segments(right, None)] == ["prompt", "prompt", "policy", "environment", "policy"]
    assert "".join(s.text for s in segments(right, None)) == "".join(m["content"] for m in right.messages)
