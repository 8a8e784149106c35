"""No retrieval: everything the answer needs stands in the question, so a search is needless."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from envs.types import Question, Reference
from legal_rl.data.clauses import definition
from legal_rl.data.families.base import LETTERS, options_line, shuffled
from legal_rl.data.material import Material
from legal_rl.data.splits import split_of_key
from legal_rl.data.wording import ask

DIGITS = "零一二三四五六七八九十"
_NAMES = [f"{surname}某{mark}" for surname in "赵钱孙李周吴郑王冯陈" for mark in ("", "甲", "乙")]
_FIRMS = [
    f"{place}{trade}公司" for place in ("云海", "青岭", "长河", "白石", "南湖") for trade in ("建材", "运输", "食品")
]
_COSTS = ("运费", "仓储费", "保险费", "检验费", "包装费", "鉴定费", "公证费", "维修费")
_WORDS: tuple[str, ...] = (
    "要约",
    "承诺",
    "抵押",
    "质押",
    "留置",
    "定金",
    "保证",
    "代位权",
    "撤销权",
    "诉讼时效",
    "自首",
    "立功",
    "累犯",
    "缓刑",
    "假释",
)


def no_retrieval(material: Material, rng: random.Random) -> Iterator[Question]:
    """The five kinds in turn; a question's part is the hash of its values, definitions follow their law's part."""
    definitions = _definitions(material, rng)
    for _ in range(2_000):
        for make in (_duty, _longer_term, _months, _lettered):
            kind, text, answer, key = make(rng)
            if split_of_key(key, material.settings.seed) == material.split:
                yield _question(material, kind, text, answer)
        following = next(definitions, None)
        if following is not None:
            yield following


def term_text(months: int) -> str:
    """30 -> 二年六个月, 36 -> 三年, 8 -> 八个月."""
    years, rest = divmod(months, 12)
    return (f"{numeral(years)}年" if years else "") + (f"{numeral(rest)}个月" if rest else "")


def numeral(number: int) -> str:
    """1..19 in Chinese numerals."""
    return DIGITS[number] if number <= 10 else f"十{DIGITS[number - 10]}"


def _question(
    material: Material, kind: str, text: str, answer: str, grader: str = "exact", **metadata: str
) -> Question:
    return Question(
        id="",
        text=text,
        answer=answer,
        grader=grader,
        family="no_retrieval",
        split=material.split,
        reference=Reference(actions=("stop",)),
        metadata={"kind": kind, **metadata},
    )


def _definitions(material: Material, rng: random.Random) -> Iterator[Question]:
    for article in shuffled(material.articles, rng):
        found = definition(article.text)
        if found and 4 <= len(found[1]) <= material.settings.max_answer_chars:
            term, meaning = found
            text = ask("definition", rng, term=term, meaning=meaning)
            yield _question(material, "definition", text, meaning, grader="rouge_l", term=term, article=article.id)


def _duty(rng: random.Random) -> tuple[str, str, str, str]:
    a, b = rng.sample(_FIRMS, 2)
    payer, cost = rng.choice((a, b)), rng.choice(_COSTS)
    return "duty", ask("duty", rng, a=a, b=b, cost=cost, payer=payer), payer, f"{a}/{b}/{cost}"


def _longer_term(rng: random.Random) -> tuple[str, str, str, str]:
    x, y = rng.sample(_NAMES, 2)
    short, long = sorted(rng.sample(range(6, 181, 6), 2))
    months = {x: short, y: long} if rng.random() < 0.5 else {x: long, y: short}
    text = ask("longer_term", rng, x=x, y=y, term_x=term_text(months[x]), term_y=term_text(months[y]))
    return "longer_term", text, max(months, key=lambda name: months[name]), f"{short}/{long}"


def _months(rng: random.Random) -> tuple[str, str, str, str]:
    total = rng.randint(13, 71)
    return "months", ask("months", rng, term=term_text(total)), f"{total}个月", f"months/{total}"


def _lettered(rng: random.Random) -> tuple[str, str, str, str]:
    words = rng.sample(_WORDS, 4)
    wanted = rng.choice(words)
    options = options_line(words, rng.choice(("letter_first", "letter_last")))
    text = ask("lettered", rng, options=options, wanted=wanted)
    return "lettered", text, LETTERS[words.index(wanted)], "/".join(sorted(words))


def solve(question: Question) -> str:
    """The teacher's reading of a question of this family, from its words alone; empty when none of the kinds fits."""
    return next((answer for answer in (read(question.text) for read in _READERS) if answer), "")


def _read_definition(text: str) -> str:
    match = re.search(r"是指([^。”？]+)(?:。|”，请问)", text)
    return match[1] if match else ""


def _read_duty(text: str) -> str:
    match = re.search(r"(?:由|归|商定|同意)(\w+?公司)(?:承担|负担|支付|出)", text)
    return match[1] if match else ""


def _read_longer_term(text: str) -> str:
    pairs = re.findall(
        r"([一-龥]某[甲乙]?)[^，。；]*?((?:[一二三四五六七八九十]+年)?(?:[一二三四五六七八九十]+个月)?)(?=[，。])", text
    )
    return max(pairs, key=lambda pair: months_of(pair[1]))[0] if len(pairs) == 2 else ""


def _read_months(text: str) -> str:
    match = re.search(r"[一二三四五六七八九十]+年(?:[一二三四五六七八九十]+个月)?", text)
    return f"{months_of(match[0])}个月" if match and "多少个月" in text else ""


def _read_lettered(text: str) -> str:
    wanted = re.search(r"“([^”]+)”", text)
    if not wanted:
        return ""
    word = re.escape(wanted[1])
    match = re.search(rf"([A-D])\.{word}|{word}（([A-D])）", text)
    return (match[1] or match[2]) if match else ""


def months_of(term: str) -> int:
    """二年六个月 -> 30; 0 for an empty term."""
    match = re.fullmatch(r"(?:([一二三四五六七八九十]+)年)?(?:([一二三四五六七八九十]+)个月)?", term)
    return 12 * _number(match[1]) + _number(match[2]) if match else 0


def _number(text: str | None) -> int:
    if not text:
        return 0
    return DIGITS.index(text) if len(text) == 1 else 10 + DIGITS.index(text[1])


_READERS = (_read_months, _read_definition, _read_duty, _read_lettered, _read_longer_term)
