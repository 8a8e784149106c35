"""How often the norms of a corpus cite a law, and an article: what is cited often is asked for often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from retrieval_server.law_names import builtin_titles, squash
from retrieval_server.numerals import NUMERAL_CHARS, parse_number
from retrieval_server.types import Article

_CITED = re.compile(rf"《([^《》]{{2,60}})》(?:第([{NUMERAL_CHARS}]+)条(?:之([{NUMERAL_CHARS}]+))?)?")


def citation_priors(articles: Sequence[Article], law_of: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """log(1 + number of articles of other norms that cite it), by law and by row, over the largest of each.

    Args:
        law_of: law key -> number of the law.
    """
    known = builtin_titles() | {squash(key): key for key in law_of}
    laws, units = Counter[int](), Counter[tuple[int, int, int]]()
    numbers: dict[str, int | None] = {}
    for article in articles:
        if "《" not in article.text:
            continue
        for title, number, sub in set(_CITED.findall(article.text)):
            if title not in numbers:
                numbers[title] = law_of.get(known.get(squash(title), ""))
            law = numbers[title]
            if law is None or law == law_of[article.law_key]:
                continue
            laws[law] += 1
            if number and (no := parse_number(number)):
                units[law, no, (parse_number(sub) or 0) if sub else 0] += 1
    law_prior = np.array([laws[i] for i in range(len(law_of))], dtype=np.float32)
    rows = [units[law_of[a.law_key], a.article_no or 0, a.article_sub] for a in articles]
    return _share_of_most(law_prior), _share_of_most(np.array(rows, dtype=np.float32))


def _share_of_most(counts: np.ndarray) -> np.ndarray:
    """On a scale that does not depend on the size of the corpus."""
    return np.log1p(counts) / max(float(np.log1p(counts.max(initial=0))), 1e-6)
