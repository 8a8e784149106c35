"""Extractive case briefs: what a precedent's evidence unit says without an LLM (paper, section 3.2.2).

Key facts, court and level, outcome and PSI in at most `max_chars` characters, from the record alone, so that the same
case always reads the same and its brief can be made at index time. In miniature::

    云州市中级人民法院（中级） 盗窃罪｜事实：…窃得…价值人民币4200元｜判决：有期徒刑八个月、罚金2000元｜PSI 306.0
    compact_brief: 云州市中级人民法院 盗窃罪 有期徒刑八个月 罚金2000元
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from retrieval_server.courts import LEVEL_NAMES
from retrieval_server.numerals import chinese_number
from retrieval_server.sentencing import MainPenalty
from retrieval_server.severity import DefendantSentence, parse_sentence
from retrieval_server.types import Case

DEFAULT_MAX_CHARS = 150
_MIN_FACTS = 24
_NAMES = {
    MainPenalty.DEATH: "死刑",
    MainPenalty.DEATH_SUSPENDED: "死刑缓期二年执行",
    MainPenalty.LIFE: "无期徒刑",
    MainPenalty.FIXED_TERM: "有期徒刑",
    MainPenalty.DETENTION: "拘役",
    MainPenalty.SURVEILLANCE: "管制",
    MainPenalty.EXEMPT: "免予刑事处罚",
    MainPenalty.ACQUITTED: "无罪",
    MainPenalty.NOT_RESPONSIBLE: "不负刑事责任",
}
_SENTENCE_END = re.compile(r"(?<=[。；\n])")
_OPENING = re.compile(
    r"^[\s\u3000]*(?:(?:[\u4e00-\u9fff×Xx某]{0,20}(?:检察院|公诉机关|自诉人))?(?:起诉书)?(?:起诉)?(?:指控|诉称)(?:并经审理查明)?[：:，,]?"
    r"|经?(?:本院)?审理查明[：:，,]?|原审判决认定[：:，,]?|原判认定[：:，,]?|[一二三四五六七八九十]、|\d{1,2}[、.．])\s*"
)
_NO_FACTS = re.compile(
    r"上述事实|认定上述|以上事实|证据(?:证实|在卷|予以|有|能够)|亦无异议|无异议|公诉机关(?:认为|提交|就上述)|提请本院|为证实|辩护人|本院认为|程序生成|刑满释放"
)
_TELLING = re.compile(
    r"价值|鉴定|认定|致|轻伤|重伤|死亡|共计|人民币|万元|净重|毫克|[\d.]+克|获利|转账|骗|窃|抢|殴打|贩卖|容留|投案|逃逸"
)


def brief_case(case: Case, max_chars: int = DEFAULT_MAX_CHARS, query: str = "") -> str:
    """Brief of a case, at most `max_chars` characters; with a `query` the facts shown are those closest to it.

    Court, charges and outcome come first in the budget; facts take what is left, and none when that is very little.
    """
    return join_brief(*brief_parts(case), case.facts, max_chars, query)


def brief_parts(case: Case) -> tuple[str, str]:
    """What stands before and behind the facts, whatever the query: court and charges; outcome and PSI."""
    head = f"{case.court}（{LEVEL_NAMES[case.court_level]}）" if case.court else f"{LEVEL_NAMES[case.court_level]}法院"
    if case.charges:
        head += f" {'、'.join(case.charges)}"
    return head, f"｜判决：{outcome_text(case.result)}" + ("" if case.psi is None else f"｜PSI {case.psi:.1f}")


def join_brief(head: str, tail: str, facts_text: str, max_chars: int, query: str = "") -> str:
    """A brief from its fixed parts, with as much of the facts as fits."""
    room = max_chars - len(head) - len(tail) - len("｜事实：")
    facts = f"｜事实：{key_facts(facts_text, room, query)}" if room >= _MIN_FACTS else ""
    return _clip(head + facts + tail, max_chars)


def compact_brief(case: Case, max_chars: int = 80) -> str:
    """Court, charges and sentence with blanks between, for a small policy's context."""
    outcome = outcome_text(case.result, joint=" ", people=1)
    return _clip(" ".join(filter(None, (case.court, "、".join(case.charges), outcome))), max_chars)


@lru_cache(maxsize=65_536)
def outcome_text(result: str, joint: str = "、", people: int = 2) -> str:
    """The heaviest sentences of a result in standard words (有期徒刑三年（缓刑）、罚金5000元), 等N人 if more."""
    if not result.strip():
        return "来源没有判决结果"
    sentences = parse_sentence(result)
    ranked = sorted(sentences, key=lambda s: -1.0 if s.psi is None else s.psi, reverse=True)
    texts = [_named(s, joint, with_name=len(sentences) > 1) for s in ranked[:people]]
    return "；".join(texts) + (f"等{chinese_number(len(sentences))}人" if len(sentences) > people else "")


def describe_sentence(sentence: DefendantSentence, joint: str = "、") -> str:
    """One defendant's sentence in standard words, main penalty first."""
    if sentence.psi is None:
        return "判决结果无法识别"
    return joint.join(part for part in (text(sentence) for text in _PARTS) if part)


def _named(sentence: DefendantSentence, joint: str, with_name: bool) -> str:
    text = describe_sentence(sentence, joint)
    return f"{sentence.name}{text}" if with_name and sentence.name else text


def _main_text(sentence: DefendantSentence) -> str:
    text = _NAMES.get(sentence.penalty, "")
    if sentence.penalty in (MainPenalty.FIXED_TERM, MainPenalty.DETENTION, MainPenalty.SURVEILLANCE):
        text += _term_text(sentence.months, sentence.days)
    return text + ("（缓刑）" if sentence.suspended else "")


def _term_text(months: int, days: int = 0) -> str:
    years, rest = divmod(months, 12)
    return (
        (f"{chinese_number(years)}年" if years else "")
        + (f"{chinese_number(rest)}个月" if rest else "")
        + (f"{chinese_number(days)}天" if days else "")
    )


def _money_text(amount: float) -> str:
    return f"{amount / 10_000:g}万元" if amount >= 10_000 else f"{amount:g}元"


def _rights_text(sentence: DefendantSentence) -> str:
    if sentence.rights_for_life:
        return "剥夺政治权利终身"
    return f"剥夺政治权利{_term_text(sentence.rights_months)}" if sentence.rights_months else ""


def _forfeiture_text(sentence: DefendantSentence) -> str:
    if sentence.forfeiture:
        return f"没收财产{_money_text(sentence.forfeiture)}"
    return "没收个人全部财产" if sentence.all_property else ""


_PARTS: tuple[Callable[[DefendantSentence], str], ...] = (
    _main_text,
    _rights_text,
    lambda s: f"罚金{_money_text(s.fine)}" if s.fine else "",
    _forfeiture_text,
    lambda s: "驱逐出境" if s.deported else "",
)


def key_facts(facts: str, max_chars: int, query: str = "") -> str:
    """The most telling sentences of the facts within `max_chars`, in their order; closest to `query` if given."""
    sentences = _fact_sentences(facts)
    if not sentences:
        return _clip(facts.strip(), max_chars)
    grams = _bigrams(query)
    first = last = max(range(len(sentences)), key=lambda i: (_weight(sentences[i], grams), -i))
    length = len(sentences[first])
    while first > 0 and length + len(sentences[first - 1]) <= max_chars:
        first -= 1
        length += len(sentences[first])
    while last + 1 < len(sentences) and length + len(sentences[last + 1]) <= max_chars:
        last += 1
        length += len(sentences[last])
    return _shorten("".join(sentences[first : last + 1]).rstrip("。；"), max_chars)


def _shorten(text: str, max_chars: int) -> str:
    """Cut the middle: the end of a long sentence holds the amount or the harm."""
    if len(text) <= max_chars:
        return text
    tail = ""
    for clause in reversed(re.split(r"(?<=，)", text)):
        if len(tail) + len(clause) > max_chars * 2 // 5:
            break
        tail = clause + tail
    return _clip(text, max_chars - len(tail)) + tail


@lru_cache(maxsize=4_096)
def _fact_sentences(facts: str) -> tuple[str, ...]:
    parts = (_strip_opening(part) for part in _SENTENCE_END.split(facts))
    return tuple(part for part in parts if len(part) >= 6 and not _NO_FACTS.search(part))


def _strip_opening(sentence: str) -> str:
    previous = None
    while previous != sentence:
        previous, sentence = sentence, _OPENING.sub("", sentence.strip())
    return sentence


def _weight(sentence: str, grams: frozenset[str]) -> float:
    """Share of the query found in the sentence, then signs of outcome and amount."""
    overlap = len(grams & _bigrams(sentence)) / len(grams) if grams else 0.0
    return 4.0 * overlap + min(4, len(_TELLING.findall(sentence))) / 4 + min(len(sentence), 60) / 240


def _bigrams(text: str) -> frozenset[str]:
    plain = re.sub(r"\W+", "", text)
    return frozenset(plain[i : i + 2] for i in range(len(plain) - 1))


def _clip(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max(0, max_chars - 1)] + "…"
