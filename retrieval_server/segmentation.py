"""Chinese text -> index terms: rjieba with a legal dictionary, and one term per article number.

第二百六十四条 and 第264条 become the same term 第264条, so that a number in a query meets the label of the article that
bears it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from retrieval_server.numerals import NUMERAL_CHARS, parse_number

_ARTICLE = re.compile(rf"第([{NUMERAL_CHARS}]{{1,12}})条(?:之([{NUMERAL_CHARS}]{{1,4}}))?")
_WORD = re.compile(r"[0-9A-Za-z\u4e00-\u9fff]")
_FUNCTION_WORDS = """
的 了 和 与 及 或 或者 以及 等 在 是 对 为 由 被 把 将 其 该 这 那 之 并 而 也 都 又 者 所 以 于 从 向 到
吗 呢 吧 啊 什么 怎么 怎样 哪些 如何 请问
"""
_STOP = frozenset(_FUNCTION_WORDS.split())


class Segmenter:
    """Cuts text for the sparse index; build and search must use the same one (the manifest tells)."""

    name = "rjieba-legal"

    @cached_property
    def _jieba(self) -> Any:
        import rjieba

        jieba = rjieba.Jieba()
        for term in legal_terms():
            jieba.add_word(term, 20_000, "n")
        return jieba

    @cached_property
    def version(self) -> str:
        """Version of the library and hash of the dictionary, such as `0.2.2+1a2b3c4d`."""
        digest = hashlib.sha256("\n".join(legal_terms()).encode()).hexdigest()[:8]
        return f"{version('rjieba')}+{digest}"

    def terms(self, text: str) -> list[str]:
        """Index terms of `text` in order, repeats kept: words and their sub-words, no punctuation or function words."""
        plain = unicodedata.normalize("NFKC", text).lower()
        labels: list[str] = []
        plain = _ARTICLE.sub(lambda match: _collect(match, labels), plain)
        words = self._jieba.cut_for_search(plain)
        return labels + [word for word in words if word not in _STOP and _WORD.search(word)]


def _collect(match: re.Match[str], labels: list[str]) -> str:
    number, sub = parse_number(match[1]), parse_number(match[2]) if match[2] else 0
    if number is None or sub is None:
        return match[0]
    labels.append(f"第{number}条之{sub}" if sub else f"第{number}条")
    return " "


def legal_terms() -> list[str]:
    """The dictionary's words, in file order."""
    lines = (files("retrieval_server") / "legal_terms.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
