"""Rule-driven distractors for choice questions (paper, appendix G.6): swapped values, wrong labels, validity checks.

    make_choices("张某被判处有期徒刑三年，李某有期徒刑一年，王某拘役五个月……", "有期徒刑三年", "case-7", ordinal=0)
    -> Choices(options=("有期徒刑一年", …), index=2, origins=("swap", "label", "answer", …))

Value swapping offers values that the source gives to someone or something else. Wrong labels offer the label of a
neighbouring charge, article, role, court or penalty, or the value one statutory step away. Every candidate must pass
`reject`: a distractor differs from the answer and from the others after normalisation, is of the answer's type, and is
not true by the source as well.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from legal_rl.data.pipeline.leakage import CLOSED_ANSWERS
from legal_rl.data.pipeline.values import Value, find_values, fold, plain_number
from retrieval_server.numerals import article_label, chinese_number
from rewards.text import normalise

LETTERS = "ABCDEFGH"
TEXT = "text"
_TOGETHER = r"(?:、|和|及|与|以及|,|并|同时|又犯|还犯|兼|,?并处|,?并)"
"""What stands between two values that are both true of one subject."""
_ALSO = re.compile(r"(?:即|又称|也称|亦称|简称|以下简称|或者|折合|相当于|等于|合计为?|\(|=)")
"""What stands between two names of one thing."""
_BETWEEN_ARTICLES = r"(?:第[一二三四五六七八九十\d]+[款项]|[、,和及与或《》]|以及){0,6}"
_ANOTHER = re.compile(r"某|被告人|同案|另一|[甲乙丙丁戊己]")
"""A second person between two charges: 张某犯盗窃罪，李某犯诈骗罪."""
_STEP = {"amount": (0.5, 0.8, 1.2, 1.5, 2.0), "fine": (0.5, 2.0, 3.0, 5.0), "percent": (0.5, 1.5, 2.0)}
_TERM_STEPS = (-24, -12, -6, 6, 12, 24, 36)


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of one question in their shuffled order; `origins[i]` is `answer`, `swap`, `neighbour` or `label`."""

    options: tuple[str, ...]
    index: int
    origins: tuple[str, ...]

    @property
    def letter(self) -> str:
        """The answer's letter."""
        return LETTERS[self.index]


@cache
def _labels() -> dict[str, tuple[str, ...]]:
    """Group -> labels that exclude one another, from `labels.yaml`."""
    text = resources.files("legal_rl.data.pipeline").joinpath("labels.yaml").read_text(encoding="utf-8")
    return {group: tuple(names) for group, names in yaml.safe_load(text).items()}


def make_choices(
    source: str, answer: str, key: str, ordinal: int, *, count: int = 4, seed: int = 0, extra: Sequence[str] = ()
) -> Choices | None:
    """Options for one question; None when there are not enough valid distractors.

    Args:
        source: the text the answer was taken from.
        key: id of the record; with `seed` it decides which candidates are drawn and in which order.
        ordinal: place of the record in its file: answers are spread over the letters in balanced blocks.
        extra: further candidates, such as answers of neighbouring records.
    """
    rng = random.Random(f"{seed}/{key}/distractors")
    chosen: list[tuple[str, str]] = []
    for text, origin in candidates(source, answer, rng, extra):
        if not reject(text, answer, source, [other for other, _ in chosen]):
            chosen.append((text, origin))
        if len(chosen) == count - 1:
            index = answer_index(ordinal, count, seed)
            rng.shuffle(chosen)
            rows = [*chosen[:index], (answer, "answer"), *chosen[index:]]
            return Choices(tuple(text for text, _ in rows), index, tuple(origin for _, origin in rows))
    return None


def answer_index(ordinal: int, count: int = 4, seed: int = 0) -> int:
    """A random place for the answer, balanced: each block of `count` records in a row has every letter once."""
    block, place = divmod(ordinal, count)
    order = list(range(count))
    random.Random(f"{seed}/{count}/{block}/letters").shuffle(order)
    return order[place]


def candidates(source: str, answer: str, rng: random.Random, extra: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """(text, origin) of possible distractors: swapped values and neighbours' answers first, wrong labels after them."""
    value = main_value(answer)
    swaps = [] if value is None else [v.text for v in find_values(source) if v.kind == value.kind]
    yield from ((text, "swap" if text in swaps else "neighbour") for text in _shuffled([*swaps, *extra], rng))
    yield from ((text, "label") for text in _shuffled(_siblings(answer), rng))
    if value is not None:
        yield from ((text, "label") for text in _shuffled(_steps(value), rng))


def _shuffled(texts: Iterable[str], rng: random.Random) -> list[str]:
    unique = list(dict.fromkeys(texts))
    rng.shuffle(unique)
    return unique


def _siblings(answer: str) -> list[str]:
    """The other labels of the answer's group: 从犯 -> 主犯, 胁从犯, …; 盗窃 -> 抢夺, … without 罪 as the answer is."""
    bare = answer.strip()
    for names in _labels().values():
        if bare in names:
            return [name for name in names if name != bare]
        if f"{bare}罪" in names:
            return [name.removesuffix("罪") for name in names if name != f"{bare}罪"]
    return []


def _steps(value: Value) -> list[str]:
    """Values of the same kind one step away, written as statutes and judgments write them."""
    key = value.key if isinstance(value.key, tuple) else (value.key,)
    numbers = [float(part) for part in key if not isinstance(part, str)]
    if value.kind in _STEP:
        unit = "%" if value.kind == "percent" else "元"
        made = [numbers[0] * factor for factor in _STEP[value.kind]]
        return [
            f"{'罚金' if value.kind == 'fine' else ''}{plain_number(number)}{unit}"
            for number in made
            if number == round(number, 2)
        ]
    if value.kind == "term" and len(numbers) == 1:
        return [f"{key[0]}{months_text(numbers[0] + step)}" for step in _TERM_STEPS if numbers[0] + step >= 1]
    if value.kind == "term" and len(numbers) == 2:
        return [text for text in _ranges(str(key[0])) if text != value.text]
    if value.kind == "probation":
        return [f"缓刑{months_text(numbers[0] + step)}" for step in _TERM_STEPS if numbers[0] + step >= 2]
    if value.kind == "duration" and numbers[0] >= 1 and numbers[0] == int(numbers[0]):
        return [months_text(numbers[0] + step) for step in _TERM_STEPS if numbers[0] + step >= 1]
    if value.kind == "duration":
        days = round(numbers[0] * 30)
        return [f"{chinese_number(n)}日" for n in (days // 2, days + 5, days + 15, days * 2) if n > 0]
    if value.kind == "article":
        law, number = str(key[0]), int(numbers[0])
        return [f"{law}{article_label(number + step)}" for step in (-3, -2, -1, 1, 2, 3) if number + step > 0]
    return []


def _ranges(kind: str) -> list[str]:
    spans = ("三年以下", "三年以上七年以下", "三年以上十年以下", "五年以下", "五年以上十年以下", "七年以上", "十年以上")
    return [f"{span}{kind}" for span in spans]


def months_text(months: float) -> str:
    """42 -> 三年六个月."""
    years, rest = divmod(int(months), 12)
    return (f"{chinese_number(years)}年" if years else "") + (f"{chinese_number(rest)}个月" if rest else "")


def main_value(answer: str) -> Value | None:
    """The one value an answer consists of; None for other answers."""
    values = find_values(answer)
    if len(values) != 1:
        return None
    rest = fold(answer)[: values[0].start] + fold(answer)[values[0].end :]
    return values[0] if len(re.sub(r"[\W_]|判处|被告人|应|处|罪|的", "", rest)) <= 1 else None


def reject(candidate: str, answer: str, source: str, others: Sequence[str] = ()) -> str:
    """Why a candidate is no valid distractor; empty when it is one."""
    said, meant = normalise(candidate), normalise(answer)
    if not said:
        return "empty"
    if answer.strip() in CLOSED_ANSWERS:
        return "" if candidate.strip() in CLOSED_ANSWERS and said != meant else "not of the answer's type"
    if _same(candidate, answer):
        return "the answer in other words"
    if any(_same(candidate, other) for other in others):
        return "another option in other words"
    kind, other_kind = kind_of(answer), kind_of(candidate)
    if kind != other_kind:
        return f"type {other_kind}, the answer's is {kind}"
    if kind in ("charge", TEXT) and (said in meant or meant in said):
        return "overlaps with the answer"
    if kind == TEXT and not 0.25 <= len(said) / max(1, len(meant)) <= 4:
        return "gives itself away by its length"
    if _both_true(candidate, answer, source):
        return "also true by the source"
    return ""


def kind_of(text: str) -> str:
    """Kind of a text's one value, the group of a label, or `text`."""
    bare = text.strip()
    for group, names in _labels().items():
        if bare in names or f"{bare}罪" in names:
            return "charge" if group.startswith("charge") else group
    value = main_value(text)
    return TEXT if value is None else value.kind


def _same(one: str, other: str) -> bool:
    if normalise(one).removesuffix("罪") == normalise(other).removesuffix("罪"):
        return True
    first, second = main_value(one), main_value(other)
    if first is None or second is None:
        return False
    if {first.kind, second.kind} <= {"amount", "fine"}:
        return first.key == second.key
    if first.kind == second.kind == "article":
        return _same_article(first, second)
    return first.kind == second.kind and first.key == second.key


def _both_true(candidate: str, answer: str, source: str) -> bool:
    """The source says both of one subject.

    Side by side (犯盗窃罪、诈骗罪), as two names of one thing (甲，即乙), of one offender (犯盗窃罪，…又犯诈骗罪), in
    one list of articles (依照第577条、第584条).
    """
    if kind_of(answer) == "article":
        return _cited_together(candidate, answer, source)
    text = fold(source)
    one, other = (
        re.escape(fold(part)).removesuffix("罪") + ("罪?" if kind_of(part) == "charge" else "")
        for part in (answer, candidate)
    )
    joined = rf"(?:{_TOGETHER}|{_ALSO.pattern})"
    lead = r"[《》\"“”第]{0,2}"
    orders = ((one, other), (other, one))
    if kind_of(answer) == "charge":
        again = (re.finditer(rf"{a}([^。\n]{{0,80}}?)(?<![不未非否])(?:犯有?|构成){b}", text) for a, b in orders)
        if any(not _ANOTHER.search(match[1]) for matches in again for match in matches):
            return True
    return any(re.search(rf"{a}{lead}{joined}{lead}{b}", text) for a, b in orders)


def _cited_together(candidate: str, answer: str, source: str) -> bool:
    """Both stand in one run of articles with nothing but conjunctions between them."""
    text, run = fold(source), 0
    places: dict[str, set[int]] = {candidate: set(), answer: set()}
    end = None
    for value in (value for value in find_values(source) if value.kind == "article"):
        if end is not None and not re.fullmatch(_BETWEEN_ARTICLES, text[end : value.start]):
            run += 1
        end = value.end
        for wanted, runs in places.items():
            if _same_article(value, main_value(wanted)):
                runs.add(run)
    return bool(places[candidate] & places[answer])


def _same_article(one: Value, other: Value | None) -> bool:
    """Of one law and number; a law that is left out may be any."""
    if other is None or not isinstance(one.key, tuple) or not isinstance(other.key, tuple):
        return False
    return one.key[1:] == other.key[1:] and (not one.key[0] or not other.key[0] or one.key == other.key)


def add_choices(
    records: Iterable[dict[str, Any]], *, count: int = 4, seed: int = 0
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields (record with `choices` and its letter as `answer`, "") or (the record as it was, why it has none).

    Records have `id`, `question`, `answer` and the source text in `source_text` (else in `question`). `answer_text`
    keeps the answer.
    """
    ordinal = 0
    for record in records:
        made, why = with_choices(record, ordinal, count=count, seed=seed)
        ordinal += not why
        yield made, why


def with_choices(record: dict[str, Any], ordinal: int, *, count: int = 4, seed: int = 0) -> tuple[dict[str, Any], str]:
    """One record of `add_choices`; `ordinal` decides the answer's letter."""
    answer = str(record.get("answer", ""))
    source = str(record.get("source_text") or record.get("question") or "")
    made = make_choices(source, answer, str(record.get("id", "")), ordinal, count=count, seed=seed)
    if made is None:
        return record, f"fewer than {count - 1} valid distractors"
    options = {"choices": list(made.options), "choice_origins": list(made.origins), "answer_index": made.index}
    return {**record, "answer": made.letter, "answer_text": answer, **options}, ""
