"""Parts of the corpus: whole laws, the Criminal Law by article, cases by id."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from legal_rl.data.splits import DEV_SHARE, SPLITS, TEST_SHARE, split_of_article, split_of_key, training_texts
from retrieval_server.types import Article


def _article(law: str, number: int, sub: int = 0) -> Article:
    return Article(
        id=f"law/{law}@2020-01-01#{number}-{sub}",
        kind="law",
        law_title=law,
        law_key=law,
        version_date="2020-01-01",
        article_no=number,
        article_sub=sub,
        article_label=f"第{number}条",
        text=f"{law}{number}",
    )


@given(st.text(max_size=20), st.integers(0, 9))
def test_a_part_is_a_function_of_key_and_seed(key: str, seed: int) -> None:
    assert split_of_key(key, seed) == split_of_key(key, seed)
    assert split_of_key(key, seed) in SPLITS


def test_shares_are_about_as_configured() -> None:
    counts = Counter(split_of_key(f"law {n}") for n in range(4_000))
    assert abs(counts["test"] / 4_000 - TEST_SHARE) < 0.02
    assert abs(counts["dev"] / 4_000 - DEV_SHARE) < 0.02


def test_a_law_stays_whole_and_the_criminal_law_does_not() -> None:
    assert len({split_of_article(_article("专利法", n)) for n in range(1, 80)}) == 1
    assert {split_of_article(_article("刑法", n)) for n in range(1, 80)} == set(SPLITS)
    assert all(split_of_article(_article("刑法", n)) == split_of_article(_article("刑法", n, 1)) for n in range(1, 80))


def test_amendments_of_the_criminal_law_belong_to_no_part() -> None:
    assert split_of_article(_article("刑法修正案（九）", 3)) == ""


def test_training_texts_hold_no_held_out_article() -> None:
    articles = [_article(f"甲{n}法", 1) for n in range(50)]
    kept = set(training_texts(articles))
    assert kept == {a.text for a in articles if split_of_article(a) == "train"}
    assert 0 < len(kept) < 50
