"""The systems under test: one way to an answer per mode, all from the same parts.

plain       question ──────────────────────────────> answerer
judge_only  question ── no evidence ───────────────> Judge
hybrid      question ── one search, no LLM ────────> Judge          rerank: with the Assistant's LLM
full        question ── Lawyer's rollout ──────────> Judge          one_turn, three_turn: a fixed number of searches
oracle      question ── gold articles ─────────────> Judge          shuffled: one search with another question
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envs.env import EnvConfig, LegalEnv
from envs.errors import PolicyError
from envs.policy import Policy
from envs.prompt_files import fill
from envs.rendering import render_unit
from envs.rollout import run_rollout
from envs.types import Precedent, Question, Rollout, Statute
from legal_rl.evaluation.benchmarks.endpoints import ChatAnswerer, MeteredChatModel, MeteredPolicy, final_answer
from legal_rl.evaluation.benchmarks.records import NotApplicableError
from legal_rl.evaluation.benchmarks.samples import Sample
from legal_rl.evaluation.benchmarks.settings import FIXED_TURNS, BenchmarkConfig, RunMode, check_mode
from retrieval_server.citations import resolve_citations
from retrieval_server.errors import RetrievalError
from retrieval_server.types import MAX_QUERY_CHARS, Evidence, Retriever, SearchQuery, SearchResult, Source, Status

FIXED_PROMPT = Path(__file__).parent / "prompts" / "lawyer_fixed_turns.txt"
NO_EVIDENCE = "（无）"


@dataclass(frozen=True, slots=True)
class Answered:
    """One sample's way to its answer."""

    text: str
    """The final answer after the common post-processing: the prediction."""
    evidence: tuple[Evidence, ...] = ()
    queries: tuple[str, ...] = ()
    rollout: Rollout | None = None
    tool_s: float = 0.0
    degraded: int = 0
    """Searches that the Assistant answered without the LLM it should have asked."""
    made_up: int = 0
    """Searches with the question itself, in place of those that the Lawyer left out of a fixed number."""
    short: int = 0
    """Searches that are missing of a fixed number, where the Lawyer has already answered."""


@dataclass(frozen=True, slots=True)
class System:
    """The parts of one run, put together by `open_system`."""

    mode: RunMode
    config: BenchmarkConfig
    judge: ChatAnswerer | None = None
    lawyer: Policy | None = None
    tokenizer: Any = None
    retriever: Retriever | None = None

    async def answer(self, sample: Sample, neighbour: Sample) -> Answered:
        """Answer one sample.

        Args:
            neighbour: another sample, whose evidence the `shuffled` control gives.

        Raises:
            PolicyError: a model failed for good.
            RetrievalError: the Legal Assistant failed for good.
            NotApplicableError: the mode has nothing to do with this sample.
        """
        if self.judge is None:
            return await self._by_lawyer(sample)
        if self.mode == "plain":
            return Answered(final_answer(await self.judge.answer(sample.prompt, sample.task.max_tokens)))
        collected = await self._collect(sample, neighbour)
        prompt = judge_prompt(sample.prompt, collected, self.config.evidence_chars, sample.task.prompt)
        return replace(collected, text=final_answer(await self.judge.answer(prompt, sample.task.max_tokens)))

    async def _collect(self, sample: Sample, neighbour: Sample) -> Answered:
        """Evidence for the Judge; `text` is the Lawyer's own answer, if there is one."""
        if self.mode == "judge_only":
            return Answered("")
        if self.mode in ("hybrid", "rerank"):
            return await self._searched([_query(sample.prompt, self._intent(sample))])
        if self.mode == "shuffled":
            if neighbour.id == sample.id:
                raise NotApplicableError("shuffled: there is no other question whose evidence could be given")
            return await self._searched([_query(neighbour.prompt, self._intent(neighbour))])
        if self.mode == "oracle":
            return await self._gold(sample)
        found = _of_rollout(await self._rollout(sample))
        missing = FIXED_TURNS.get(self.mode, 0) - len(found.queries)
        return await self._made_up(sample, found, missing) if missing > 0 else found

    def _intent(self, sample: Sample) -> str:
        """The LLM orders by what is asked for; `shuffled` searches as `rerank` does, or as `hybrid` without an LLM."""
        ordered = self.mode == "rerank" or (self.mode == "shuffled" and self.config.assistant.llm is not None)
        return sample.instruction if ordered else ""

    async def _gold(self, sample: Sample) -> Answered:
        """The cited articles and nothing else: a search that finds another article is no oracle."""
        if not sample.gold:
            raise NotApplicableError("oracle: the question names no gold articles")
        found = await self._searched([_query(citation) for citation in sample.gold], top_k=1)
        cited = {name for citation in sample.gold for name in _article_names(citation)}
        right = tuple(unit for unit in found.evidence if _name_of(unit) in cited)
        if absent := cited - {_name_of(unit) for unit in right}:
            raise RetrievalError(f"oracle: the index does not hold {', '.join(sorted(absent))}")
        return replace(found, evidence=right)

    async def _made_up(self, sample: Sample, found: Answered, missing: int) -> Answered:
        """The Lawyer stopped before its fixed number of searches: the question takes the place of the missing ones.

        The whole question, then its facts without the instruction, then the precedents for them: the same search
        twice would find the same.
        """
        facts = sample.question
        asked = [_query(sample.prompt), _query(facts), _query(facts, source=Source.PRECEDENT)][:missing]
        more = await self._searched(asked)
        known = {unit.id for unit in found.evidence}
        fresh = tuple(unit for unit in more.evidence if unit.id not in known)
        return replace(
            found, evidence=found.evidence + fresh, queries=found.queries + more.queries,
            tool_s=found.tool_s + more.tool_s, degraded=found.degraded + more.degraded, made_up=missing,
        )  # fmt: skip

    async def _by_lawyer(self, sample: Sample) -> Answered:
        """Without a Judge the Lawyer's own answer counts; without evidence it has one turn, the answer."""
        found = _of_rollout(await self._rollout(sample))
        return replace(found, short=max(FIXED_TURNS.get(self.mode, 0) - len(found.queries), 0))

    async def _rollout(self, sample: Sample) -> Rollout:
        assert self.lawyer is not None
        question = Question(sample.id, sample.prompt, sample.reference)
        env = LegalEnv(self.retriever or _NoRetriever(), environment(self.config.environment, self.mode))
        rollout = await run_rollout(question, self.lawyer, env, self.tokenizer)
        if rollout.stop_reason.invalid:
            kind = RetrievalError if rollout.stop_reason.value == "retrieval_error" else PolicyError
            raise kind(f"{rollout.stop_reason.value}: {rollout.error}")
        return rollout

    async def _searched(self, queries: Sequence[SearchQuery], top_k: int | None = None) -> Answered:
        assert self.retriever is not None
        k = top_k or self.config.environment.top_k
        started = time.perf_counter()
        results = await self.retriever.search([query.model_copy(update={"top_k": k}) for query in queries])
        for result in results:
            if result.status is Status.ERROR:
                raise RetrievalError(f"the Legal Assistant failed: {result.reason or 'no reason given'}")
        units = {unit.id: unit for result in results for unit in result.evidence}
        return Answered(
            "", tuple(units.values()), tuple(query.query for query in queries),
            tool_s=time.perf_counter() - started, degraded=_degraded(results),
        )  # fmt: skip


def _query(text: str, intent: str = "", source: Source = Source.STATUTE) -> SearchQuery:
    """The end of a long question holds what is asked; its beginning is cut."""
    return SearchQuery(source=source, query=text[-MAX_QUERY_CHARS:], intent=intent[:MAX_QUERY_CHARS])


def _article_names(citation: str) -> list[str]:
    """刑法第133条之一 -> ["刑法#133-1"], the tail of the article's id without its version."""
    found = resolve_citations(citation)
    if not found:
        raise RetrievalError(f"oracle: the gold citation {citation!r} names no article")
    return [_name(c.law_key, c.article_no, c.article_sub) for c in found]


def _name_of(unit: Evidence) -> str:
    law, _, number = unit.id.rpartition("#")
    return f"{law.rpartition('/')[2].split('@')[0]}#{number}"


def _name(law: str, number: int, sub: int) -> str:
    return f"{law}#{number}-{sub}" if sub else f"{law}#{number}"


def _degraded(results: Iterable[SearchResult]) -> int:
    return sum(result.status is Status.DEGRADED for result in results)


class _NoRetriever:
    """Stands where a mode must not search."""

    async def search(self, queries: Sequence[SearchQuery]) -> list[Any]:
        raise RetrievalError("this mode does not retrieve")


def environment(config: EnvConfig, mode: str) -> EnvConfig:
    """The environment of a mode: one turn without retrieval, one more than the fixed searches, else as configured."""
    if mode in ("plain", "judge_only"):
        return config.model_copy(update={"max_turns": 1})
    if mode in FIXED_TURNS:
        # A tiny policy knows only the prompt that it was trained with.
        prompt = config.system_prompt if config.system_prompt.endswith("_compact") else str(FIXED_PROMPT)
        return config.model_copy(update={"max_turns": FIXED_TURNS[mode] + 1, "system_prompt": prompt})
    return config


def judge_prompt(question: str, collected: Answered, evidence_chars: int, prompt: str = "judge_answer") -> str:
    """The Judge's prompt (paper, appendix A.3): question, what was searched for, numbered evidence."""
    units = [render_unit(i, unit, evidence_chars) for i, unit in enumerate(collected.evidence, start=1)]
    steps = [f"{i}. 检索：{query[:200]}" for i, query in enumerate(collected.queries, start=1)]
    return fill(
        prompt,
        question=question,
        trajectory="\n".join(steps) or NO_EVIDENCE,
        evidence="\n".join(units) or NO_EVIDENCE,
    )


@asynccontextmanager
async def open_system(config: BenchmarkConfig, mode: RunMode) -> AsyncIterator[System]:
    """Connect to or load the parts that a mode needs; they are closed at the end.

    Raises:
        ConfigError: the settings lack a part.
        ModelError: the Lawyer's model cannot be loaded.
    """
    check_mode(config, mode)
    async with AsyncExitStack() as stack:
        judge = ChatAnswerer(config.judge) if config.judge else None
        if judge:
            judge.open()
            stack.push_async_callback(judge.aclose)
        needs_lawyer = judge is None or mode in FIXED_TURNS or mode in ("full", "no_rerank", "no_summary")
        lawyer, tokenizer = await _open_lawyer(config, stack) if needs_lawyer else (None, None)
        retriever = None if mode in ("plain", "judge_only") else _open_retriever(config, mode, stack)
        yield System(mode, config, judge, lawyer, tokenizer, retriever)


async def _open_lawyer(config: BenchmarkConfig, stack: AsyncExitStack) -> tuple[Policy, Any]:
    if config.lawyer is not None:
        policy = MeteredPolicy(config.lawyer)
        policy.answerer.open()
        stack.push_async_callback(policy.aclose)
        return policy, None
    from legal_rl.evaluation.lawyer import EnginePolicy
    from legal_rl.evaluation.local_engine import LocalEngine
    from legal_rl.evaluation.ray_engines import RayEngines

    folder, copies = Path(config.lawyer_model), config.lawyer_replicas
    if copies > 1:
        pool = RayEngines(folder, config.engine, copies, config.gpus_per_replica)
        engine: LocalEngine | RayEngines = await stack.enter_async_context(pool)
    else:
        engine = await stack.enter_async_context(LocalEngine(folder, config.engine))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(config.lawyer_model)
    return EnginePolicy(engine, tokenizer), tokenizer


def _open_retriever(config: BenchmarkConfig, mode: RunMode, stack: AsyncExitStack) -> Retriever:
    if not config.index_dir:
        from retrieval_server.client import AssistantClient

        client = AssistantClient(config.retrieval_url, outage_patience_s=config.outage_patience_s)
        stack.push_async_callback(client.aclose)
        return client
    from retrieval_server.assistant import LegalAssistant
    from retrieval_server.index import open_index

    changes: dict[str, dict[str, Any]] = {
        "hybrid": {"llm": None},
        "no_rerank": {"rerank_with_llm": False},
        "no_summary": {"summarise_with_llm": False},
    }
    settings = config.assistant.model_copy(update=changes.get(mode))
    llm = MeteredChatModel(settings.llm) if settings.llm else None
    if llm:
        stack.push_async_callback(llm.aclose)
    assistant = LegalAssistant(open_index(Path(config.index_dir)), settings, llm)
    assistant.warm_up()
    return assistant


def _of_rollout(rollout: Rollout) -> Answered:
    """Searches are those that were made: the last turn's request is read, but never answered."""
    made = [turn for turn in rollout.turns if turn.result is not None]
    queries = tuple(turn.action.query for turn in made if isinstance(turn.action, Statute | Precedent))
    tool_s = sum(turn.tool_s for turn in rollout.turns)
    degraded = _degraded(turn.result for turn in made if turn.result)
    return Answered(final_answer(rollout.answer), rollout.evidence, queries, rollout, tool_s, degraded)
