"""Chinese text becomes words, not clauses; article numbers become one term in every script."""

from __future__ import annotations

from retrieval_server.segmentation import Segmenter, legal_terms

SEGMENTER = Segmenter()


def test_words_not_clauses() -> None:
    terms = SEGMENTER.terms("盗窃公私财物，数额较大的，处三年以下有期徒刑。")
    assert {"盗窃", "公私财物", "数额较大", "有期徒刑"} <= set(terms)
    assert not {"，", "。", "的"} & set(terms)


def test_article_numbers_of_every_script_are_one_term() -> None:
    for label in ("第一百三十三条之一", "第133条之1", "第１３３条之一"):
        assert SEGMENTER.terms(label) == ["第133条之1"]
    assert SEGMENTER.terms("第二百六十四条") == SEGMENTER.terms("第264条") == ["第264条"]


def test_legal_terms_stay_whole() -> None:
    assert "掩饰、隐瞒犯罪所得、犯罪所得收益罪" in legal_terms()
    assert "帮助信息网络犯罪活动罪" in SEGMENTER.terms("被告人犯帮助信息网络犯罪活动罪")
    assert len(legal_terms()) == len(set(legal_terms()))


def test_version_names_library_and_dictionary() -> None:
    library, _, digest = SEGMENTER.version.partition("+")
    assert library.count(".") == 2 and len(digest) == 8


def test_empty_text() -> None:
    assert SEGMENTER.terms("") == SEGMENTER.terms("，。！") == []
