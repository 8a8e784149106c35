"""Charges and the Criminal Law articles they stand for, as the knowledge base itself tells.

The interpretations that fix the names of charges hold lists, `贷款诈骗罪（第193条）`, and tables, `| 第133条之一 |
危险驾驶罪 |`; names they cancel stay known as former names. Articles of the Criminal Law that punish "犯贪污罪的" are
joined as related.
For a corpus without those interpretations `charges.txt`, mined the same way, stands in.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from retrieval_server.numerals import NUMERAL_CHARS, parse_number
from retrieval_server.types import Article

CRIMINAL_LAW = "刑法"
RELATED = 0.4
"""Weight of an article that only speaks of the charge, against 1.0 for the one that defines it."""

FIRST_OFFENCE = 102
"""The special part begins here: a smaller number in a table is that of an amendment."""

_LONGEST = 40
_CLOSE = 0.6

Ref = tuple[int, int]
"""Article number and 之-number."""

_REF = re.compile(rf"第([{NUMERAL_CHARS}]+)条(?:之([{NUMERAL_CHARS}]+))?")
_LISTED = re.compile(r"([\u4e00-\u9fff、（）]{1,60}?罪)（((?:第[^（）]{1,20}条[^（）]{0,12}、?)+)）")
_TABLE_ROW = re.compile(r"^\|(?P<refs>[^|\n]*)\|(?P<names>[^|\n]*罪[^|\n]*)\|", re.MULTILINE)
_RENAMED = re.compile(r"《刑法》(第[^（]{2,12}条[^（]{0,6})（.{1,40}?）的罪名由“([^”]+)”修改为“([^”]+)”")
_CANCELLED = re.compile(r"（取消(?:刑法原第[^条]*条第?[^项款]*[项款])?([^）]+?)罪名?）")
_STATED = re.compile(r"(?:罪名|案由)\s*[:：]\s*([^。\n]{2,120})")
_MENTIONED = (
    re.compile(r"(?:构成|犯|涉嫌|以|认定为|成立|触犯)([\u4e00-\u9fff、（）]{2,40}?)罪(?!所得|分子|活动)"),
    re.compile(r"^([\u4e00-\u9fff、]{2,20})罪"),
)
_NOISE = re.compile(r"[、，,（）()\s]|罪$")


class ChargeTable:
    """Charge name -> articles.

    Args:
        entries: charge with 罪 -> {article: weight}, the defining ones with weight 1.
        cues: charge -> strings that facts of such an offence hold.
    """

    def __init__(self, entries: Mapping[str, Mapping[Ref, float]], cues: Mapping[str, tuple[str, ...]]) -> None:
        self.entries = {name: dict(refs) for name, refs in entries.items()}
        self._by_form: dict[str, str] = {_form(name): name for name in self.entries}
        self._forms_with: dict[str, list[str]] = defaultdict(list)
        for form in self._by_form:
            for pair in _bigrams(form):
                self._forms_with[pair].append(form)
        self._near = lru_cache(maxsize=16_384)(self._nearest)
        self._cues: dict[str, list[str]] = defaultdict(list)
        for charge, words in cues.items():
            if known := self.resolve(charge):
                for word in words:
                    self._cues[word].append(known)
        self._weights = {word: math.log(1 + len(cues) / len(names)) for word, names in self._cues.items()}

    @classmethod
    def of(cls, articles: Iterable[Article]) -> ChargeTable:
        """The table of a corpus; the shipped one where its articles fix no names of charges."""
        return cls(charge_entries(list(articles)), offence_cues())

    def resolve(self, name: str) -> str | None:
        """The known charge a spelling means: 贩卖毒品 -> 走私、贩卖、运输、制造毒品罪; None when none is close."""
        form = _form(name)
        if len(form) < 2:
            return None
        if form in self._by_form:
            return self._by_form[form]
        return self._near(form) if len(form) <= _LONGEST else None

    def _nearest(self, form: str) -> str | None:
        others = {other for pair in _bigrams(form) for other in self._forms_with.get(pair, ())}
        score, other = max(((_closeness(form, other), other) for other in others), default=(0.0, ""))
        return self._by_form[other] if score >= _CLOSE else None

    def named(self, text: str) -> dict[Ref, float]:
        """Articles of the charges that the text names."""
        found: dict[Ref, float] = {}
        for name in _named(text):
            for part in [name, *re.split(r"[;；]", name)]:
                if charge := self.resolve(part):
                    for ref, weight in self.entries[charge].items():
                        found[ref] = max(weight, found.get(ref, 0.0))
        return found

    def cued(self, text: str, most: int = 6) -> dict[Ref, float]:
        """Articles of the `most` charges whose cues the facts hold best; the best one has 1.0."""
        scores: dict[str, float] = defaultdict(float)
        for word, charges in self._cues.items():
            count = text.count(word)
            if count:
                for charge in charges:
                    scores[charge] += self._weights[word] * (1 + math.log(count))
        best = sorted(scores.items(), key=lambda item: -item[1])[:most]
        found: dict[Ref, float] = {}
        for charge, score in best:
            for ref, weight in self.entries[charge].items():
                found[ref] = max(found.get(ref, 0.0), weight * score / best[0][1])
        return found


def charge_entries(articles: Sequence[Article]) -> dict[str, dict[Ref, float]]:
    """Charge -> {article: weight} of a corpus; the shipped table where its articles fix no names of charges."""
    return with_related(mine_charges(articles) or builtin_charges(), articles)


def mine_charges(articles: Iterable[Article]) -> dict[str, dict[Ref, float]]:
    """Charge -> defining articles, from the interpretations whose title speaks of 罪名; later ones add and rename."""
    sources = [a for a in articles if a.kind == "interpretation" and "罪名" in a.law_key]
    mined: dict[str, dict[Ref, float]] = {}
    for article in sorted(sources, key=lambda a: a.version_date):
        for name, refs in _charges_in(article.text):
            mined[name] = {ref: 1.0 for ref in refs}
    return mined


def _charges_in(text: str) -> Iterable[tuple[str, list[Ref]]]:
    for match in _LISTED.finditer(text):
        yield match[1].lstrip("．.、"), _refs(match[2])
    refs: list[Ref] = []
    for match in _TABLE_ROW.finditer(text):
        if match["refs"].strip():  # An empty cell goes on with the article above.
            refs = _refs(match["refs"].partition("（")[0])
        cell = _CANCELLED.sub(r"；\1；", match["names"]) if refs else ""
        for name in re.split(r"[；;]|(?<=罪)\s+|(?<=罪)和", cell):
            plain = re.sub(r"\s", "", name).removeprefix("取消").removesuffix("罪名")
            if len(plain) > 1:
                yield plain.removesuffix("罪") + "罪", refs
    for match in _RENAMED.finditer(text.replace("中华人民共和国", "")):
        yield match[2], _refs(match[1])
        yield match[3], _refs(match[1])


def _refs(text: str) -> list[Ref]:
    pairs = [(parse_number(m[1]), parse_number(m[2]) if m[2] else 0) for m in _REF.finditer(text)]
    return [(no, sub) for no, sub in pairs if no and no >= FIRST_OFFENCE and sub is not None]


def with_related(mined: Mapping[str, Mapping[Ref, float]], articles: Iterable[Article]) -> dict[str, dict[Ref, float]]:
    """Adds the Criminal Law articles that punish 犯…罪 by name, as 第三百八十三条 does for 贪污罪."""
    entries = {name: dict(refs) for name, refs in mined.items()}
    for article in articles:
        if article.law_key != CRIMINAL_LAW or article.article_no is None:
            continue
        ref = (article.article_no, article.article_sub)
        for name in re.findall(r"犯([\u4e00-\u9fff、]{2,20}罪)(?:的|，|、|$)", article.text):
            if name in entries:
                entries[name].setdefault(ref, RELATED)
    return entries


@cache
def builtin_charges() -> dict[str, dict[Ref, float]]:
    """The shipped table: `charge<TAB>133-1 134` per line."""
    table: dict[str, dict[Ref, float]] = {}
    for line in _lines("charges.txt"):
        name, _, numbers = line.partition("\t")
        pairs = [number.partition("-") for number in numbers.split()]
        table[name] = {(int(no), int(sub or 0)): 1.0 for no, _, sub in pairs}
    return table


@cache
def offence_cues() -> dict[str, tuple[str, ...]]:
    """The reviewed cues: charge -> strings."""
    split = [line.partition("=") for line in _lines("offence_cues.txt")]
    return {name.strip(): tuple(words.split()) for name, _, words in split}


def _lines(name: str) -> list[str]:
    text = (files("retrieval_server.ranking") / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _named(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).replace("(", "（").replace(")", "）")
    stated = [m[1] for m in _STATED.finditer(plain)]
    return stated or [m[1] for pattern in _MENTIONED for m in pattern.finditer(plain)]


def _form(name: str) -> str:
    """A charge without punctuation and without its 罪."""
    return _NOISE.sub("", unicodedata.normalize("NFKC", name).strip())


def _closeness(name: str, full: str) -> float:
    """1 for a selective charge (贩卖毒品 in 走私贩卖运输制造毒品), else the Dice coefficient of the bigrams."""
    rest = iter(full)
    if len(name) >= 4 and all(char in rest for char in name):
        return 0.75 + 0.25 * len(name) / len(full)
    mine, other = _bigrams(name), _bigrams(full)
    return 2 * len(mine & other) / (len(mine) + len(other)) if mine and other else 0.0


def _bigrams(text: str) -> set[str]:
    return {text[i : i + 2] for i in range(len(text) - 1)}
