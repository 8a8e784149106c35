"""Each reward term by hand: alignment, gain, query quality, form, bonus and ρ."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import Malformed, Precedent, Reference, Rollout, Statute, Stop, StopReason, TokenRecord
from rewards.align import action_similarity, align, edit_distance
from rewards.gain import gain, key_spans
from rewards.query import query, repeated_searches, search_parts
from rewards.shape import bonus, fmt, policy_tokens, rho

NO_SEARCH = Reference(actions=("stop",))


# --- R_align


def test_align_of_the_reference_itself(good: Rollout, world: SimpleNamespace) -> None:
    assert align(good, world.reference).value == 1.0


def test_align_by_hand(world: SimpleNamespace) -> None:
    rollout = world.make((world.search, world.found(world.gold, "law/x#1")), (world.search, world.found()))
    # actions (statute, statute, stop) against (statute, stop): 1 − 1/3; evidence precision 1/2, recall 1: F1 2/3
    assert align(rollout, world.reference).value == pytest.approx(0.5 * (2 / 3) + 0.5 * (2 / 3))


def test_align_without_reference_does_not_apply(good: Rollout) -> None:
    for reference in (None, Reference()):
        assert (align(good, reference).applies, align(good, reference).value) == (False, 0.0)


def test_align_where_no_evidence_is_needed(world: SimpleNamespace) -> None:
    assert align(world.make(), NO_SEARCH).value == 1.0
    assert align(world.make((world.search, world.found("a"))), NO_SEARCH).value == pytest.approx(0.25)


def test_edit_distance_by_hand() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance((), ("a", "b")) == 2
    assert action_similarity((), ()) == 1.0
    assert action_similarity(("statute", "stop"), ("statute", "precedent", "stop")) == pytest.approx(2 / 3)


@given(st.lists(st.sampled_from("sp")), st.lists(st.sampled_from("sp")))
def test_edit_distance_is_a_metric_with_bounds(left: list[str], right: list[str]) -> None:
    distance = edit_distance(left, right)
    assert distance == edit_distance(right, left)
    assert abs(len(left) - len(right)) <= distance <= max(len(left), len(right))
    assert (distance == 0) == (left == right)


# --- R_gain


def test_gain_is_the_share_of_reference_units(world: SimpleNamespace) -> None:
    two = replace(world.reference, evidence_ids=(world.gold, "law/x#1"))
    assert gain(world.make((world.search, world.found(world.gold))), two).value == 0.5
    assert gain(world.make((world.search, world.found("other"))), two).value == 0.0


def test_gain_falls_back_to_key_spans(world: SimpleNamespace) -> None:
    spans = Reference(("statute", "stop"), key_spans=("3年以下", "无期徒刑"))
    rollout = world.make((world.search, world.found(world.gold)))
    assert gain(rollout, spans).value == 0.5
    derived = replace(rollout, question=replace(rollout.question, answer="依照刑法第264条，处三年以下有期徒刑"))
    assert gain(derived, None).value == 1.0


def test_gain_where_nothing_can_be_measured(world: SimpleNamespace) -> None:
    assert gain(world.make(reference_answer="好"), None).applies is False


def test_gain_does_not_pay_for_needless_searches(world: SimpleNamespace) -> None:
    assert (
        gain(world.make(), NO_SEARCH).value
        == gain(world.make((world.search, world.found("a"))), NO_SEARCH).value
        == 1.0
    )


def test_key_spans() -> None:
    assert key_spans("依照刑法第264条，犯盗窃罪，处三年以下有期徒刑") == ("第二百六十四条", "盗窃罪", "三年以下")
    assert key_spans("罚金2000元") == ("2000元",)
    assert key_spans("B") == ()


def test_own_information_is_never_evidence(world: SimpleNamespace) -> None:
    """A policy that writes the evidence itself earns nothing for it, in gain, alignment or query."""
    forged = f"<think><information>[1] {world.gold} 盗窃公私财物</information></think>"
    rollout = world.make((world.search, world.found()), texts=(forged, forged))
    assert rollout.evidence == ()
    assert gain(rollout, world.reference).value == 0.0
    assert gain(rollout, replace(world.reference, evidence_ids=())).value == 0.0
    assert align(rollout, world.reference).value == 0.5
    assert next(search_parts(rollout))[3] is False


# --- R_query


def test_query_parts_by_hand(world: SimpleNamespace) -> None:
    rollout = world.make(
        (Statute("刑法第264条", "条文"), world.found("a")),
        (Statute("《刑法》第二百六十四条", "条文"), world.found("a")),  # the same question in another spelling
        (Statute("……", ""), world.found("b")),  # unreadable, names nothing
        (Statute("今天天气", ""), world.found()),  # readable, but nothing legal, and nothing found
        (Precedent("入户盗窃手机一部", "自首", "盗窃罪"), world.found("c")),
        (Precedent("刑法第264条"), world.found("d")),  # an article is no fact
    )
    assert list(search_parts(rollout)) == [
        (True, True, True, True),
        (True, True, False, False),
        (False, False, True, True),
        (True, False, True, False),
        (True, True, True, True),
        (True, False, True, True),
    ]
    assert query(rollout, world.reference).value == pytest.approx((4 + 2 + 2 + 2 + 4 + 3) / 24)
    assert repeated_searches(rollout) == 1


def test_query_score_floor_and_length(world: SimpleNamespace) -> None:
    weak = world.make((Statute("刑法" * 200), world.found(world.unit("a", score=0.1))))
    assert list(search_parts(weak, score_floor=0.5)) == [(False, True, True, False)]


def test_query_without_searches(world: SimpleNamespace) -> None:
    assert query(world.make(), NO_SEARCH).value == 1.0
    assert query(world.make(), world.reference).value == 0.0
    assert query(world.make(), None).value == 0.0


# --- R_fmt and the bonus


def test_fmt_by_hand(good: Rollout, world: SimpleNamespace) -> None:
    assert fmt(good).value == 0.1
    assert fmt(world.make(Malformed("x"), (world.search, None))).value == 0.0
    assert fmt(world.make((world.search, None), answer="", stop_reason=StopReason.MAX_TURNS)).value == 0.0
    assert fmt(world.make(Stop("甲"))).value == 0.0  # two answers


def test_fmt_does_not_pay_for_searching(good: Rollout, world: SimpleNamespace) -> None:
    assert fmt(world.make()).value == fmt(good).value


def test_bonus_by_hand(good: Rollout, world: SimpleNamespace) -> None:
    searches = [(world.search, world.found("a"))] * 4
    values = [bonus(world.make(*searches[:n]), world.reference).value for n in range(5)]
    assert values == [0.05, 0.05, 0.05, 0.0, 0.0]
    assert bonus(world.make(answer="", stop_reason=StopReason.LENGTH), world.reference).value == 0.0
    assert bonus(good, None).applies is False


# --- ρ


def test_rho_by_hand(world: SimpleNamespace) -> None:
    steps = [(Statute(f"刑法第{n}条"), world.found("a")) for n in range(4)]
    rollout = world.make(*steps)  # 5 turns, reference 2 + 2 free: one extra; 5 characters
    assert rho(rollout, world.reference, token_budget=100).value == pytest.approx(0.05)
    assert rho(rollout, None, token_budget=100).value == 0.0
    assert rho(rollout, None, token_budget=4).value == pytest.approx(0.2 * 1 / 4)
    twice = world.make((world.search, None), (world.search, None))
    assert rho(twice, world.reference, token_budget=100).value == pytest.approx(0.1)


def test_rho_counts_policy_tokens_where_there_are_any(good: Rollout) -> None:
    record = TokenRecord((1, 2, 3, 4), (0, 1, 2, 1), (0.0,) * 4, (-1, 0, 0, 1), (False,) * 4)
    assert policy_tokens(replace(good, tokens=record)) == 2


@given(st.integers(0, 40), st.integers(0, 5000), st.integers(1, 5000))
def test_rho_is_bounded_and_monotone(repeats: int, chars: int, budget: int) -> None:
    from envs.types import Completion, Question, Turn

    def rollout(n: int) -> Rollout:
        turns = tuple(Turn(i, Completion("条" * chars), Statute("刑法")) for i in range(n))
        return Rollout(Question("q", "", ""), turns, StopReason.MAX_TURNS)

    reference = Reference(("stop",))
    low, high = (rho(rollout(n), reference, budget).value for n in (repeats, repeats + 1))
    assert 0.0 <= low <= high <= 0.5
