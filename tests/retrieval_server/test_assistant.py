"""The Legal Assistant over a toy index: routing, batching, clipping, cache, LLM stages and their fall-backs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from retrieval_server.assistant import LegalAssistant
from retrieval_server.config import AssistantConfig, LLMConfig
from retrieval_server.pools import CLIPPED_NOTE, normalise_query
from retrieval_server.types import CourtLevel, Retriever, SearchQuery, SearchResult, Source, Status

THEFT = "law/刑法@2024-03-01#264"


def statute(query: str, intent: str = "", **more: Any) -> SearchQuery:
    return SearchQuery(source=Source.STATUTE, query=query, intent=intent, **more)


def precedent(query: str, **more: Any) -> SearchQuery:
    return SearchQuery(source=Source.PRECEDENT, query=query, **more)


def ids(result: SearchResult) -> list[str]:
    return [unit.id for unit in result.evidence]


def plain(results: Sequence[SearchResult]) -> list[SearchResult]:
    """Without timings, which no two runs share."""
    return [result.model_copy(update={"timings_ms": {}}) for result in results]


@pytest.fixture
def assistant(toy_index: Any) -> LegalAssistant:
    return LegalAssistant(toy_index)


def with_llm(toy_index: Any, chat: Any, **settings: Any) -> LegalAssistant:
    llm = LLMConfig(base_url=chat.url, model="qwen", max_retries=0, deadline_s=2)
    return LegalAssistant(toy_index, AssistantConfig(llm=llm, **settings))


def test_is_a_retriever(assistant: LegalAssistant) -> None:
    assert isinstance(assistant, Retriever)


def test_cited_article_is_first_and_ranks_count_from_one(assistant: LegalAssistant) -> None:
    (result,) = assistant.search_sync([statute("刑法第264条 诈骗", "量刑幅度", top_k=2)])
    assert result.status is Status.OK
    assert ids(result)[0] == THEFT and [unit.rank for unit in result.evidence] == [1, 2]
    assert set(result.timings_ms) >= {"candidates", "rerank"}


def test_both_sources_in_one_call_keep_their_order(assistant: LegalAssistant) -> None:
    queries = [precedent("盗窃手机 自首", top_k=2), statute("正当防卫"), precedent("盗窃", top_k=1)]
    results = assistant.search_sync(queries)
    assert [len(r.evidence) for r in results][0::2] == [2, 1]
    assert {u.source for u in results[0].evidence} == {Source.PRECEDENT}
    assert ids(results[1])[0].endswith("#20")


def test_court_levels_filter(assistant: LegalAssistant) -> None:
    high = (CourtLevel.HIGH, CourtLevel.INTERMEDIATE)
    (result,) = assistant.search_sync([precedent("盗窃手机", court_levels=high)])
    assert sorted(ids(result)) == ["case/2", "case/3"]
    (none,) = assistant.search_sync([precedent("盗窃手机", court_levels=(CourtLevel.SUPREME,))])
    assert (none.status, none.evidence) == (Status.EMPTY, ()) and none.reason


def test_as_of_picks_the_version_and_is_part_of_the_memory(assistant: LegalAssistant) -> None:
    days = (date(2021, 1, 1), date(2025, 1, 1))
    old, new = assistant.search_sync([statute("刑法第232条", as_of=day, top_k=1) for day in days])
    assert ids(old) == ["law/刑法@2020-12-26#232"] and ids(new) == ["law/刑法@2024-03-01#232"]


@pytest.mark.parametrize("text", [" ", "\n\t", "\x00\x07", "　"])
def test_a_blank_query_is_empty_with_a_reason(assistant: LegalAssistant, text: str) -> None:
    (result,) = assistant.search_sync([statute(text)])
    assert result.status is Status.EMPTY and result.reason


def test_control_characters_do_not_change_the_answer(assistant: LegalAssistant) -> None:
    clean, dirty = assistant.search_sync([statute("盗窃 数额巨大"), statute("\x00盗窃\r\n数额巨大\x1b")])
    assert clean == dirty
    assert normalise_query(statute("a b")) == statute("a b")


def test_long_texts_are_clipped_and_say_so(toy_index: Any) -> None:
    assistant = LegalAssistant(toy_index, AssistantConfig(evidence_chars=20))
    (result,) = assistant.search_sync([statute("刑法第264条", top_k=1)])
    (unit,) = result.evidence
    assert unit.text == "盗窃公私财物，数额较大的，处三年以下有…" and len(unit.text) == 20
    assert CLIPPED_NOTE in unit.notes


async def test_async_sync_and_any_batch_give_the_same(toy_index: Any) -> None:
    queries = [statute("盗窃", "量刑"), precedent("盗窃手机"), statute("刑法第232条"), statute("诈骗", top_k=50)]
    sync = LegalAssistant(toy_index).search_sync(queries)
    together = await LegalAssistant(toy_index).search(queries)
    lone = LegalAssistant(toy_index)
    apart = [(await lone.search([query]))[0] for query in queries]
    assert plain(sync) == plain(together) == plain(apart)


async def test_equal_queries_at_once_are_one_and_later_ones_are_remembered(assistant: LegalAssistant) -> None:
    query = statute("盗窃", "量刑")
    group = await asyncio.gather(*(assistant.search([query]) for _ in range(8)))
    assert len({id(result) for (result,) in group}) == 1
    assert assistant.batched_queries == 1
    assert (await assistant.search([query]))[0] is group[0][0]
    assert assistant.search_sync([query])[0] is group[0][0]
    assert assistant.cache.hits == 2


async def test_concurrent_callers_share_batches(assistant: LegalAssistant) -> None:
    await asyncio.gather(*(assistant.search([statute(f"盗窃 {i}")]) for i in range(20)))
    assert (assistant.batches, assistant.batched_queries) == (1, 20)


async def test_a_cancelled_caller_does_not_take_the_shared_query_with_it(assistant: LegalAssistant) -> None:
    query = statute("盗窃 取消")
    gone, stays = (asyncio.create_task(assistant.search([query])) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await stays)[0].status is Status.OK


class BrokenIndex:
    """Fails for queries with 坏, works for the others."""

    def __init__(self, index: Any) -> None:
        self.index = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self.index, name)

    def statute_candidates(self, queries: Sequence[SearchQuery], n: int, ranking: str = "fused") -> Any:
        if any("坏" in query.query for query in queries):
            raise KeyError("坏")
        return self.index.statute_candidates(queries, n, ranking)


async def test_one_failing_query_is_an_error_and_fails_no_other(toy_index: Any) -> None:
    queries = [statute("盗窃"), statute("坏"), statute("诈骗")]
    broken: Any = BrokenIndex(toy_index)
    for results in (await LegalAssistant(broken).search(queries), LegalAssistant(broken).search_sync(queries)):
        assert [r.status for r in results] == [Status.OK, Status.ERROR, Status.OK]
        assert "KeyError" in results[1].reason and "坏" not in results[1].reason


def test_articles_by_number_label_and_day(assistant: LegalAssistant) -> None:
    for label in ("264", "第二百六十四条", "第264条", "２６４", "二百六十四条", "264条"):
        found = assistant.article("刑法", label)
        assert found is not None and found.id == THEFT
    old = assistant.article("刑法", "232", date(2022, 1, 1))
    assert old is not None and old.version_date == "2020-12-26"
    assert assistant.article("刑法", "999") is None
    assert assistant.article("刑法", "no number") is None
    assert assistant.article("没有这部法", "1") is None


def test_warm_up(assistant: LegalAssistant) -> None:
    assistant.warm_up()


# ---- with the LLM ----


def reversing(body: dict[str, Any]) -> str:
    """Ranks the candidates of a rerank prompt backwards."""
    count = body["response_format"]["json_schema"]["schema"]["properties"]["order"]["maxItems"]
    return json.dumps({"order": list(range(count, 0, -1))})


async def test_llm_orders_all_but_the_cited_articles(toy_index: Any, chat: Any) -> None:
    query = statute("刑法第二十条 盗窃 诈骗 有期徒刑", "量刑幅度", top_k=3)
    hybrid = toy_index.searcher.evidence(query, toy_index.statute_candidates([query], 30)[0])
    chat.replies = [reversing]
    assistant = with_llm(toy_index, chat)
    (result,) = await assistant.search([query])
    assert ids(result) == [hybrid[0].id, hybrid[-1].id, hybrid[-2].id]
    assert "llm" in result.evidence[1].provenance and "citation" in result.evidence[0].provenance
    assert [u.rank for u in result.evidence] == [1, 2, 3] and result.status is Status.OK
    assert result.evidence[1].score > result.evidence[2].score
    prompt = chat.requests[0]["messages"]
    assert "检索意图：量刑幅度" in prompt[1]["content"] and "[1] 《中华人民共和国刑法》" in prompt[1]["content"]
    assert assistant.search_sync([query])[0].status != "sync" and len(chat.requests) == 1


async def test_the_order_is_remembered_for_another_top_k(toy_index: Any, chat: Any) -> None:
    chat.replies = [reversing]
    assistant = with_llm(toy_index, chat)
    await assistant.search([statute("盗窃 诈骗", "量刑", top_k=2)])
    await assistant.search([statute("盗窃 诈骗", "量刑", top_k=3)])
    assert len(chat.requests) == 1


async def test_many_candidates_go_through_chunks_and_a_final(toy_index: Any, chat: Any) -> None:
    query = statute("有期徒刑 盗窃 诈骗 杀人 自首 防卫", top_k=5)
    chat.replies = [reversing]
    assistant = with_llm(toy_index, chat, rerank_chunk_chars=200, rerank_candidate_chars=60)
    (result,) = await assistant.search([query])
    assert len(chat.requests) >= 3
    (everything,) = LegalAssistant(toy_index).search_sync([query])
    assert sorted(ids(result)) == sorted(ids(everything)) and result.status is Status.OK


FAILURES: dict[str, Any] = {
    "500": 500,
    "hang": 1.0,
    "invalid JSON": "order: 1",
    "no list": '{"ranking": [1]}',
    "wrong indices": '{"order": [0, 77, -1, "2", true, null]}',
    "too long": (400, "maximum context length is 10"),
    "a list": "[1, 2]",
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
async def test_without_a_usable_llm_the_hybrid_order_answers_degraded(toy_index: Any, chat: Any, failure: Any) -> None:
    query = statute("盗窃 诈骗 有期徒刑", "量刑幅度", top_k=3)
    hybrid = toy_index.searcher.evidence(query, toy_index.statute_candidates([query], 30)[0])
    chat.replies = [failure]
    assistant = with_llm(toy_index, chat, llm_stage_deadline_s=0.4)
    (result,) = await assistant.search([query])
    assert result.status is Status.DEGRADED and result.reason.startswith("rerank: ")
    assert ids(result) == [unit.id for unit in hybrid[:3]]
    chat.replies = [reversing]
    (again,) = await assistant.search([query])
    assert again.status is Status.OK, "a degraded answer must not be remembered"


async def test_strange_numbers_beside_good_ones_are_passed_over(toy_index: Any, chat: Any) -> None:
    query = statute("盗窃 诈骗 有期徒刑", top_k=3)
    hybrid = toy_index.searcher.evidence(query, toy_index.statute_candidates([query], 30)[0])
    chat.replies = ['{"order": [99, 2, 2, 0]}']
    (result,) = await with_llm(toy_index, chat).search([query])
    assert ids(result) == [hybrid[1].id, hybrid[0].id, hybrid[2].id]


async def test_a_too_long_prompt_is_tried_again_shorter(toy_index: Any, chat: Any) -> None:
    chat.replies = [(400, "prompt is too long"), reversing]
    (result,) = await with_llm(toy_index, chat).search([statute("盗窃 诈骗", top_k=2)])
    first, second = (len(r["messages"][1]["content"]) for r in chat.requests)
    assert result.status is Status.OK and second < first


BRIEF = {"key_facts": "商场盗窃手机", "reasoning": "自首", "outcome": "盗窃罪", "sentence": "有期徒刑一年"}


async def test_llm_briefs_replace_the_texts_of_precedents(toy_index: Any, chat: Any) -> None:
    chat.replies = [json.dumps(BRIEF, ensure_ascii=False)]
    assistant = with_llm(toy_index, chat)
    query = precedent("商场盗窃手机", charge="盗窃罪", top_k=2)
    (result,) = await assistant.search([query])
    assert result.status is Status.OK and len(chat.requests) == 2
    court = next(case.court for case in toy_index.cases if case.id == result.evidence[0].id)
    assert result.evidence[0].text == f"{court}\n事实：商场盗窃手机\n理由：自首\n结果：盗窃罪\n量刑：有期徒刑一年"
    assert "llm" in result.evidence[0].provenance and result.evidence[0].psi is not None
    assert "本院" not in chat.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize("failure", [500, 1.0, "{}", '{"key_facts": "  ", "outcome": "x"}', (400, "context length")])
async def test_without_a_usable_brief_the_extractive_one_stays(toy_index: Any, chat: Any, failure: Any) -> None:
    query = precedent("商场盗窃手机", top_k=2)
    (extractive,) = LegalAssistant(toy_index).search_sync([query])
    good = json.dumps(BRIEF, ensure_ascii=False)
    chat.replies = [lambda body: good if "1千元" in body["messages"][1]["content"] else failure]
    (result,) = await with_llm(toy_index, chat, llm_stage_deadline_s=0.4).search([query])
    assert result.status is Status.DEGRADED and result.reason.startswith("brief: ")
    assert ids(result) == ids(extractive)
    for got, wanted in zip(result.evidence, extractive.evidence, strict=True):
        assert got.id == "case/1" or got.text == wanted.text


async def test_llm_stages_can_be_switched_off(toy_index: Any, chat: Any) -> None:
    assistant = with_llm(toy_index, chat, rerank_with_llm=False, summarise_with_llm=False)
    queries = [statute("盗窃", "量刑"), precedent("盗窃")]
    assert plain(await assistant.search(queries)) == plain(LegalAssistant(toy_index).search_sync(queries))
    assert not chat.requests
