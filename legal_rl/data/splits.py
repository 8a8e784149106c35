"""Which articles and cases belong to train, dev and test: by whole laws, and by article for the Criminal Law.

The part is a hash of the law (or of the article number), so it does not depend on the corpus' order or size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from retrieval_server.types import Article, Case

SPLITS = ("train", "dev", "test")
CRIMINAL_LAW = "刑法"
DEV_SHARE = 0.08
TEST_SHARE = 0.18


def split_of_key(key: str, seed: int = 0) -> str:
    """The part of a key (law, article or case): a function of its text and the seed only."""
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    if point < TEST_SHARE:
        return "test"
    return "dev" if point < TEST_SHARE + DEV_SHARE else "train"


def split_of_article(article: Article, seed: int = 0) -> str:
    """Laws stay whole, versions together; the Criminal Law is cut by article number (第X条 and 第X条之一 together).

    Amendments and legislative interpretations that name 刑法 repeat its articles: they belong to no part ("").
    """
    if article.law_key == CRIMINAL_LAW:
        return split_of_key(f"{CRIMINAL_LAW}#{article.article_no}", seed)
    if CRIMINAL_LAW in article.law_key:
        return ""
    return split_of_key(article.law_key, seed)


def split_of_case(case: Case, seed: int = 0) -> str:
    """The part of one judgment, by its id."""
    return split_of_key(case.id, seed)


def training_texts(articles: Iterable[Article], seed: int = 0) -> Iterator[str]:
    """Texts of the train part only: what a tokenizer or a language model may be trained on before SFT."""
    return (article.text for article in articles if split_of_article(article, seed) == "train")
