"""Every mode with toy parts: what the Judge is shown, how often the Assistant is asked, and whose answer counts."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from envs.env import EnvConfig
from envs.errors import PolicyError
from envs.policy import ScriptedPolicy
from envs.types import Question, Rollout, StopReason, TokenRecord
from legal_rl.evaluation.benchmarks.efficiency import summarise_cost, throughput
from legal_rl.evaluation.benchmarks.endpoints import ChatAnswerer, MeteredChatModel, current_meter, metering
from legal_rl.evaluation.benchmarks.journal import answered_entry
from legal_rl.evaluation.benchmarks.records import NotApplicableError
from legal_rl.evaluation.benchmarks.samples import Sample
from legal_rl.evaluation.benchmarks.settings import MODES, BenchmarkConfig, Endpoint
from legal_rl.evaluation.benchmarks.systems import Answered, System, environment
from legal_rl.evaluation.benchmarks.tasks import find_task
from retrieval_server.config import LLMConfig
from retrieval_server.errors import RetrievalError
from retrieval_server.types import Evidence, SearchQuery, SearchResult, Source, Status

SEARCH = '<think>查</think><search>{"source": "statute", "query": "刑法第264条"}</search>'
ANSWER = "<think>够了</think><answer>律师的答案</answer>"
TASK = find_task("mini", "m_letter")
SAMPLE = Sample(TASK, 0, "请作答。", "盗窃如何处罚？", "C", ("刑法第264条",))
OTHER = Sample(TASK, 1, "请作答。", "抢劫如何处罚？", "A")


class ToyJudge(ChatAnswerer):
    """Remembers its prompts and answers `final`."""

    def __init__(self) -> None:
        super().__init__(Endpoint(base_url="http://unused/v1", model="toy"))
        self.prompts: list[str] = []

    async def answer(self, prompt: str, max_tokens: int) -> str:
        self.prompts.append(prompt)
        return "<think>审慎</think>final"


class ToyRetriever:
    """One unit per query, named after it."""

    def __init__(self, status: Status = Status.OK) -> None:
        self.status = status
        self.queries: list[SearchQuery] = []

    async def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        self.queries += queries
        return [SearchResult(status=self.status, evidence=(unit(q.query),), reason="rerank: gone") for q in queries]


def unit(query: str) -> Evidence:
    name = "law/刑法@2024-03-01#264" if query == "刑法第264条" else query
    return Evidence(id=name, source=Source.STATUTE, title="法", text=f"条文：{query}")


def system(mode: str, turns: Sequence[str] = (SEARCH, ANSWER), judge: bool = True, **more) -> System:
    config = BenchmarkConfig(environment=EnvConfig(max_turns=4, top_k=3), assistant=more.get("assistant", {}))
    return System(
        mode,
        config,
        ToyJudge() if judge else None,
        ScriptedPolicy(list(turns)),
        None,
        more.get("retriever", ToyRetriever()),
    )  # type: ignore[arg-type]


async def shown(mode: str, **more) -> tuple[System, str]:
    """The system after one sample, and the last prompt of its Judge."""
    tested = system(mode, **more)
    answered = await tested.answer(SAMPLE, OTHER)
    assert answered.text == "final" and isinstance(tested.judge, ToyJudge)
    return tested, tested.judge.prompts[-1]


async def test_plain_asks_the_bare_question() -> None:
    tested, prompt = await shown("plain")
    assert prompt == "请作答。\n盗窃如何处罚？" and tested.retriever.queries == []  # type: ignore[union-attr]


async def test_judge_only_has_no_evidence() -> None:
    tested, prompt = await shown("judge_only")
    assert "（无）" in prompt and "条文：" not in prompt and tested.retriever.queries == []  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("mode", "query"),
    [("hybrid", SAMPLE.prompt), ("rerank", SAMPLE.prompt), ("shuffled", OTHER.prompt), ("oracle", "刑法第264条")],
)
async def test_one_search_gives_the_judge_its_evidence(mode: str, query: str) -> None:
    tested, prompt = await shown(mode)
    assert [q.query for q in tested.retriever.queries] == [query] and f"条文：{query}" in prompt  # type: ignore[union-attr]
    assert tested.retriever.queries[0].intent == ("请作答。" if mode == "rerank" else "")  # type: ignore[union-attr]


async def test_full_lets_the_lawyer_decide() -> None:
    tested, prompt = await shown("full")
    assert [q.query for q in tested.retriever.queries] == ["刑法第264条"] and "1. 检索：刑法第264条" in prompt  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("mode", "turns", "searches", "made_up"),
    [("one_turn", [ANSWER], 1, 1), ("three_turn", [ANSWER], 3, 3), ("three_turn", [SEARCH] * 4, 3, 0)],
)
async def test_fixed_turns_search_as_often_as_they_say(
    mode: str, turns: list[str], searches: int, made_up: int
) -> None:
    """A Lawyer that stops early is made up for by the question itself; one that goes on is stopped."""
    tested = system(mode, turns)
    answered = await tested.answer(SAMPLE, OTHER)
    asked = tested.retriever.queries  # type: ignore[union-attr]
    assert len(asked) == len(answered.queries) == searches and answered.made_up == made_up
    assert len({(q.source, q.query) for q in asked[-made_up:]}) == made_up or not made_up
    assert "条文：" in tested.judge.prompts[-1]  # type: ignore[union-attr]


async def test_without_a_judge_the_lawyers_answer_counts() -> None:
    answered = await system("full", judge=False).answer(SAMPLE, OTHER)
    assert answered.text == "律师的答案" and answered.queries == ("刑法第264条",)
    early = await system("three_turn", judge=False).answer(SAMPLE, OTHER)
    assert early.short == 2 and early.made_up == 0  # it has answered: nothing can be made up


async def test_a_request_that_nobody_answered_is_no_search() -> None:
    """The last turn must be the answer: a search there is read, but never made."""
    answered = await system("full", [SEARCH] * 4 + [ANSWER]).answer(SAMPLE, OTHER)
    assert answered.rollout is not None and len(answered.rollout.searches) == 4 and len(answered.queries) == 3


@pytest.mark.parametrize("mode", ["hybrid", "full"])
async def test_degraded_searches_are_counted(mode: str) -> None:
    answered = await system(mode, retriever=ToyRetriever(Status.DEGRADED)).answer(SAMPLE, OTHER)
    assert answered.degraded == 1
    assert (await system(mode).answer(SAMPLE, OTHER)).degraded == 0


async def test_an_oracle_gives_the_cited_article_or_fails() -> None:
    with pytest.raises(RetrievalError, match=r"does not hold 刑法#133-1"):
        await system("oracle").answer(Sample(TASK, 2, "", "醉驾？", "C", ("刑法第133条之一",)), OTHER)
    with pytest.raises(NotApplicableError, match="no gold"):
        await system("oracle").answer(OTHER, SAMPLE)


async def test_shuffled_evidence_is_another_questions_found_in_the_same_way() -> None:
    llm = {"llm": {"base_url": "http://unused/v1", "model": "m"}}
    tested = system("shuffled", assistant=llm)
    await tested.answer(SAMPLE, OTHER)
    assert tested.retriever.queries[0].intent == "请作答。"  # type: ignore[union-attr]
    with pytest.raises(NotApplicableError, match="no other question"):
        await tested.answer(SAMPLE, SAMPLE)


async def test_tokens_of_lawyer_judge_and_assistant_are_added_up() -> None:
    """Lawyer in this process: 5 and 6 are its prompt; the Judge has cost 7 and 3 besides, one unit is made up."""
    record = TokenRecord((5, 6, 7, 8), (0, 0, 1, 1), (0.0,) * 4, (-1, -1, 0, 0), (False,) * 4)
    rollout = Rollout(Question("q", "问", "答"), (), StopReason.ANSWER, tokens=record)
    with metering() as meter:
        current_meter().add(SimpleNamespace(prompt_tokens=7, completion_tokens=3))
        MeteredChatModel(LLMConfig(base_url="http://unused/v1", model="m")).count_usage(
            SimpleNamespace(prompt_tokens=40, completion_tokens=20)
        )
    found = answered_entry(SAMPLE, Answered("C", (unit("甲" * 27),), rollout=rollout), meter, 1.0)["usage"]
    assert (found["calls"], found["input_tokens"], found["output_tokens"]) == (2, 9, 5)
    assert (found["retrieval_tokens"], found["retrieval_estimated"]) == (20, 1)
    assert (found["assistant_calls"], found["assistant_output_tokens"]) == (1, 20)
    entry = {"status": "ok", "usage": found, "task": TASK.id, "seconds": 1.0, "tool_s": 0.0, "queries": [], "turns": []}
    assert summarise_cost([entry], {TASK.id: TASK})["all"]["tokens"] == 9 + 5 + 40 + 20
    assert throughput([entry], 5.0) == 5.0


async def test_an_outage_is_raised_and_never_an_answer() -> None:
    with pytest.raises(RetrievalError):
        await system("hybrid", retriever=ToyRetriever(Status.ERROR)).answer(SAMPLE, OTHER)
    with pytest.raises(RetrievalError, match="retrieval_error"):
        await system("full", retriever=ToyRetriever(Status.ERROR)).answer(SAMPLE, OTHER)

    class Gone(ScriptedPolicy):
        async def act(self, dialogue, budget):
            raise PolicyError("gone")

    broken = System("full", BenchmarkConfig(), ToyJudge(), Gone([ANSWER]), None, ToyRetriever())
    with pytest.raises(PolicyError, match="gone"):
        await broken.answer(SAMPLE, OTHER)


def test_every_mode_has_its_environment() -> None:
    config = EnvConfig(max_turns=6)
    turns = {mode: environment(config, mode).max_turns for mode in MODES}
    assert (turns["judge_only"], turns["one_turn"], turns["three_turn"], turns["full"]) == (1, 2, 4, 6)
    assert environment(config, "one_turn").system_prompt.endswith("lawyer_fixed_turns.txt")
    tiny = EnvConfig(system_prompt="lawyer_system_compact")
    assert environment(tiny, "one_turn").system_prompt == "lawyer_system_compact"
