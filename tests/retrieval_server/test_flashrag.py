"""FlashRAG's files and classes: both directions, with its newest release where it is installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envs.types import Question, Reference
from legal_rl.data.readers.flashrag import read_dataset, write_dataset
from legal_rl.data.readers.lines import DataError
from retrieval_server.assistant import LegalAssistant
from retrieval_server.corpus import load_articles
from retrieval_server.errors import CorpusError, RetrievalError
from retrieval_server.flashrag import AssistantRetriever, FlashRAGBackend, write_corpus
from retrieval_server.index import build_index
from retrieval_server.types import SearchQuery, SearchResult, Source, Status

INSTALLED = all(importlib.util.find_spec(name) for name in ("flashrag", "langid", "termcolor", "datasets", "torch"))
needs_flashrag = pytest.mark.skipif(not INSTALLED, reason="flashrag is not installed (requirements/no-deps.txt)")


def test_a_corpus_goes_out_and_comes_in_again(toy_index: Any, tmp_path: Path) -> None:
    count = write_corpus(toy_index.articles, tmp_path / "corpus.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text("utf-8").splitlines()]
    assert count == len(rows) == len(toy_index.articles) and set(rows[0]) == {"id", "contents"}
    assert rows[0]["contents"].startswith("中华人民共和国刑法 第二百六十四条\n盗窃公私财物")
    articles = list(load_articles(f"flashrag:{tmp_path / 'corpus.jsonl'}"))
    assert [article.id for article in articles] == [row["id"] for row in rows]
    index = build_index(tmp_path / "index", f"flashrag:{tmp_path / 'corpus.jsonl'}", (), "none")
    (result,) = LegalAssistant(index).search_sync([SearchQuery(source=Source.STATUTE, query="盗窃公私财物", top_k=1)])
    assert result.evidence[0].id == rows[0]["id"]


@pytest.mark.parametrize(
    ("line", "text"),
    [("{", "line 1: not valid JSON"), ('{"contents": "x"}', "field 'id'"), ('{"id": 1, "contents": ""}', "'contents'")],
)
def test_a_broken_corpus_line_is_named(tmp_path: Path, line: str, text: str) -> None:
    (tmp_path / "c.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=text):
        list(load_articles(f"flashrag:{tmp_path / 'c.jsonl'}"))


def test_a_dataset_goes_out_and_comes_in_again(tmp_path: Path) -> None:
    asked = Question(
        id="q1", text="盗窃罪规定在哪一条？", answer="刑法第二百六十四条", grader="articles", family="locate",
        split="test",
        choices=(), reference=Reference(evidence_ids=("law/刑法@2024-03-01#264",)), metadata={"law": "刑法"},
    )  # fmt: skip
    assert write_dataset([asked], tmp_path / "test.jsonl") == 1
    assert list(read_dataset(tmp_path / "test.jsonl")) == [asked]
    (tmp_path / "other.jsonl").write_text('{"id": "n1", "question": "x", "golden_answers": []}\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 1: field 'golden_answers'"):
        list(read_dataset(tmp_path / "other.jsonl"))


def test_our_assistant_has_the_two_methods(toy_index: Any) -> None:
    retriever = AssistantRetriever(LegalAssistant(toy_index), topk=2)
    documents, scores = retriever.search("刑法第264条", return_score=True)
    assert documents[0]["title"] == "中华人民共和国刑法 第二百六十四条" and scores[0] == 1.0 and len(documents) == 2
    assert set(documents[0]) == {"id", "contents", "title", "text"}
    assert [len(found) for found in retriever.batch_search(["盗窃", "诈骗"], num=1)] == [1, 1]


class Broken:
    def search_sync(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        return [SearchResult(status=Status.ERROR, reason="the index is gone") for _ in queries]


def test_an_outage_is_an_error_in_both_directions() -> None:
    import asyncio
    import time

    with pytest.raises(RetrievalError, match="the index is gone"):
        AssistantRetriever(Broken()).search("盗窃")

    class Raises:
        def batch_search(self, query: list[str], num: int, return_score: bool) -> Any:
            raise OSError("disk")

    class Slow:
        def batch_search(self, query: list[str], num: int, return_score: bool) -> Any:
            time.sleep(0.5)

    asked = [SearchQuery(source=Source.STATUTE, query="盗窃")]
    with pytest.raises(RetrievalError, match="OSError: disk"):
        asyncio.run(FlashRAGBackend(Raises()).search(asked))
    with pytest.raises(RetrievalError, match=r"no answer within 0\.05 s"):
        asyncio.run(FlashRAGBackend(Slow(), timeout_s=0.05).search(asked))


BASE = {
    "retrieval_method": "toy", "retrieval_topk": 3, "index_path": None, "save_retrieval_cache": False,
    "use_retrieval_cache": False, "retrieval_cache_path": None, "use_reranker": False, "silent_retrieval": True,
}  # fmt: skip


@needs_flashrag
@pytest.mark.slow
async def test_their_retriever_answers_our_searches(toy_index: Any, tmp_path: Path) -> None:
    """A retriever on FlashRAG's own base class, over a corpus that FlashRAG loads; the engine is bm25s."""
    from flashrag.retriever.retriever import BaseTextRetriever
    from flashrag.retriever.utils import load_corpus

    from retrieval_server.segmentation import Segmenter
    from retrieval_server.sparse import SparseIndex

    write_corpus(toy_index.articles, tmp_path / "corpus.jsonl")

    class Sparse(BaseTextRetriever):
        def update_additional_setting(self) -> None:
            self.corpus = load_corpus(self.corpus_path)
            self.segment = Segmenter()
            self.engine = SparseIndex.build(self.segment.terms(row["contents"]) for row in self.corpus)

        def _batch_search(self, query: list[str], num: int | None = None, return_score: bool = False) -> Any:
            hits = self.engine.search([self.segment.terms(text) for text in query], num or self.topk)
            documents = [[self.corpus[int(row)] for row in hit.rows_N] for hit in hits]
            scores = [hit.scores_N.tolist() for hit in hits]
            return (documents, scores) if return_score else documents

    backend = FlashRAGBackend(Sparse(BASE | {"corpus_path": str(tmp_path / "corpus.jsonl")}))
    asked = [
        SearchQuery(source=Source.STATUTE, query=text, top_k=2) for text in ("盗窃公私财物", "诈骗公私财物", "zzz")
    ]
    theft, fraud, nothing = await backend.search(asked)
    assert theft.evidence[0].id.endswith("#264") and fraud.evidence[0].id.endswith("#266")
    assert theft.evidence[0].score == 1.0 and theft.evidence[0].text.startswith("盗窃") and len(theft.evidence) == 2
    assert nothing.status is Status.EMPTY


@needs_flashrag
@pytest.mark.slow
def test_our_assistant_works_in_their_pipeline(toy_index: Any, tmp_path: Path) -> None:
    from flashrag.dataset import Dataset
    from flashrag.pipeline import SequentialPipeline
    from flashrag.prompt import PromptTemplate

    class Echo:
        """Answers with the label in the first line of the reference."""

        def generate(self, prompts: list[Any], **_: Any) -> list[str]:
            texts = [
                prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False) for prompt in prompts
            ]
            return ["第二百六十四条" if "第二百六十四条" in text else "不知道" for text in texts]

    questions = [Question(id="q", text="盗窃公私财物规定在哪一条？", answer="第二百六十四条", grader="contains")]
    write_dataset(questions, tmp_path / "test.jsonl")
    config = BASE | {
        "device": "cpu", "save_dir": str(tmp_path), "save_metric_score": False, "save_intermediate_data": False,
        "metrics": ["acc"], "use_fid": False, "refiner_name": None, "framework": "hf", "generator_model": "none",
        "is_reasoning": False, "dataset_name": "toy", "generator_max_input_len": 2048, "metric_setting": {},
    }  # fmt: skip
    config["model2path"] = {}
    template = PromptTemplate.__new__(PromptTemplate)
    template.get_string = lambda question, retrieval_result=None, **_: f"{retrieval_result[0]['contents']}\n{question}"
    retriever = AssistantRetriever(LegalAssistant(toy_index), topk=1)
    pipeline = SequentialPipeline(config, template, retriever=retriever, generator=Echo())
    done = pipeline.run(Dataset(config, dataset_path=str(tmp_path / "test.jsonl")), do_eval=False)
    assert done.pred == ["第二百六十四条"] and done.retrieval_result[0][0]["id"].endswith("#264")
