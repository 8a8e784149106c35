"""Rules that read and change a text: events, triggers, corrections, reading questions and sums by law.

event_detection: 被告人经电话通知后主动投案，如实供述 -> 投案、供述
document_correction: 架驶小型轿车 -> 驾驶小型轿车
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from legal_rl.data.pipeline.values import plain_number
from legal_rl.data.readers.sources import SourceText
from retrieval_server.amounts import NUMERAL, normalise, parse_number
from retrieval_server.generated_cases import MARK

Written = dict[str, Any] | None

EVENTS: dict[str, tuple[str, ...]] = {
    "抓获": ("当场查获", "抓获归案", "抓获", "查获"),
    "投案": ("主动投案", "主动到案", "自动投案", "投案自首", "投案"),
    "供述": ("如实供述",),
    "赔偿": ("赔偿",),
    "退赃": ("退赃", "退缴", "退赔"),
    "谅解": ("谅解",),
    "死亡": ("死亡",),
    "受伤": ("轻伤", "重伤"),
    "逃逸": ("逃离现场", "逃逸"),
}
"""Event -> its triggers, longer ones first."""
CONFUSED = (
    ("已经", "以经"), ("以及", "已及"), ("必须", "必需"), ("赔偿", "陪偿"), ("驾驶", "架驶"), ("抓获", "抓货"),
    ("供述", "供诉"), ("证据", "正据"), ("盗窃", "盗切"), ("依照", "依招"), ("构成", "购成"), ("侦查", "侦察"),
)  # fmt: skip
"""Right word, and what people type for it."""
_SENTENCE = re.compile(r"[^。\n]{15,120}。")
DAY = re.compile(r"(?:19|20)\d{2}年\d{1,2}月\d{1,2}日")
ACCUSED = re.compile(r"被告人([\u4e00-\u9fff]某[甲乙丙丁某]?)")
ACCUSATION = re.compile(r"公诉机关指控[:：,，]\s*([^。\n]{20,200}。)")
MULTIPLE = re.compile(r"违法所得(?P<low>[一二三四五六七八九十]+)倍以上(?P<high>[一二三四五六七八九十]+)倍以下的?罚款")
_FROM = re.compile(rf"(?:违法所得|非法所得)(?:数额)?(?:在)?({NUMERAL})元以上")
_BELOW = re.compile(rf"(?:违法所得|非法所得)(?:数额)?(?:不足|不满|在)?({NUMERAL})元(?:以下)?的")
"""Gains for which another fine applies: 违法所得不足五万元的."""
GAINS = (20_000, 30_000, 50_000, 80_000, 120_000, 160_000)
"""Illegal gains in yuan that a sum is asked about; a hash of the source chooses."""


def event_detection(source: SourceText) -> Written:
    """Events that the facts tell, out of a closed list."""
    found = events_of(facts_of(source))
    if len(found) < 2:
        return None
    listed = "、".join(EVENTS)
    return qa(f"可选事件：{listed}。\n{facts_of(source)}\n文中发生了哪些事件？", "、".join(found))


def trigger_extraction(source: SourceText) -> Written:
    """The words of the text that stand for those events."""
    found = events_of(facts_of(source))
    if len(found) < 2:
        return None
    return qa(f"{facts_of(source)}\n依次写出表示“{'、'.join(found)}”的触发词。", "、".join(found.values()))


def document_correction(source: SourceText) -> Written:
    """A sentence with one wrong word -> the sentence as it was."""
    sentences = [m[0] for m in _SENTENCE.finditer(source.text.replace(MARK, "")) if any(r in m[0] for r, _ in CONFUSED)]
    if not sentences:
        return None
    sentence = sentences[_draw(source, len(sentences))]
    able = [pair for pair in CONFUSED if pair[0] in sentence]
    right, wrong = able[_draw(source, len(able))]
    return qa(sentence.replace(right, wrong, 1), sentence)


def reading_comprehension(source: SourceText) -> Written:
    """When the deed was done, where the facts name exactly one day."""
    if source.kind not in ("judgment", "fact"):
        return None
    facts = facts_of(source)
    days = list(dict.fromkeys(DAY.findall(facts)))
    return qa(f"{facts}\n文中的行为发生在哪一天？", days[0]) if len(days) == 1 else None


def plaintiff_opinion(source: SourceText) -> Written:
    """What the prosecution says happened: the first sentence of its accusation."""
    found = ACCUSATION.search(facts_of(source))
    return qa(f"{facts_of(source)}\n公诉机关指控的主要事实是什么？", found[1]) if found else None


def legal_calculation(source: SourceText) -> Written:
    """A fine of so many times the illegal gains -> its highest amount for given gains.

    Where the multiple applies only from some amount of gains on, the question's gains lie above it.
    """
    found = MULTIPLE.search(source.text)
    law, label = source.metadata.get("law"), source.metadata.get("label")
    if not found or not law or not label or len(MULTIPLE.findall(source.text)) > 1:
        return None
    limits = _FROM.findall(normalise(source.text[: found.start()])) + _BELOW.findall(normalise(source.text))
    times, limits = parse_number(found["high"]), [parse_number(limit) for limit in limits]
    if times is None or None in limits:
        return None
    gains = round(max((limit or 0.0 for limit in limits), default=0.0)) + GAINS[_draw(source, len(GAINS))]
    question = f"某单位违反《{law}》{label}，违法所得{gains}元。按违法所得的倍数计算，罚款最高是多少元？"
    return qa(question, f"{plain_number(gains * times)}元")


TEXT_RULES: dict[str, Callable[[SourceText], Written]] = {
    rule.__name__: rule
    for rule in (
        event_detection,
        trigger_extraction,
        document_correction,
        reading_comprehension,
        plaintiff_opinion,
        legal_calculation,
    )
}
"""Profile id -> its rule."""


def events_of(text: str) -> dict[str, str]:
    """Event -> its trigger, in the order of the text."""
    places = {}
    for event, triggers in EVENTS.items():
        hits = [(text.find(word), word) for word in triggers if word in text]
        if hits:
            places[event] = min(hits, key=lambda hit: (hit[0], -len(hit[1])))
    return {event: places[event][1] for event in sorted(places, key=lambda name: places[name][0])}


def _draw(source: SourceText, count: int) -> int:
    """The same choice for a source on every machine."""
    return int.from_bytes(hashlib.blake2b(source.id.encode(), digest_size=4).digest()) % count


def facts_of(source: SourceText) -> str:
    """The facts without the mark of generated cases; the whole text where they are not annotated."""
    return str(source.metadata.get("facts") or source.text).replace(MARK, "").strip()


def qa(question: str, answer: str) -> Written:
    """A question with its answer; None when either is empty."""
    return {"question": question, "answer": answer} if question and answer else None
