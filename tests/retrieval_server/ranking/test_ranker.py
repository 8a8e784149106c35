"""The learned ranking on a toy knowledge base: charges, everyday words, validity, order and odd input."""

from __future__ import annotations

import json
import random
from datetime import date
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from retrieval_server.assistant import LegalAssistant
from retrieval_server.config import AssistantConfig
from retrieval_server.errors import IndexStateError
from retrieval_server.index import build_index
from retrieval_server.legal_index import LegalIndex
from retrieval_server.ranking import trees
from retrieval_server.ranking.features import FEATURES
from retrieval_server.ranking.lexicon import lay_terms, statutory_terms
from retrieval_server.ranking.priors import citation_priors
from retrieval_server.ranking.trees import TreeModel, load_model
from retrieval_server.types import Article, SearchQuery, Source, Status


def article(law: str, number: int, text: str, version: str = "2020-01-01", **more: object) -> Article:
    return Article(
        id=f"law/{law}@{version}#{number}", kind="law", law_title=law, law_key=law, version_date=version,
        effective_date=version, article_no=number, article_label=f"第{number}条", text=text, **more,
    )  # fmt: skip


ARTICLES = [
    article("刑法", 264, "盗窃公私财物，数额较大的，处三年以下有期徒刑。"),
    article("刑法", 266, "诈骗公私财物，数额较大的，处三年以下有期徒刑。"),
    article("刑法", 133, "违反交通运输管理法规，因而发生重大事故的，处三年以下有期徒刑或者拘役。"),
    article("劳动合同法", 30, "用人单位应当及时足额支付劳动报酬。用人单位拖欠劳动报酬的，劳动者可以申请支付令。"),
    article("劳动合同法", 47, "经济补偿按劳动者在本单位工作的年限支付。", "2008-01-01", in_force_until="2013-01-01"),
    article("劳动合同法", 47, "经济补偿按劳动者在本单位工作的年限，每满一年支付一个月工资。", "2013-01-01"),
    article("民法典", 675, "借款人应当按照约定的期限返还借款。依照《刑法》第二百六十四条处罚的除外。"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> LegalIndex:
    folder: Path = tmp_path_factory.mktemp("ranking")
    path = folder / "norms.jsonl"
    path.write_text("".join(a.model_dump_json() + "\n" for a in ARTICLES), encoding="utf-8")
    return build_index(folder / "index", [str(path)], (), "none")


@pytest.fixture(scope="module")
def assistant(index: LegalIndex) -> LegalAssistant:
    return LegalAssistant(index, AssistantConfig(ranking="learned"))


def ask(assistant: LegalAssistant, text: str, **more: object) -> list[str]:
    answer = assistant.search_sync([SearchQuery(source=Source.STATUTE, query=text, **more)])[0]
    assert answer.status in (Status.OK, Status.EMPTY), answer.reason
    return [unit.id.split("/")[1] for unit in answer.evidence]


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("罪名:诈骗。", "刑法@2020-01-01#266"),
        ("老板一直欠薪怎么办", "劳动合同法@2020-01-01#30"),
        ("民法典第675条", "民法典@2020-01-01#675"),
    ],
)
def test_the_right_article_leads(assistant: LegalAssistant, text: str, best: str) -> None:
    assert ask(assistant, text)[0] == best


def test_only_the_version_in_force_is_searched(assistant: LegalAssistant) -> None:
    assert "劳动合同法@2008-01-01#47" not in ask(assistant, "经济补偿怎么算工作年限")
    assert ask(assistant, "经济补偿怎么算工作年限", as_of=date(2010, 1, 1))[:1] == ["劳动合同法@2008-01-01#47"]


def test_answers_do_not_depend_on_the_batch(assistant: LegalAssistant) -> None:
    texts = ["老板欠薪", "盗窃", "借款不还", "😀", "第9999999条", "' OR 1=1 --", "ｶﾞｷﾞ", "第零条"]
    queries = [SearchQuery(source=Source.STATUTE, query=t) for t in texts]
    alone = [assistant.search_sync([q])[0].evidence for q in queries]
    assert [a.evidence for a in LegalAssistant(assistant.index, assistant.config).search_sync(queries)] == alone


def test_hostile_queries_are_answered(assistant: LegalAssistant) -> None:
    rng = random.Random(0)
    pieces = [
        "第零条",
        "第9999999条",
        "\ud800",
        "\x00",
        "😀",
        "' OR 1=1",
        "ｱｲｳ",
        "《" * 40,
        "罪名:",
        "第1000-9条",
        "刑法",
        "款项",
        "\u202e",
    ]
    texts = ["".join(rng.choices(pieces, k=rng.randint(1, 12))) for _ in range(300)] + ["盗" * 4_000, "第条" * 2_000]
    answers = [assistant.search_sync([SearchQuery.model_construct(source=Source.STATUTE, query=t)])[0] for t in texts]
    assert {answer.status for answer in answers} <= {Status.OK, Status.EMPTY}


def test_citation_priors_count_other_laws_only() -> None:
    laws = {"刑法": 0, "劳动合同法": 1, "民法典": 2}
    law_prior, article_prior = citation_priors(ARTICLES, laws)
    assert law_prior == pytest.approx([1, 0, 0])
    assert article_prior == pytest.approx([1, 0, 0, 0, 0, 0, 0])


def test_everyday_words_become_statutory_terms() -> None:
    assert "用人单位" in statutory_terms("老板不给钱")
    assert statutory_terms("矿产资源") == ""
    assert all(words and terms for words, terms in lay_terms())


def test_trees_by_hand() -> None:
    zero = np.zeros(1, dtype=np.int32)
    model = TreeModel(
        np.array([1, -1, -1], np.int32), np.array([0.5, 0, 0], np.float32), np.array([1, 0, 0], np.int32),
        np.array([2, 0, 0], np.int32), np.array([0, -1, 2], np.float32), zero, base=0.25, mixed_weight=2.0,
    )  # fmt: skip
    features = np.zeros((2, len(FEATURES)), dtype=np.float32)
    features[1, 1], features[1, FEATURES.index("mixed")] = 0.6, 1.5
    assert model.score(features).tolist() == [-0.75, 5.25]


def test_a_model_for_other_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(load_model().feature_M) == len(load_model().value_M)
    record = json.loads((files("retrieval_server.ranking") / "model.json").read_text(encoding="utf-8"))
    assert record["features"] == list(FEATURES)
    monkeypatch.setattr(trees, "FEATURES", (*FEATURES, "new"))
    load_model.cache_clear()
    with pytest.raises(IndexStateError, match="fitted for other features"):
        load_model()
    load_model.cache_clear()
