"""The index folder: built whole or not at all, reopened fast, rebuilt when inputs change, refused when damaged."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.citations import resolve_citations
from retrieval_server.errors import CorpusError, IndexStateError
from retrieval_server.index import build_index, ensure_index, open_index
from retrieval_server.legal_index import LegalIndex
from retrieval_server.manifest import read_manifest
from retrieval_server.types import Case, CourtLevel, SearchQuery, Source

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))


class LetterEncoder:
    """A cheap encoder: counts of some characters. Tells how many texts it was given."""

    spec = "letters"
    version = "1"
    dim = 8

    def __init__(self) -> None:
        self.count = 0

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.count += len(texts)
        rows = np.array([[t.count(c) + 0.01 for c in "盗抢骗伤财车交公"] for t in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def norm(law: str, no: int, text: str, version: str = "2020-01-01", **more: object) -> dict[str, object]:
    sub = more.pop("sub", 0)
    return {
        "id": f"law/{law}@{version}#{no}" + (f"-{sub}" if sub else ""),
        "kind": "law",
        "law_title": f"中华人民共和国{law}",
        "law_key": law,
        "version_date": version,
        "effective_date": version,
        "article_no": no,
        "article_sub": sub,
        "article_label": f"第{no}条",
        "text": text,
    } | more


NORMS = [
    norm("刑法", 264, "盗窃公私财物，数额较大的，处三年以下有期徒刑。"),
    norm("刑法", 263, "以暴力抢劫公私财物的，处三年以上有期徒刑。"),
    norm("刑法", 133, "违反交通运输管理法规，发生重大事故的，处三年以下有期徒刑。"),
    norm("刑法", 133, "在道路上醉酒驾驶机动车的，处拘役，并处罚金。", sub=1),
    norm("公司法", 16, "公司向其他企业投资或者为他人提供担保，依照公司章程。"),
    norm("公司法", 16, "公司应当保护职工的合法权益。", version="2024-07-01"),
]
CASES = [
    Case(
        id="c1", court="某县人民法院", court_level=CourtLevel.PRIMARY, charges=("盗窃罪",), facts="被告人盗窃手机一部。"
    ),
    Case(
        id="c2", court="某市中级人民法院", court_level=CourtLevel.INTERMEDIATE, charges=("抢劫罪",), facts="持刀抢劫。"
    ),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "norms.jsonl"
    path.write_text("".join(json.dumps(n, ensure_ascii=False) + "\n" for n in NORMS), encoding="utf-8")
    return path


@pytest.fixture
def index(tmp_path: Path, corpus: Path) -> LegalIndex:
    return build_index(tmp_path / "index", corpus, CASES, LetterEncoder())


def statute(query: str, as_of: date | None = None, intent: str = "", top_k: int = 3) -> SearchQuery:
    return SearchQuery(source=Source.STATUTE, query=query, as_of=as_of, intent=intent, top_k=top_k)


def test_reopening_gives_the_same_index(index: LegalIndex, tmp_path: Path) -> None:
    again = open_index(tmp_path / "index", encoder=LetterEncoder())
    assert (again.articles, again.cases, again.version) == (index.articles, index.cases, index.version)
    query = statute("盗窃财物", intent="量刑")
    assert again.searcher.search([query]) == index.searcher.search([query])


def test_manifest(index: LegalIndex, tmp_path: Path) -> None:
    manifest = read_manifest(tmp_path / "index")
    assert (manifest.articles, manifest.laws, manifest.cases, manifest.dim) == (6, 3, 2, 8)
    assert (manifest.recipe.encoder, manifest.recipe.segmenter) == ("letters", "rjieba-legal")
    assert {"articles.jsonl", "cases.jsonl", "statutes-dense.npy"} <= set(manifest.files)
    assert len(index.version) == 12


def test_articles_by_law_number_and_day(index: LegalIndex) -> None:
    article = index.article("刑法", 133, 1)
    assert article is not None and article.id == "law/刑法@2020-01-01#133-1"
    assert index.by_id(article.id) is article and index.by_id("law/none#1") is None
    assert index.article("中华人民共和国刑法", 264) == index.article("刑法典", 264) == index.articles[0]
    assert index.article("刑法", 999) is None and index.article("某法", 1) is None
    versions = [index.article("公司法", 16, as_of=date(*day)) for day in ((2024, 6, 30), (2024, 7, 1))]
    assert [v.version_date for v in versions if v] == ["2020-01-01", "2024-07-01"]


def test_resolving_citations(index: LegalIndex) -> None:
    (citation,) = resolve_citations("《刑法》第一百三十三条之一", index.titles)
    resolved = index.resolve(citation)
    assert resolved is not None and resolved.article_sub == 1
    (lawless,) = resolve_citations("第一百三十三条")
    assert index.resolve(lawless) is None


def test_candidates(index: LegalIndex) -> None:
    (found,) = index.statute_candidates([statute("抢劫")], 2)
    assert found[0].article.article_no == 263
    queries = [SearchQuery(source=Source.PRECEDENT, query="持刀", charge="抢劫罪"), statute("盗窃手机")]
    cases = index.case_candidates(queries, 1)
    assert [c[0].case.id for c in cases] == ["c2", "c1"] and 0 < cases[0][0].relevance <= 1
    index.warm_up()


def test_unchanged_inputs_open_changed_ones_rebuild(index: LegalIndex, tmp_path: Path, corpus: Path) -> None:
    manifest = tmp_path / "index" / "manifest.json"
    before = manifest.read_bytes()
    encoder = LetterEncoder()
    assert ensure_index(tmp_path / "index", corpus, CASES, encoder).version == index.version
    assert manifest.read_bytes() == before and encoder.count == 0
    with corpus.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(norm("刑法", 266, "诈骗公私财物的，处三年以下有期徒刑。"), ensure_ascii=False) + "\n")
    rebuilt = ensure_index(tmp_path / "index", corpus, CASES, encoder)
    assert rebuilt.version != index.version and len(rebuilt.articles) == 7
    # Only the new article was encoded.
    assert encoder.count == 1
    assert not ensure_index(tmp_path / "index", corpus, (), "none").cases


def test_vectors_taken_over_are_those_of_a_fresh_build(index: LegalIndex, tmp_path: Path, corpus: Path) -> None:
    more = [*CASES, Case(id="c3", court="", court_level=CourtLevel.UNKNOWN, facts="骗取公共财物。")]
    grown = build_index(tmp_path / "index", corpus, more, LetterEncoder())
    fresh = build_index(tmp_path / "fresh", corpus, more, LetterEncoder())
    assert grown.precedents.dense is not None and fresh.precedents.dense is not None
    assert grown.precedents.dense.vectors_ND == pytest.approx(fresh.precedents.dense.vectors_ND, abs=1e-3)


@pytest.mark.parametrize("name", ["articles.jsonl", "statutes-dense.npy", "statutes-bm25/data.csc.index.npy"])
def test_a_damaged_file_is_named_with_the_command(index: LegalIndex, tmp_path: Path, name: str) -> None:
    path = tmp_path / "index" / name
    path.write_bytes(path.read_bytes() + b"?")
    with pytest.raises(IndexStateError, match=rf"{name} was changed; run `legal-rl index build .* --encoder "):
        open_index(tmp_path / "index")
    path.unlink()
    with pytest.raises(IndexStateError, match=rf"{name} is missing; run `legal-rl index build "):
        open_index(tmp_path / "index")


def test_a_damaged_index_is_built_anew(index: LegalIndex, tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "index" / "cases.jsonl").write_text("{}\n")
    assert ensure_index(tmp_path / "index", corpus, CASES, LetterEncoder()).version == index.version
    open_index(tmp_path / "index", encoder=LetterEncoder())


def test_unverified_damage_is_still_one_clear_error(index: LegalIndex, tmp_path: Path) -> None:
    (tmp_path / "index" / "cases.jsonl").write_text("{}\n")
    with pytest.raises(IndexStateError, match="index is damaged"):
        open_index(tmp_path / "index", verify=False, encoder=LetterEncoder())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no index here"),
        ("{", "damaged"),
        ("[]", "index format None"),
        ('{"recipe": {"format_version": 99}}', "index format 99"),
        ('{"recipe": {"format_version": 1}}', "damaged"),
    ],
)
def test_manifests_that_cannot_be_used(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(IndexStateError, match=f"{message}.*run `legal-rl index build "):
        open_index(tmp_path)


def test_another_segmenter_is_refused(index: LegalIndex, tmp_path: Path) -> None:
    path = tmp_path / "index" / "manifest.json"
    content = json.loads(path.read_text())
    content["recipe"]["segmenter_version"] = "0.0.1+old"
    path.write_text(json.dumps(content))
    with pytest.raises(IndexStateError, match=r"built with segmenter 0\.0\.1\+old"):
        open_index(tmp_path / "index")


def test_a_failed_build_leaves_the_old_index_and_no_scraps(index: LegalIndex, tmp_path: Path, corpus: Path) -> None:
    class Failing(LetterEncoder):
        version = "2"

        def encode(self, texts: Sequence[str]) -> np.ndarray:
            raise OSError(28, "No space left on device")

    with pytest.raises(IndexStateError, match="No space left on device"):
        build_index(tmp_path / "index", corpus, CASES, Failing())
    assert open_index(tmp_path / "index", encoder=LetterEncoder()).version == index.version
    assert sorted(p.name for p in tmp_path.iterdir()) == ["index", "norms.jsonl"]


def test_places_that_cannot_be_used(tmp_path: Path, corpus: Path) -> None:
    with pytest.raises(IndexStateError, match="holds files but no index"):
        build_index(tmp_path, corpus, (), "none")
    with pytest.raises(IndexStateError, match="cannot be written"):
        build_index(corpus / "index", corpus, (), "none")


def test_progress_is_told(tmp_path: Path, corpus: Path) -> None:
    told: list[tuple[str, int, int]] = []
    build_index(tmp_path / "i", corpus, CASES, LetterEncoder(), lambda *step: told.append(step))
    assert told == [("encode statutes", 6, 6), ("encode precedents", 2, 2)]


def test_cases_by_spec(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("not json\n")
    for spec in (path, [path]):
        with pytest.raises(CorpusError, match=r"cases\.jsonl"):
            build_index(tmp_path / "i", corpus, spec, "none")


def test_the_default_corpus_opens_in_two_seconds(tmp_path: Path) -> None:
    built = build_index(tmp_path / "index", encoder="none")
    assert len(built.articles) == 26_196
    started = time.perf_counter()
    open_index(tmp_path / "index")
    assert time.perf_counter() - started < 2


@pytest.mark.slow
def test_recitation_questions_find_their_article_first(tmp_path: Path) -> None:
    import gzip

    if not (DATA / "norms.jsonl.gz").exists():
        pytest.skip("norms.jsonl.gz is not here (LEGAL_RL_DATA)")
    opened = build_index(tmp_path / "index", DATA / "norms.jsonl.gz", encoder="none")
    lines = gzip.decompress((DATA / "statute_queries.jsonl.gz").read_bytes()).decode().splitlines()
    asked = [q for q in map(json.loads, lines) if q["type"] == "article_recitation"]
    answers = opened.searcher.search([statute(q["query"], top_k=1) for q in asked])
    hits = [bool(a) and a[0].id in q["gold"] for q, a in zip(asked, answers, strict=True)]
    assert np.mean(hits) > 0.97
