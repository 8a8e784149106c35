"""Readers of the fixed mode: what a careful person would take an answer to say, where upstream is plainly wrong.

term_months("有期徒刑一年六个月，缓刑二年") == 18      option_letters("根据ADR规则选B", "ABCD") == {"B"}
labels_in("合同诈骗罪", ("诈骗", "合同诈骗")) == {"合同诈骗"}      amounts("合计0.5万元") == [5000.0]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from legal_rl.evaluation.benchmarks.extraction import NO_ANSWER
from legal_rl.evaluation.benchmarks.overlap import character_f1, harmonic
from retrieval_server.amounts import NUMERAL, normalise, parse_number, term_days, term_pattern

NEAR = 40
"""Characters behind a lead such as 判处 in which the term must begin."""
MAX_TERM_MONTHS = 360
"""A longer term is a date, such as 2019年."""

_TAGGED = re.compile(r"\[正确答案\]\s*([A-Ea-e、,，和\s]+?)\s*(?:<|$)")
_CONCLUDED = re.compile(
    r"(?:答案|应选|应当选|故选|正确的?选项|正确的?是)(?:应?是|应?为|选)?[:：]?\s*(?:选项?)?\s*"
    r"([A-E](?:[、,，和\s]*[A-E])*)(?![A-Za-z])"
)
_DISMISSED = re.compile(
    r"(?:选项?)?[A-E](?:[、,，和\s]*[A-E])*(?:选?项|的说法|的表述)?(?:均|都|是|说法|表述|明显)*"
    r"(?:不正确|不对|不当|不符合|不成立|不选|错误|错|有误|排除)"
)
_STATED = re.compile(r"(?:答案|选项?|应选|故选)(?:是|为|应为)?[:：]?\s*([A-E](?:[、,，和\s]*[A-E])*)(?![A-Za-z])")
_ISOLATED = re.compile(r"(?<![A-Za-z])([A-E]{1,8})(?![A-Za-z])")
_NEGATED = re.compile(r"(?:不是|不选|并非|排除|而非)\s*[A-E](?:[、,，和\s]*[A-E])*(?![A-Za-z])")
_EXPLANATION = re.compile(r"解析|分析|理由[:：]")
_TERM = re.compile(term_pattern("t_"))
_HUNDREDS = re.compile(r"([一二三]百[零一二三四五六七八九十]*)个?月")
_TERM_LEADS = tuple(
    map(re.compile, (r"\[刑期\]", r"决定执行|合并执行", r"刑期(?:可能|应|大约|约)?[为是:]|判处|判决[为:]"))
)
_RANGE = re.compile(r"(?:有期徒刑)?(?:以上|以下)")
_DATE = re.compile(r"\d{4}年(?:\d{1,2}月(?:\d{1,2}日)?)?|\d{1,2}月\d{1,2}日")
_EARLIER = re.compile(r"(?:曾|前科|此前|原审)[^。；;]*?判处?[^，,。；;]*")
"""An earlier conviction, or the judgment appealed against."""
_PROBATION = re.compile(r"缓刑[^，,。；;]*")
_MONEY = re.compile(rf"({NUMERAL})(?:余)?(?:元|块)")
_TAGGED_AMOUNT = re.compile(rf"\[金额\][^\d<]{{0,8}}?({NUMERAL})")
_SUM = re.compile(rf"=({NUMERAL})(?:元|块)")
_TOTAL = re.compile(rf"(?:合计|共计|总计|总额|总金额|总价值?)[^\d]{{0,12}}?({NUMERAL})(?:元|块)?")
_AMOUNT = re.compile(rf"金额[^\d]{{0,12}}?({NUMERAL})(?:元|块)?")
_ARTICLE = re.compile(rf"(?<!\d)(?:第)?({NUMERAL})条(?!件|款|款项)")
_ARTICLE_LIST = re.compile(rf"第?({NUMERAL}(?:[、,，和]第?{NUMERAL})+)条")


def option_letters(text: str, options: str) -> set[str]:
    """Letters that the answer names: in the tag, else its last conclusion (答案是C), else after 选, else alone."""
    folded = unicodedata.normalize("NFKC", text)
    if re.fullmatch(r"[a-eA-E、,和\s.。]+", folded.strip()):
        folded = folded.upper()
    if tagged := _TAGGED.findall(folded):
        return {ch for ch in tagged[0].upper() if ch in options}
    whole = _NEGATED.sub("", folded)
    head = _EXPLANATION.split(whole)[0]
    head = head if _ISOLATED.search(head) else whole  # 分析：选B has its answer behind the word
    if concluded := _CONCLUDED.findall(head):
        return {ch for ch in concluded[-1] if ch in options}
    kept = _DISMISSED.sub("", head)
    head = kept if _ISOLATED.search(kept) else head
    if stated := _STATED.findall(head):
        return {ch for ch in stated[0] if ch in options}
    return {ch for run in _ISOLATED.findall(head) for ch in run if ch in options}


def labels_in(text: str, labels: Sequence[str], selective: bool = False) -> set[str]:
    """Labels in the text, longest first, so that one inside a longer one does not count.

    Args:
        selective: also read shortened selective charges: 贩卖毒品 for 走私、贩卖、运输、制造毒品.
    """
    found, rest = set(), unicodedata.normalize("NFC", text)
    for label in sorted(dict.fromkeys(labels), key=len, reverse=True):
        if label in rest:
            found.add(label)
            rest = rest.replace(label, "\n")
    for label in labels if selective else ():
        pattern = _selective(label)
        if pattern is not None and pattern.search(rest):
            found.add(label)
            rest = pattern.sub("\n", rest)
    return found


@cache
def _selective(label: str) -> re.Pattern[str] | None:
    """Pattern of any choice of the verbs of a charge such as 走私、贩卖、运输、制造毒品; None for other charges."""
    *verbs, last = label.split("、")
    if not verbs or any(len(verb) != 2 for verb in verbs) or len(last) < 4:
        return None
    choice = "|".join(map(re.escape, (*verbs, last[:2])))
    return re.compile(rf"(?:{choice})(?:、(?:{choice}))*{re.escape(last[2:])}")


def article_numbers(text: str) -> set[int]:
    """Numbers of all cited articles; 之一 and paragraphs do not matter, years and amounts are none."""
    folded = normalise(text)
    found = [m[1] for m in _ARTICLE.finditer(folded)]
    for match in _ARTICLE_LIST.finditer(folded):
        found += re.split(r"[、,，和]第?", match[1])
    if not found and re.fullmatch(rf"{NUMERAL}(?:[、,，和]{NUMERAL})*[。.]?", folded.strip()):
        found = re.split(r"[、,，和]", folded.strip("。. \n"))
    values = (parse_number(number) for number in found)
    return {int(value) for value in values if value is not None}


def term_months(text: str) -> float | None:
    """Months of the prison term that the answer gives: the tagged one, else what is to be executed, else the sentence.

    Years and months are taken together; dates and probation are no terms. An earlier conviction's term and a statute's
    range (三年以下) are read only where the answer has nothing better.
    """
    folded = _PROBATION.sub("", _DATE.sub("", normalise(text)))
    folded = re.sub(r"(\d+)\.5年", r"\1年6个月", folded)
    folded = _HUNDREDS.sub(lambda m: f"{parse_number(m[1]) or 0:.0f}个月", folded)
    for ranges in (False, True):
        for text in (_EARLIER.sub("", folded), folded):
            if (term := _first_term(text, ranges)) is not None:
                return term
    return None


def _first_term(text: str, ranges: bool) -> float | None:
    for lead in _TERM_LEADS:
        for match in lead.finditer(text):
            if terms := _terms(text[match.end() : match.end() + NEAR], ranges):
                return terms[0]
    terms = _terms(text, ranges)
    return terms[0] if terms else None


def _terms(text: str, ranges: bool) -> list[float]:
    found = []
    for match in _TERM.finditer(text):
        months = term_days(match.groupdict(), "t_")
        is_range = bool(_RANGE.match(text, match.end()))
        if months and months[0] <= MAX_TERM_MONTHS and (ranges or not is_range):
            found.append(months[0] + months[1] / 30)
    return found


def amounts(text: str) -> list[float]:
    """The total that the answer states: tagged, after =, after 合计, after 金额, else the last with its unit."""
    folded = normalise(text)
    for pattern in (_TAGGED_AMOUNT, _SUM, _TOTAL, _AMOUNT, _MONEY):
        values = [value for number in pattern.findall(folded) if (value := parse_number(number)) is not None]
        if values:
            return values[-1:]
    bare = [value for number in re.findall(NUMERAL, folded) if (value := parse_number(number)) is not None]
    return bare if len(bare) == 1 else []


def slots(text: str, names: Sequence[str]) -> dict[str, str]:
    """`name:value` pairs; a value ends at a line break, a semicolon or the next name, a name is not part of a word."""
    choice = "|".join(map(re.escape, names))
    pattern = re.compile(rf"(?:^|(?<=[\s;；,，。、(（\d.\-*]))(?:{choice})\s*[:：]", re.MULTILINE)
    matches = list(pattern.finditer(text))
    found: dict[str, str] = {}
    ends = [*(match.start() for match in matches[1:]), len(text)]
    for match, end in zip(matches, ends, strict=False):
        chunk = text[match.end() : end]
        value = re.split(r"[\n;；]", chunk.strip())[0].strip(" ,，。、")
        name = match[0].rstrip(" \t:：")
        if value and value not in NO_ANSWER:
            found[name] = value
    return found


def best_pairs(said: Sequence[str], meant: Sequence[str]) -> float:
    """F1 of two word lists without order: the best pairs first, each word once, a pair worth its character F1."""
    scores = sorted(((character_f1(a, b), i, j) for i, a in enumerate(said) for j, b in enumerate(meant)), reverse=True)
    total, used_said, used_meant = 0.0, set(), set()
    for score, i, j in scores:
        if i not in used_said and j not in used_meant:
            total += score
            used_said.add(i)
            used_meant.add(j)
    return harmonic(total / len(said), total / len(meant)) if said and meant else 0.0
