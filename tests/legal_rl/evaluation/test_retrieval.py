"""Retrieval quality from files: a toy corpus through the real index and Assistant, and all ways a file can be wrong."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from envs.types import Question, Reference
from legal_rl.evaluation.reference_queries import reference_query_quality, reference_searches
from legal_rl.evaluation.retrieval import evaluate_retrieval, read_gold_queries
from retrieval_server.errors import CorpusError, RetrievalError
from retrieval_server.types import Evidence, SearchQuery, SearchResult, Source, Status

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[3].parent / "shared" / "data"))
TEXTS = {
    1: "盗窃公私财物，数额较大的，处三年以下有期徒刑。",
    2: "故意毁坏文物的，处罚金。",
    3: "渔业捕捞应当取得许可。",
}


def article(number: int, text: str) -> dict[str, object]:
    return {
        "id": f"law/试验法@2020-01-01#{number}", "kind": "law", "law_title": "试验法", "law_key": "试验法",
        "version_date": "2020-01-01", "is_latest": True, "superseded_by": None, "effective_date": "2020-01-01",
        "part": "", "chapter": "", "section": "", "article_no": number, "article_sub": 0,
        "article_label": f"第{'一二三'[number - 1]}条", "text": text,
    }  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "norms.jsonl"
    write(path, [article(number, text) for number, text in TEXTS.items()])
    return path


def write(path: Path, rows: Sequence[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def query(name: str, text: str, gold: list[int], kind: str = "lay") -> dict[str, object]:
    return {"id": name, "query": text, "type": kind, "gold_latest": [f"law/试验法@2020-01-01#{g}" for g in gold]}


def test_a_toy_corpus_is_answered(tmp_path: Path, corpus: Path) -> None:
    rows = [
        query("a", "盗窃财物怎么处罚", [1]),
        query("b", "试验法第三条", [3], "citation"),
        query("c", "没有当前条文的问题", []),
        query("d", "另一部法律", [9]),
    ]
    result = evaluate_retrieval([str(corpus)], write(tmp_path / "q.jsonl", rows), k=3)
    assert result["n"] == 2 and result["articles"] == 3
    assert result["skipped"] == {"no_current_gold": 1, "gold_not_indexed": 1}
    assert result["overall"] == {"ndcg": 1.0, "recall": 1.0, "mrr": 1.0, "hit": 1.0, "n": 2}
    assert set(result["by_type"]) == {"lay", "citation"}
    assert result["latency_ms"]["n"] == 2 and 0 < result["latency_ms"]["p50"] <= result["latency_ms"]["p95"]
    json.dumps(result, allow_nan=False)


def test_limit_gzip_and_a_kept_index(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "q.jsonl.gz"
    rows = [query(str(n), "盗窃财物", [1]) for n in range(5)]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    result = evaluate_retrieval([str(corpus)], path, index_dir=tmp_path / "kept", limit=2)
    assert result["n"] == 2 and (tmp_path / "kept" / "manifest.json").exists()
    again = evaluate_retrieval([str(corpus)], path, index_dir=tmp_path / "kept", limit=2)
    assert again["overall"] == result["overall"]


def test_no_query_fits_the_corpus(tmp_path: Path, corpus: Path) -> None:
    with pytest.raises(CorpusError, match="no query has all its gold articles"):
        evaluate_retrieval([str(corpus)], write(tmp_path / "q.jsonl", [query("a", "问", [9])]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not valid JSON"),
        ("3", "line 2: must be a JSON object"),
        ('{"query": "x", "gold": []}', "line 2: field 'id'"),
        ('{"id": "z", "query": " ", "gold": []}', "line 2: field 'query'"),
        ('{"id": "z", "query": "x"}', "line 2: field 'gold_latest'"),
        ('{"id": "z", "query": "x", "gold": [1]}', "line 2: field 'gold_latest'"),
        ('{"id": "ok", "query": "x", "gold": []}', "line 2: field 'id': 'ok' stands twice"),
    ],
)
def test_wrong_query_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": "ok", "query": "问", "gold": ["a"]}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=message):
        list(read_gold_queries(path))


def test_unreadable_query_files(tmp_path: Path) -> None:
    for name, content in (("q.jsonl.gz", b"no gzip"), ("q.jsonl", b"\xff\xfe")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CorpusError, match="cannot be read"):
            list(read_gold_queries(tmp_path / name))
    with pytest.raises(CorpusError, match="cannot be read"):
        list(read_gold_queries(tmp_path / "none.jsonl"))


def test_the_shared_queries_can_be_read() -> None:
    path = DATA / "statute_queries.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    queries = list(read_gold_queries(path))
    assert len(queries) == 3751
    assert sum(bool(q.gold) for q in queries) > 3600


class ToyAssistant:
    """Remembers what it was asked; `broken` answers with an error."""

    def __init__(self, answers: dict[str, list[str]], broken: bool = False) -> None:
        self.answers, self.broken, self.asked = answers, broken, []

    def search_sync(self, queries: Sequence[SearchQuery]) -> list[SearchResult]:
        self.asked += queries
        if self.broken:
            return [SearchResult(status=Status.ERROR, reason="index gone")] * len(queries)
        return [self._answer(query) for query in queries]

    def _answer(self, query: SearchQuery) -> SearchResult:
        units = tuple(
            Evidence(id=name, source=query.source, title="试验法", text="…")
            for name in self.answers.get(query.query, ())
        )
        return SearchResult(status=Status.OK if units else Status.EMPTY, evidence=units)


def question(name: str, family: str, reference: Reference | None) -> Question:
    return Question(name, "问", "答", family=family, reference=reference, as_of="2021-05-01")


QUESTIONS = [
    question("a", "recite", Reference(("statute", "stop"), ("x",), queries=("qa",))),
    question("b", "compare", Reference(("precedent", "precedent", "stop"), ("m", "n"), queries=("q1", "q2"))),
    question("c", "direct", Reference(("stop",))),
    question("d", "direct", None),
]


def test_reference_queries_by_family_and_source() -> None:
    assistant = ToyAssistant({"qa": ["y", "x"], "q1": ["m"], "q2": ["z", "n"]})
    result = reference_query_quality(QUESTIONS, assistant, k=4)
    assert [(q.source, q.query, str(q.as_of), q.top_k) for q in assistant.asked] == [
        (Source.STATUTE, "qa", "2021-05-01", 4),
        (Source.PRECEDENT, "q1", "2021-05-01", 4),
        (Source.PRECEDENT, "q2", "2021-05-01", 4),
    ]
    assert (result["n"], result["queries"], result["without_reference"]) == (2, 3, 2)
    assert result["by_type"]["recite"]["mrr"] == 0.5
    # q1 and q2 interleaved: m, z, n
    assert result["by_type"]["compare"]["recall"] == 1.0
    assert result["by_source"]["precedent"]["ndcg"] == pytest.approx(1.5 / (1 + 1 / 1.5849625007211562))
    assert set(result["ci95"]["by_type"]) == {"recite", "compare"}


def test_an_outage_is_never_an_empty_answer() -> None:
    with pytest.raises(RetrievalError, match="index gone"):
        reference_query_quality(QUESTIONS, ToyAssistant({}, broken=True))


def test_queries_of_stop_actions_do_not_exist() -> None:
    assert reference_searches(QUESTIONS[2], 5) == [] and reference_searches(QUESTIONS[3], 5) == []
