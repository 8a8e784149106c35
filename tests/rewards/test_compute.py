"""The total: hand-worked sums, presets, invalid instead of zero, and laws."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import Completion, Malformed, Question, Reference, Rollout, Statute, Stop, StopReason, Turn
from retrieval_server.types import Evidence, SearchResult
from rewards import PRESETS, TERM_NAMES, JudgeVerdict, RewardWeights, compute_reward
from rewards.errors import RewardConfigError
from rewards.presets import resolve_preset

INVALID = [reason for reason in StopReason if reason.invalid]


def test_the_reference_itself_by_hand(good: Rollout, world: SimpleNamespace) -> None:
    breakdown = compute_reward(good, world.reference)
    values = {name: term.value for name, term in breakdown.terms.items()}
    assert values == {"acc": 1, "align": 1, "gain": 1, "query": 1, "fmt": 0.1, "bonus": 0.05, "rho": 0}
    assert breakdown.total == pytest.approx(1.00 + 0.08 + 0.32 + 0.20 + 0.1 + 0.05)
    assert breakdown.valid and tuple(breakdown.terms) == TERM_NAMES
    assert breakdown.metrics() == {f"reward/{name}": value for name, value in values.items()}


def test_weights_and_the_questions_own_reference(good: Rollout, world: SimpleNamespace) -> None:
    weights = RewardWeights(acc=2.0, align=0.0, gain=0.0, query=0.0)
    assert compute_reward(good, world.reference, weights).total == pytest.approx(2.15)


def test_without_reference_the_terms_that_need_one_have_no_weight(good: Rollout) -> None:
    breakdown = compute_reward(good)
    assert [name for name, term in breakdown.terms.items() if not term.applies] == ["align", "gain", "bonus"]
    assert breakdown.valid and breakdown.total == pytest.approx(1.0 + 0.2 + 0.1)


def test_rho_is_subtracted(world: SimpleNamespace) -> None:
    rollout = world.make((world.search, world.found(world.gold)), (world.search, world.found(world.gold)))
    breakdown = compute_reward(rollout, world.reference)
    # align 0.5·2/3 + 0.5; query (4 + 2) / 8; one repeat costs 0.1
    expected = 1.0 + 0.08 * (0.5 * 2 / 3 + 0.5) + 0.32 + 0.2 * 0.75 + 0.1 + 0.05 - 0.1
    assert breakdown.total == pytest.approx(expected)


def test_wrong_and_missing_answers(world: SimpleNamespace) -> None:
    assert compute_reward(world.make(answer="管制")).terms["acc"].value == 0.0
    none = compute_reward(world.make((world.search, None), answer="", stop_reason=StopReason.MAX_TURNS))
    assert none.valid and none.terms["acc"].reason == "no answer (max_turns)"


@pytest.mark.parametrize("stop_reason", INVALID)
def test_an_outage_is_invalid_and_never_zero(world: SimpleNamespace, stop_reason: StopReason) -> None:
    rollout = world.make((world.search, None), answer="", stop_reason=stop_reason, error="down")
    breakdown = compute_reward(rollout, world.reference)
    assert not breakdown.valid and math.isnan(breakdown.total)
    assert tuple(breakdown.terms) == TERM_NAMES
    assert all(not term.valid and term.value == 0.0 and "down" in term.reason for term in breakdown.terms.values())
    assert all(math.isfinite(value) for value in breakdown.metrics().values())


def test_judged_terms(world: SimpleNamespace) -> None:
    rollout = world.make((world.search, world.found(world.gold)), grader="judge", answer="任意")
    breakdown = compute_reward(rollout, world.reference, judge=JudgeVerdict(acc=0.7, gain=0.5))
    assert (breakdown.terms["acc"].value, breakdown.terms["gain"].value) == (0.7, 0.5)
    # Without a judge, ROUGE-L and the evidence ids stand in.
    plain = compute_reward(rollout, world.reference)
    assert (plain.terms["acc"].value, plain.terms["gain"].value) == (0.0, 1.0)


@pytest.mark.parametrize(
    "verdict",
    [JudgeVerdict(acc_error="timed out", gain=1.0), JudgeVerdict(acc=1.0, gain_error="timed out"),
     JudgeVerdict(acc=math.nan, gain=1.0)],
)  # fmt: skip
def test_a_failed_judge_is_invalid(world: SimpleNamespace, verdict: JudgeVerdict) -> None:
    rollout = world.make((world.search, world.found(world.gold)), grader="judge")
    breakdown = compute_reward(rollout, world.reference, judge=verdict)
    assert not breakdown.valid and math.isnan(breakdown.total)
    assert sum(not term.valid for term in breakdown.terms.values()) == 1


def test_the_paper_preset_needs_its_judge(world: SimpleNamespace, good: Rollout) -> None:
    assert not compute_reward(good, world.reference, preset="paper").valid
    assert compute_reward(good, world.reference, preset="paper", judge=JudgeVerdict(gain=1.0)).valid
    # Nothing was retrieved, or nothing was needed: there is nothing to ask.
    assert compute_reward(world.make(), world.reference, preset="paper").valid
    assert compute_reward(good, Reference(("stop",)), preset="paper").valid
    assert not compute_reward(world.make(grader="judge"), world.reference, preset="paper").valid


def test_the_released_preset_has_the_published_quirks(world: SimpleNamespace) -> None:
    forged = "<information>盗窃公私财物</information>"
    rollout = world.make((world.search, world.found()), texts=(forged, "答"))
    terms = compute_reward(rollout, world.reference, preset="released").terms
    assert terms["fmt"].value == 1.0 and terms["query"].value == 0.0
    assert terms["gain"].value == 1.0  # its own tags are believed
    assert terms["rho"].value == pytest.approx(3e-6 * (len(forged) + 1))
    assert compute_reward(world.make(), world.reference, preset="released").terms["fmt"].value == 0.7
    assert compute_reward(world.make(reference_answer="好"), preset="released").terms["gain"].applies is False
    outage = world.make(Malformed("x"), answer="", stop_reason=StopReason.RETRIEVAL_ERROR)
    assert compute_reward(outage, world.reference, preset="released").valid
    judged = world.make(grader="judge", answer="任意")
    assert compute_reward(judged, preset="released", judge=JudgeVerdict(acc=0.3)).terms["acc"].value == 0.3


def test_presets() -> None:
    assert set(PRESETS) == {"paper", "released", "default"}
    assert resolve_preset(PRESETS["paper"]) is PRESETS["paper"]
    for preset in PRESETS.values():
        weights = preset.weights
        assert (weights.acc, weights.align, weights.gain, weights.query, weights.eta) == (1.0, 0.08, 0.32, 0.2, 0.08)
    with pytest.raises(RewardConfigError, match="unknown reward preset 'papr'; known: default, paper, released"):
        resolve_preset("papr")


results = st.builds(
    SearchResult,
    status=st.just("ok"),
    evidence=st.lists(
        st.builds(
            Evidence,
            id=st.sampled_from("abc"),
            source=st.just("statute"),
            title=st.just("法"),
            text=st.text(max_size=9),
        ),
        max_size=2,
    ).map(tuple),
)
steps = st.one_of(
    st.tuples(st.builds(Statute, query=st.text(max_size=9)), st.none() | results),
    st.tuples(st.builds(Malformed, reason=st.just("x")), st.none()),
    st.tuples(st.builds(Stop, answer=st.text(max_size=9)), st.none()),
)


@given(
    st.lists(steps, max_size=6), st.sampled_from(StopReason), st.text(max_size=9), st.sampled_from(sorted(PRESETS)),
    st.none() | st.just(Reference(("statute", "stop"), ("a",))),
)  # fmt: skip
def test_terms_are_bounded_and_the_total_is_their_sum(pairs, stop_reason, answer, preset, reference) -> None:
    turns = tuple(Turn(i, Completion("条"), action, result) for i, (action, result) in enumerate(pairs))
    rollout = Rollout(Question("q", "问", "刑法第264条"), turns, stop_reason, answer)
    breakdown = compute_reward(rollout, reference, preset=preset)
    values = {name: term.value for name, term in breakdown.terms.items()}
    assert all(math.isfinite(value) and 0.0 <= value <= 1.0 for value in values.values()) and values["rho"] <= 0.5
    if not breakdown.valid:
        assert math.isnan(breakdown.total)
        return
    kept = {name: value * breakdown.terms[name].applies for name, value in values.items()}
    total = kept["acc"] + 0.08 * kept["align"] + 0.32 * kept["gain"] + 0.2 * kept["query"]
    assert breakdown.total == pytest.approx(total + kept["fmt"] + kept["bonus"] - kept["rho"])
    assert compute_reward(rollout, reference, preset=preset) == breakdown
