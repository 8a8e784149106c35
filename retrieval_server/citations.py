"""Finds citations of articles in free Chinese text: 刑法第264条, 《刑法》第二百六十四条, 民法典1254条, 本法第三条之一 …

The text is first brought to one form (NFKC; brackets of titles, blanks and 中华人民共和国 dropped) with a map back to
the original offsets, so that one grammar reads every spelling::

    [title] 第? NUMBER 条 [之 NUMBER] { 、|和|至 more articles } [第 NUMBER 款] [第 NUMBER 项]

The title is the longest known title that ends right before the number; failing that, text inside 《》, or a run that
ends like a law's title.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace

from retrieval_server.law_names import STATE, VERSION_REMARK, builtin_titles, canonical_key, squash
from retrieval_server.numerals import NUMERAL_CHARS, parse_number

MAX_TEXT_CHARS = 20_000
"""Citations after this offset are not looked for: the resolver runs on queries, not on books."""

MAX_RANGE = 50
"""第三条至第五条 names at most this many articles; a longer range gives its two ends."""

MAX_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class Citation:
    """One cited article. Example: 《刑法》（2020修正）第一百三十三条之一第二款 ->
    Citation(law_title="刑法", law_key="刑法", article_no=133, article_sub=1, paragraph=2, item=None, span=(0, 23))."""

    law_title: str
    """As cited, without 《》; empty when the text names no law. For 本法 and the like: the law they stand for."""
    law_key: str
    """Canonical key (民诉法 -> 民事诉讼法); the cited title's own key where it is not known; empty without a law."""
    article_no: int
    article_sub: int = 0
    paragraph: int | None = None
    item: int | None = None
    span: tuple[int, int] = (0, 0)
    """Start and end offset in the text that was given."""


_N = rf"[{NUMERAL_CHARS}]{{1,12}}"
_BARE = rf"(?<=[法典例])[第§]?(\d{{1,4}})(?:之({_N}))?(?![\d条年号款项章节编月日万元个名次岁修.])"
"""刑法264, 刑法§133之一: an article without its 条, right after a title only."""
_ARTICLE = rf"(?:第?({_N})条之({_N})|第?({_N})之({_N})条|第({_N})-(\d{{1,2}})条|第?({_N})条|{_BARE})"
_HEAD = re.compile(_ARTICLE)
_SEPARATOR = r"(?:[、,~-]|和|及|与|或|至|到)"
_SHARED = re.compile(rf"第?({_N})(?=(?:{_SEPARATOR}第?{_N}){{1,30}}条)")
"""A number that shares the 条 of a later one: 第三、四条."""
_JOIN = re.compile(r"(?:[、,]|以及|和|及|与|或者?)?(?=第)|[、,]|以及|和|及|与|或者?")
_RANGE = re.compile(r"(?:至|到|-|—+|~)")
_PARAGRAPH = re.compile(rf"第?({_N})款")
_ITEM = re.compile(rf"第?\(?({_N})\)?项")
_CONTEXT_LAW = re.compile(r"(?:(?<![基根资])本|该|(?<!合)同|此|上述|前述)(?:法典?|条例|规定|解释|办法|规则)$")
_RELATIVE = re.compile(r"前条|本条|该条|前款|本款")
_START = re.compile(rf"{_RELATIVE.pattern}|{_SHARED.pattern}|{_ARTICLE}")
_AND = re.compile(r"[、,]|和|及|与|或者?|以及")
_ISSUER = re.compile(r"最高人民(?:法院|检察院)|全国人民代表大会|国务院")
_DROPPED = str.maketrans("", "", "()[]【】\\")
_TITLE_TAIL = re.compile(
    r"[\u4e00-\u9fff()〇0-9、]{1,80}(?:法典|法|条例|规定|办法|解释|规则|细则|决定|修正案|意见|批复)"
    r"(?:\([一二三四五六七八九十0-9年]{1,6}\)|[一二三四五六七八九十]{1,2}|\d{4}年?)?"
)
_SENTENCE_END = re.compile(r"[，。；：？！,;:?!…]")
_TITLE_BREAK = re.compile(
    r"根据|依照|依据|按照|违反|适用|参照|符合|触犯|构成|请问|什么是|以及|关于|我国|中国的|的是|查询|查找|检索|搜索|结合|比较"
)
_BARE_YEAR = re.compile(r"\((?:19|20)\d{2}年?\)$")


def resolve_citations(text: str, titles: Mapping[str, str] | None = None) -> list[Citation]:
    """Finds every cited article, in order of appearance.

    Args:
        text: any text; only its first `MAX_TEXT_CHARS` characters are read.
        titles: squashed title or alias (`law_names.squash`) -> law key, e.g. of an index; added to the built-in ones.

    Returns:
        One `Citation` per article, paragraph or item named. Never raises on odd input.
    """
    known = builtin_titles() if titles is None else titles
    form = _Form.of(text[:MAX_TEXT_CHARS])
    found: list[Citation] = []
    position = 0
    while match := _START.search(form.text, position):
        batch, position = _read(form, match, known, found[-1] if found else None)
        found.extend(batch)
    return found


def _read(
    form: _Form, match: re.Match[str], known: Mapping[str, str], last: Citation | None
) -> tuple[list[Citation], int]:
    """Reads the citation that starts at `match`; returns it (or nothing) and the offset to go on from."""
    if _RELATIVE.fullmatch(match[0]):
        return _read_relative(form, match, last)
    title, key, start = _title_before(form, match.start(), known, last)
    numbers, end = _read_articles(form.text, match.start())
    if not numbers or (start == match.start() and not form.text.startswith("第", start)):
        # 有三条规定: without 第 only a title right before makes it a citation.
        return [], max(end, match.end())
    details, end = _read_details(form.text, end)
    span = form.span(start, end)
    cited = [Citation(title, key, no, sub, span=span) for no, sub in numbers]
    # Paragraphs and items belong to the last article of a list.
    tail = [replace(cited[-1], paragraph=paragraph, item=item) for paragraph, item in details]
    return cited[:-1] + (tail or cited[-1:]), end


def _read_relative(form: _Form, match: re.Match[str], last: Citation | None) -> tuple[list[Citation], int]:
    if last is None:
        return [], match.end()
    number, paragraph = last.article_no, None
    if match[0] == "前条":
        number -= 1
    elif match[0] == "前款":
        paragraph = last.paragraph - 1 if last.paragraph and last.paragraph > 1 else None
    elif match[0] == "本款":
        paragraph = last.paragraph
    details, end = _read_details(form.text, match.end())
    if number < 1:
        return [], end
    sub = 0 if match[0] == "前条" else last.article_sub
    base = replace(last, article_no=number, article_sub=sub, span=form.span(match.start(), end))
    pairs = [(p or paragraph, item) for p, item in details] or [(paragraph, None)]
    return [replace(base, paragraph=p, item=item) for p, item in pairs], end


def _read_articles(text: str, position: int) -> tuple[list[tuple[int, int]], int]:
    """Reads 第三条, 第三条、第四条, 第三、四条, 第三条至第五条; returns (number, sub) pairs and the end offset."""
    numbers: list[tuple[int, int]] = []
    ranged = False
    while True:
        head = _HEAD.match(text, position)
        shared = None if head else _SHARED.match(text, position)
        found = head or shared
        pair = _pair(found) if found else None
        if found is None or pair is None:
            break
        numbers += _between(numbers, pair) if ranged else [pair]
        end = found.end()
        joint = _RANGE.match(text, end) or _JOIN.match(text, end)
        following = joint.end() if joint else end
        if joint is None or not (_HEAD.match(text, following) or _SHARED.match(text, following)):
            return numbers, end
        ranged, position = bool(_RANGE.match(text, end)), following
    return numbers, position


def _pair(match: re.Match[str]) -> tuple[int, int] | None:
    groups = [g for g in match.groups() if g]
    number = parse_number(groups[0])
    sub = parse_number(groups[1]) if len(groups) > 1 else 0
    return None if not number or sub is None else (number, sub)


def _between(numbers: list[tuple[int, int]], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The articles after the last one read, up to `end`, of a range."""
    first = numbers[-1][0] if numbers else end[0]
    if not 0 < end[0] - first <= MAX_RANGE:
        return [end]
    return [(no, 0) for no in range(first + 1, end[0])] + [end]


def _read_details(text: str, position: int) -> tuple[list[tuple[int | None, int | None]], int]:
    """Reads 第一款第（三）项, 第一款、第三款, 第二项; returns (paragraph, item) pairs and the end offset."""
    pairs: list[tuple[int | None, int | None]] = []
    while True:
        start = position
        if pairs and (joint := _AND.match(text, position)):
            start = joint.end()
        paragraph, item = _PARAGRAPH.match(text, start), _ITEM.match(text, start)
        if paragraph:
            following = _ITEM.match(text, paragraph.end())
            number = parse_number(following[1]) if following else None
            pairs.append((parse_number(paragraph[1]), number))
            position = (following or paragraph).end()
        elif item:
            pairs.append((pairs[-1][0] if pairs else None, parse_number(item[1])))
            position = item.end()
        else:
            return pairs, position


def _title_before(form: _Form, end: int, known: Mapping[str, str], last: Citation | None) -> tuple[str, str, int]:
    """(title as cited, law key, start) of the law named right before offset `end`, else of the context, else empty."""
    stop = end - 1 if end and form.text[end - 1] == "的" else end
    context = _CONTEXT_LAW.search(form.text, max(0, stop - 6), stop)
    if context:
        return (last.law_title, last.law_key, context.start()) if last else ("", "", context.start())
    year = _BARE_YEAR.search(form.text, max(0, stop - 8), stop)
    cuts = (stop, year.start()) if year else (stop,)
    starts = [(start, cut) for cut in cuts if (start := _quoted_or_known(form, cut, known)) is not None]
    if not starts and (start := _unknown_title(form.text, stop)) is not None:
        starts = [(start, stop)]
    if not starts:
        return (last.law_title, last.law_key, end) if last else ("", "", end)
    start, cut = starts[0]
    title = form.original(start, cut)
    return title, known.get(squash(title)) or canonical_key(title), start


def _quoted_or_known(form: _Form, cut: int, known: Mapping[str, str]) -> int | None:
    """Start of the 《…》 that closes at `cut`, else of the longest known title that ends there."""
    quoted = form.quoted_title(cut)
    if quoted is not None:
        return quoted
    window = form.text[max(0, cut - MAX_TITLE_CHARS) : cut]
    for start in range(len(window) - 1):
        if window[start:].translate(_DROPPED) in known:
            return cut - len(window) + start
    return None


def _unknown_title(text: str, stop: int) -> int | None:
    """Start of a run before `stop` that ends like a title: at its issuer, or after the last word no title holds."""
    window = max(0, stop - MAX_TITLE_CHARS)
    breaks = [m.end() for m in _SENTENCE_END.finditer(text, window, stop)]
    window = max([window, *breaks])
    issuers = [m.start() for m in _ISSUER.finditer(text, window, stop)]
    start = issuers[-1] if issuers else max([window, *(m.end() for m in _TITLE_BREAK.finditer(text, window, stop))])
    return start if _TITLE_TAIL.fullmatch(text, start, stop) else None


_QUOTES = "《》〈〉<>「」“”\"'"


@dataclass(frozen=True, slots=True)
class _Form:
    """A text in the one form the grammar reads, with the way back."""

    source: str
    text: str
    origin: tuple[int, ...]
    """Offset in `source` of every character of `text`, and the end of the source."""

    @classmethod
    def of(cls, source: str) -> _Form:
        skipped = [False] * len(source)
        for match in VERSION_REMARK.finditer(source):
            skipped[match.start() : match.end()] = [True] * (match.end() - match.start())
        for match in re.finditer(STATE, source):
            skipped[match.start() : match.end()] = [True] * len(STATE)
        chars: list[str] = []
        origin: list[int] = []
        for offset, char in enumerate(source):
            if skipped[offset] or char in _QUOTES or char.isspace():
                continue
            for piece in unicodedata.normalize("NFKC", char):
                chars.append(piece)
                origin.append(offset)
        return cls(source, "".join(chars), (*origin, len(source)))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the source of `text[start:end]`, an opening 《 included."""
        first = self.origin[start]
        head = self.source[:first]
        if head.endswith(STATE):
            first -= len(STATE)
        if first and self.source[first - 1] in "《〈":
            first -= 1
        return first, self.origin[end - 1] + 1 if end else 0

    def original(self, start: int, end: int) -> str:
        """The source's own characters of `text[start:end]`, without the quotes around them."""
        return self.source[self.origin[start] : self.origin[end - 1] + 1].strip(_QUOTES + " ")

    def quoted_title(self, end: int) -> int | None:
        """Start in `text` of the 《…》 that closes right before `end`; None when the text there is not quoted."""
        close = self.source.rfind("》", 0, self.origin[end] if end < len(self.text) else len(self.source))
        if close < 0 or any(o > close for o in self.origin[max(0, end - 1) : end]):
            return None
        depth = 0
        for offset in range(close, max(-1, close - 200), -1):
            depth += {"》": 1, "《": -1}.get(self.source[offset], 0)
            if depth == 0:
                return next((i for i, o in enumerate(self.origin[:end]) if o > offset), None)
        return None
