"""The one loop: every stop reason, corrections, the last-turn notice, the forced answer, outages as stop reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from envs.env import EnvConfig, LegalEnv
from envs.errors import EnvStateError, PolicyError
from envs.policy import Budget, ScriptedPolicy
from envs.prompt_files import fill
from envs.rollout import run_rollout, run_rollouts
from envs.tokens import Dialogue
from envs.types import Completion, Malformed, Provenance, Question, Statute, Stop, StopReason
from retrieval_server.errors import RetrievalError
from retrieval_server.types import SearchQuery, SearchResult, Source, Status

SEARCH = '<think>缺条文</think><search>{"source": "statute", "query": "刑法第264条", "intent": "条文"}</search>'
PRECEDENT = '<search>{"source": "precedent", "query": "入户盗窃", "circumstances": "自首", "charge": "盗窃罪"}</search>'
ANSWER = "<think>够了</think><answer>盗窃公私财物</answer>"


def config(**changes: Any) -> EnvConfig:
    return EnvConfig(**{"max_turns": 3, "evidence_chars": 20, "evidence_style": "compact", **changes})


async def test_answer(question: Question, retriever: Any) -> None:
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH, ANSWER]), LegalEnv(retriever, config(top_k=2)))
    assert rollout.stop_reason is StopReason.ANSWER
    assert rollout.answer == "盗窃公私财物"
    assert rollout.action_kinds == ("statute", "stop")
    assert retriever.queries == [SearchQuery(source="statute", query="刑法第264条", intent="条文", top_k=2)]
    assert [unit.id for unit in rollout.evidence] == ["law/刑法@2023-12-29#264"]
    assert [message["role"] for message in rollout.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert rollout.turns[0].observation.startswith("<information>\n[1]《")
    assert rollout.turns[1].observation == "" and rollout.tokens is None
    assert 0 <= rollout.turns[0].policy_s <= rollout.elapsed_s and rollout.turns[0].tool_s >= 0


async def test_answer_without_search(question: Question, retriever: Any) -> None:
    rollout = await run_rollout(question, ScriptedPolicy([ANSWER]), LegalEnv(retriever, config()))
    assert (rollout.stop_reason, rollout.evidence, retriever.queries) == (StopReason.ANSWER, (), [])


async def test_precedent_query_and_date_of_the_facts(question: Question, retriever: Any) -> None:
    dated = replace(question, as_of="2019-05-06")
    await run_rollout(dated, ScriptedPolicy([PRECEDENT, ANSWER]), LegalEnv(retriever, config(top_k=1)))
    assert retriever.queries == [
        SearchQuery(
            source=Source.PRECEDENT,
            query="入户盗窃",
            circumstances="自首",
            charge="盗窃罪",
            as_of="2019-05-06",
            top_k=1,
        )
    ]


async def test_malformed_turn_is_corrected_and_counted(question: Question, retriever: Any) -> None:
    rollout = await run_rollout(
        question, ScriptedPolicy(["乱写", SEARCH, ANSWER]), LegalEnv(retriever, config(max_turns=4))
    )
    assert rollout.action_kinds == ("malformed", "statute", "stop")
    assert rollout.turns[0].action == Malformed("没有行动")
    assert rollout.turns[0].observation == fill("correction", reason="没有行动")
    assert rollout.turns[0].result is None


async def test_last_turn_notice_is_inside_the_observation(question: Question, retriever: Any) -> None:
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH, SEARCH, ANSWER]), LegalEnv(retriever, config()))
    notice = fill("last_turn")
    assert [notice in turn.observation for turn in rollout.turns] == [False, True, False]
    assert rollout.turns[1].observation.endswith(f"</information>\n{notice}")


async def test_one_turn_only_puts_the_notice_into_the_question(question: Question, retriever: Any) -> None:
    rollout = await run_rollout(question, ScriptedPolicy([ANSWER]), LegalEnv(retriever, config(max_turns=1)))
    assert rollout.messages[1]["content"] == f"{question.text}\n{fill('last_turn')}"


async def test_forced_answer_exactly_once(question: Question, retriever: Any) -> None:
    policy = ScriptedPolicy([SEARCH, SEARCH, SEARCH, ANSWER])
    rollout = await run_rollout(question, policy, LegalEnv(retriever, config()))
    assert rollout.stop_reason is StopReason.FORCED_ANSWER
    assert rollout.answer == "盗窃公私财物"
    assert [turn.forced for turn in rollout.turns] == [False, False, False, True]
    assert [budget.forced for budget in policy.budgets] == [False, False, False, True]
    assert rollout.turns[2].observation == fill("forced_answer") and rollout.turns[2].result is None
    assert len(retriever.queries) == 2  # the search of the last turn is not run: nobody would read it


async def test_max_turns(question: Question, retriever: Any) -> None:
    policy = ScriptedPolicy([SEARCH])
    rollout = await run_rollout(question, policy, LegalEnv(retriever, config()))
    assert rollout.stop_reason is StopReason.MAX_TURNS
    assert rollout.answer == "" and len(policy.budgets) == 4 and not rollout.stop_reason.invalid


async def test_length_when_the_budget_ends_inside_a_turn(question: Question, retriever: Any, tokenizer: Any) -> None:
    long = "<think>" + "盗窃" * 400
    ids = tuple(tokenizer(long, add_special_tokens=False)["input_ids"])
    settings = config(max_response_tokens=300, max_turn_tokens=200, forced_answer_tokens=100)
    policy = ScriptedPolicy(
        [Completion(long, ids[:200], finish_reason="length"), Completion("<answer>", ids[:5], finish_reason="length")]
    )
    rollout = await run_rollout(question, policy, LegalEnv(retriever, settings), tokenizer)
    assert rollout.stop_reason is StopReason.LENGTH
    assert rollout.action_kinds == ("malformed", "malformed")
    assert policy.budgets[0].max_tokens == 200 and policy.budgets[1].forced
    assert rollout.tokens is not None and len(rollout.tokens.token_ids) - rollout.tokens.prompt_length <= 300


async def test_forced_answer_after_the_tokens_ran_out(question: Question, retriever: Any, tokenizer: Any) -> None:
    ids = tuple(tokenizer("盗" * 600, add_special_tokens=False)["input_ids"])[:200]
    settings = config(max_response_tokens=400, max_turn_tokens=200, forced_answer_tokens=200)
    policy = ScriptedPolicy([Completion("盗", ids, finish_reason="length"), ANSWER])
    rollout = await run_rollout(question, policy, LegalEnv(retriever, settings), tokenizer)
    assert (rollout.stop_reason, rollout.answer) == (StopReason.FORCED_ANSWER, "盗窃公私财物")


async def test_evidence_that_does_not_fit_is_not_evidence(question: Question, retriever: Any, tokenizer: Any) -> None:
    settings = config(max_response_tokens=230, max_turn_tokens=100, forced_answer_tokens=130)
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH, ANSWER]), LegalEnv(retriever, settings), tokenizer)
    assert rollout.stop_reason is StopReason.FORCED_ANSWER
    assert len(retriever.queries) == 1 and rollout.evidence == () and "[1]" not in str(rollout.messages)


async def test_text_budget_runs_out_before_a_turn(question: Question, retriever: Any) -> None:
    settings = config(max_response_tokens=300, forced_answer_tokens=200)
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH, "没有"]), LegalEnv(retriever, settings))
    assert rollout.stop_reason is StopReason.LENGTH


async def test_cut_turn_is_corrected_when_budget_is_left(question: Question, retriever: Any) -> None:
    cut = Completion('<search>{"source": "statute", "query": "刑法', finish_reason="length")
    rollout = await run_rollout(question, ScriptedPolicy([cut, ANSWER]), LegalEnv(retriever, config()))
    assert rollout.turns[0].action == Malformed("内容过长，未写完")
    assert rollout.stop_reason is StopReason.ANSWER
    whole = Completion(SEARCH, finish_reason="length")  # cut after the action was complete: nothing was lost
    rollout = await run_rollout(question, ScriptedPolicy([whole, ANSWER]), LegalEnv(retriever, config()))
    assert rollout.action_kinds == ("statute", "stop")


async def test_retrieval_error_is_stored(question: Question, broken_retriever: Any) -> None:
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH, ANSWER]), LegalEnv(broken_retriever, config()))
    assert rollout.stop_reason is StopReason.RETRIEVAL_ERROR and rollout.stop_reason.invalid
    assert "cannot be reached" in rollout.error
    assert rollout.action_kinds == ("statute",) and rollout.answer == ""


async def test_slow_tool_is_a_retrieval_error(question: Question, slow_retriever: Any) -> None:
    env = LegalEnv(slow_retriever, config(tool_timeout_s=0.01))
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH]), env)
    assert rollout.stop_reason is StopReason.RETRIEVAL_ERROR and "0.01 s" in rollout.error


@pytest.mark.parametrize("results", [[], [SearchResult(status=Status.ERROR, reason="index lost")]])
async def test_wrong_answers_of_the_assistant_are_retrieval_errors(question: Question, results: list) -> None:
    class Odd:
        async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
            return results

    rollout = await run_rollout(question, ScriptedPolicy([SEARCH]), LegalEnv(Odd(), config()))
    assert rollout.stop_reason is StopReason.RETRIEVAL_ERROR
    assert "0 results" in rollout.error or "index lost" in rollout.error


async def test_deadline(question: Question, slow_retriever: Any) -> None:
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH]), LegalEnv(slow_retriever, config(deadline_s=0.05)))
    assert rollout.stop_reason is StopReason.DEADLINE and rollout.error == "no end within 0.05 s"
    assert rollout.action_kinds == ("statute",) and rollout.elapsed_s < 5


@pytest.mark.parametrize(
    ("failure", "part"),
    [(PolicyError("endpoint is down"), "endpoint is down"), (TimeoutError("read"), "timed out: read")],
)
async def test_policy_error(question: Question, retriever: Any, failure: Exception, part: str) -> None:
    class Failing:
        async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
            raise failure

    rollout = await run_rollout(question, Failing(), LegalEnv(retriever, config()))
    assert rollout.stop_reason is StopReason.POLICY_ERROR and part in rollout.error


async def test_tokens_of_a_rollout(
    question: Question, retriever: Any, tokenizer: Any, short_environment: EnvConfig
) -> None:
    """Text-only policies get a record too, and it is the one that a token policy would have got."""
    env = LegalEnv(retriever, short_environment)
    rollout = await run_rollout(question, ScriptedPolicy([SEARCH, "乱写", ANSWER]), env, tokenizer)
    record = rollout.tokens
    assert record is not None
    assert max(record.turn) == 2 and record.turn[0] == -1
    written = [t for t, who in zip(record.token_ids, record.provenance, strict=True) if who == Provenance.POLICY]
    assert tokenizer.decode(written) == "".join(f"{text}<|im_end|>" for text in (SEARCH, "乱写", ANSWER))
    ids = [tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (SEARCH, "乱写", ANSWER)]
    turns = [Completion(t, (*i, 2)) for t, i in zip((SEARCH, "乱写", ANSWER), ids, strict=True)]
    again = await run_rollout(question, ScriptedPolicy(turns), LegalEnv(retriever, short_environment), tokenizer)
    assert again.tokens == record


async def test_tool_call_dialect(question: Question, retriever: Any, tokenizer: Any) -> None:
    call = '<tool_call>\n{"name": "search_statute", "arguments": {"query": "刑法第264条"}}\n</tool_call>'
    env = LegalEnv(retriever, config(dialect="tool_call", max_response_tokens=4000))
    rollout = await run_rollout(question, ScriptedPolicy([call, ANSWER]), env, tokenizer)
    assert rollout.turns[0].action == Statute("刑法第264条") and isinstance(rollout.turns[1].action, Stop)
    assert "search_precedent" in tokenizer.decode(rollout.tokens.token_ids) if rollout.tokens else False
    assert "<search>" not in rollout.messages[0]["content"]


async def test_a_reserve_that_is_too_small_is_refused(question: Question, retriever: Any) -> None:
    env = LegalEnv(retriever, config(forced_answer_tokens=5))
    with pytest.raises(EnvStateError, match="forced_answer_tokens is 5"):
        await run_rollout(question, ScriptedPolicy([ANSWER]), env)


async def test_an_environment_plays_once(question: Question, retriever: Any) -> None:
    env = LegalEnv(retriever)
    env.opening(question)
    with pytest.raises(EnvStateError, match="new LegalEnv"):
        env.opening(question)


@pytest.mark.parametrize(
    "changes", [{"max_turns": 0}, {"forced_answer_tokens": 9000}, {"unknown": 1}, {"dialect": "xml"}]
)
def test_bad_settings_are_refused(changes: dict) -> None:
    with pytest.raises(ValueError):
        EnvConfig(**changes)


def test_an_empty_script_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ScriptedPolicy([])


async def test_run_rollouts_keeps_order_and_bounds_concurrency(question: Question, retriever: Any) -> None:
    class Counting:
        running = most = 0

        async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.001 * (5 - int(dialogue.messages[1]["content"])))
            self.running -= 1
            return Completion(ANSWER)

    questions = [replace(question, id=str(i), text=str(i)) for i in range(5)]
    policy = Counting()
    stream = run_rollouts(questions, policy, lambda: LegalEnv(retriever, config()), concurrency=2)
    assert [rollout.question.id async for rollout in stream] == ["0", "1", "2", "3", "4"]
    assert policy.most == 2


async def test_run_rollouts_cancels_what_is_left(question: Question, slow_retriever: Any) -> None:
    questions = [replace(question, id="fast"), replace(question, id="slow")]

    class ByQuestion:
        count = 0

        async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
            self.count += 1
            return Completion(ANSWER if self.count == 1 else SEARCH)

    stream = run_rollouts(questions, ByQuestion(), lambda: LegalEnv(slow_retriever, config()))
    async for rollout in stream:
        assert rollout.question.id == "fast"
        break
    await stream.aclose()  # type: ignore[attr-defined]
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await asyncio.gather(*others, return_exceptions=True)
    assert all(task.cancelled() for task in others)


def test_retrieval_error_is_a_user_facing_error() -> None:
    from retrieval_server.errors import LegalRLError

    assert issubclass(RetrievalError, LegalRLError) and issubclass(PolicyError, LegalRLError)
