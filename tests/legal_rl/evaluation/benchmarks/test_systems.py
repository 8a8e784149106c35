"""Every mode with toy parts: what the Judge is shown, how often the Assistant is asked, and whose answer counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from envs.env import EnvConfig
from envs.errors import PolicyError
from envs.policy import ScriptedPolicy
from legal_rl.evaluation.benchmarks.endpoints import ChatAnswerer
from legal_rl.evaluation.benchmarks.samples import Sample
from legal_rl.evaluation.benchmarks.settings import MODES, BenchmarkConfig, Endpoint
from legal_rl.evaluation.benchmarks.systems import System, environment
from legal_rl.evaluation.benchmarks.tasks import find_task
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
        return [SearchResult(status=self.status, evidence=(unit(q.query),)) for q in queries]


def unit(query: str) -> Evidence:
    return Evidence(id=query, source=Source.STATUTE, title="法", text=f"条文：{query}")


def system(mode: str, turns: Sequence[str] = (SEARCH, ANSWER), judge: bool = True, **more) -> System:
    config = BenchmarkConfig(environment=EnvConfig(max_turns=4, top_k=3))
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


@pytest.mark.parametrize(("mode", "turns", "searches"), [("one_turn", [ANSWER], 1), ("three_turn", [SEARCH] * 4, 3)])
async def test_fixed_turns_search_as_often_as_they_say(mode: str, turns: list[str], searches: int) -> None:
    """A Lawyer that stops early is made up for by the question itself; one that goes on is stopped."""
    tested, prompt = await shown(mode, turns=turns)
    assert len(tested.retriever.queries) == searches and "条文：" in prompt  # type: ignore[union-attr]


async def test_without_a_judge_the_lawyers_answer_counts() -> None:
    answered = await system("full", judge=False).answer(SAMPLE, OTHER)
    assert answered.text == "律师的答案" and answered.queries == ("刑法第264条",)


async def test_an_outage_is_raised_and_never_an_answer() -> None:
    with pytest.raises(RetrievalError):
        await system("hybrid", retriever=ToyRetriever(Status.ERROR)).answer(SAMPLE, OTHER)
    with pytest.raises(RetrievalError, match="retrieval_error"):
        await system("full", retriever=ToyRetriever(Status.ERROR)).answer(SAMPLE, OTHER)
    with pytest.raises(RetrievalError, match="no gold"):
        await system("oracle").answer(OTHER, SAMPLE)

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
