"""The embedded default of K_case: criminal judgments written by a program, none of them real.

Charges, articles and ranges are those of the Criminal Law (a test compares them with the statute); courts, places,
people and facts are invented and the text says so. Case i depends on `(seed, i)` alone, through `random.Random`, so the
first n cases are the same on every machine and for every `count`::

    next(iter_generated_cases()).id == "gen-0-0000"
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from retrieval_server.generated_sentences import (
    IntendedSentence,
    StatutoryRange,
    Wording,
    draw_sentence,
    statutory_range,
)
from retrieval_server.generated_story import Person, Story, facts_text, opinion_text
from retrieval_server.sentencing import MainPenalty
from retrieval_server.severity import case_severity
from retrieval_server.types import Case, CourtLevel

DEFAULT_COUNT = 600
MARK = "（本案例由程序生成，法院、人物和情节均为虚构。）"
_INTERMEDIATE_RESIDUES = frozenset({7, 21, 35, 49, 63, 77, 91})
_HIGH_PERIOD, _HIGH_RESIDUE = 120, 60
_VIOLENT = frozenset({"故意杀人罪", "抢劫罪", "强奸罪", "贩卖毒品罪", "故意伤害罪"})
_FOREIGNER_CHARGES = frozenset({"贩卖毒品罪", "诈骗罪", "盗窃罪"})


@dataclass(frozen=True)
class GeneratedJudgment:
    """A generated case with the numbers it was written from: `convictions` before, `sentences` after combination.

    `ranges[i]` is the statutory range of `convictions[i]`.
    """

    case: Case
    sentences: tuple[IntendedSentence, ...]
    convictions: tuple[IntendedSentence, ...]
    ranges: tuple[StatutoryRange, ...]


def iter_generated_cases(seed: int = 0, count: int = DEFAULT_COUNT) -> Iterator[Case]:
    """The first `count` generated cases of a seed, in order."""
    return (judgment.case for judgment in iter_generated_judgments(seed, count))


def iter_generated_judgments(seed: int = 0, count: int = DEFAULT_COUNT) -> Iterator[GeneratedJudgment]:
    """As `iter_generated_cases`, with the intended sentences."""
    return (generate_judgment(seed, number) for number in range(count))


def generate_judgment(seed: int, number: int) -> GeneratedJudgment:
    """Write case `number` of `seed`."""
    rng = random.Random(f"legal-rl/generated-cases/{seed}/{number}")
    level = _level_of(number)
    appeal = level is CourtLevel.HIGH or (level is CourtLevel.INTERMEDIATE and rng.random() < 0.5)
    grave = level is CourtLevel.HIGH or (level is CourtLevel.INTERMEDIATE and not appeal)
    story = _draw_story(rng, grave)
    wording = Wording.draw(rng)
    convictions, ranges = _convict(rng, story, grave)
    sentences, result = _pronounce(rng, story, wording, convictions, level if appeal else None)
    charges = tuple(dict.fromkeys(charge for s in sentences for charge in s.charges))
    severity = case_severity(result)
    case = Case(
        id=f"gen-{seed}-{number:04d}",
        court=_court_name(rng, level, story),
        court_level=level,
        charges=charges,
        articles=story.articles,
        facts=facts_text(rng, story, appeal) + MARK,
        reason=opinion_text(story, appeal),
        result=result,
        psi=severity.psi,
        psi_note=severity.note,
        generated=True,
        source=f"generated(seed={seed})",
    )
    return GeneratedJudgment(case, sentences, convictions, ranges)


@lru_cache(maxsize=1)
def material() -> dict[str, Any]:
    """The tables of `generated_cases.yaml`."""
    text = files("retrieval_server").joinpath("generated_cases.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _level_of(number: int) -> CourtLevel:
    """About 7 % intermediate and 0.8 % high courts, evenly spread, so that any prefix has them in their shares."""
    if number % _HIGH_PERIOD == _HIGH_RESIDUE:
        return CourtLevel.HIGH
    return CourtLevel.INTERMEDIATE if number % 100 in _INTERMEDIATE_RESIDUES else CourtLevel.PRIMARY


def _court_name(rng: random.Random, level: CourtLevel, story: Story) -> str:
    """A court of the place where the deed was done; one in thirty primary courts is a railway court."""
    if level is CourtLevel.HIGH:
        return f"{rng.choice(material()['provinces'])}高级人民法院"
    if level is CourtLevel.INTERMEDIATE:
        return f"{story.city}中级人民法院"
    return f"{story.city}{story.district}人民法院" if rng.random() < 0.97 else f"{story.city}铁路运输法院"


def _weighted(rng: random.Random, rows: list[dict[str, Any]]) -> dict[str, Any]:
    point = rng.random() * sum(row["weight"] for row in rows)
    for row in rows:
        point -= row["weight"]
        if point < 0:
            return row
    return rows[-1]


def _draw_story(rng: random.Random, grave: bool) -> Story:
    """Who did what: charge (sometimes two), tier, defendants and circumstances."""
    tables = material()
    rows = tables["charges"]
    if grave:
        rows = [row for row in rows if any("无期徒刑" in tier["law"] for tier in row["tiers"])]
    row = _weighted(rng, rows)
    tiers = [t for t in row["tiers"] if not grave or "无期徒刑" in t["law"]]
    offences = [(row, _weighted(rng, tiers), rng.random())]
    partners = [b if a == row["charge"] else a for a, b in tables["pairs"] if row["charge"] in (a, b)]
    if partners and not grave and rng.random() < 0.25:
        partner = rng.choice(partners)
        other = next(r for r in tables["charges"] if r["charge"] == partner)
        offences.append((other, other["tiers"][0], rng.random()))
    solo = len(offences) > 1 or row.get("solo") or row.get("negligent") or (row["weight"] > 9 and rng.random() < 0.8)
    size = 1 if solo else rng.choice((2, 3)) if row.get("joint") else rng.choice((1, 1, 1, 1, 2, 2, 3))
    return Story.draw(rng, offences, size, tables)


def _convict(
    rng: random.Random, story: Story, grave: bool
) -> tuple[tuple[IntendedSentence, ...], tuple[StatutoryRange, ...]]:
    """One sentence for each defendant and charge, inside the range of its tier."""
    convictions, ranges = [], []
    for person in story.people:
        for row, tier, position in story.offences:
            law = statutory_range(tier["law"])
            sentence = draw_sentence(
                rng,
                law,
                tuple(tier.get("fine", (0, 0))),
                position=position,
                lenient=person.leniency,
                may_suspend=not person.recidivist and len(story.offences) == 1,
                grave=grave and not person.accessory,
            )
            sentence = replace(sentence, name=person.name, charges=(row["charge"],))
            convictions.append(_with_extras(rng, sentence, row["charge"], person))
            ranges.append(law)
    return tuple(convictions), tuple(ranges)


def _with_extras(rng: random.Random, sentence: IntendedSentence, charge: str, person: Person) -> IntendedSentence:
    """剥夺政治权利 for long terms of violent crimes (art. 56); deportation of foreigners (art. 35)."""
    if sentence.penalty is MainPenalty.FIXED_TERM and sentence.months >= 120 and charge in _VIOLENT:
        return replace(sentence, rights_months=12 * rng.choice((1, 2, 3, 4)))
    if person.foreign and charge in _FOREIGNER_CHARGES and sentence.penalty is MainPenalty.FIXED_TERM:
        return replace(sentence, deported=True, probation_months=0)
    return sentence


def _pronounce(
    rng: random.Random,
    story: Story,
    wording: Wording,
    convictions: tuple[IntendedSentence, ...],
    appeal_at: CourtLevel | None,
) -> tuple[tuple[IntendedSentence, ...], str]:
    """Sentences executed, and the result that says them; `appeal_at` is the level of a court of second instance."""
    if len(story.offences) > 1:
        executed, text = _combined(rng, wording, convictions)
        return (executed,), text + _closing_items(story, 2)
    if appeal_at:
        return _on_appeal(rng, story, wording, convictions, appeal_at)
    texts = [_conviction_text(wording, s, story) for s in convictions]
    if len(texts) == 1 and not story.extra_items:
        return convictions, texts[0]
    return convictions, _numbered(texts + list(story.extra_items))


def _conviction_text(wording: Wording, sentence: IntendedSentence, story: Story, role: str = "被告人") -> str:
    text = f"{role}{sentence.name}犯{sentence.charges[0]}，{wording.penalty(sentence)}"
    return text + _note(wording, sentence, story)


def _note(wording: Wording, sentence: IntendedSentence, story: Story) -> str:
    """The bracketed remark on reckoning and payment that follows most sentences."""
    payment = "罚金限判决生效后十日内缴纳。" if sentence.fine else ""
    if not wording.notes or sentence.penalty in (MainPenalty.EXEMPT, MainPenalty.DEATH, MainPenalty.LIFE):
        return "。"
    if sentence.penalty is MainPenalty.NONE:
        return "（已缴纳）。"
    if sentence.suspended:
        return f"。 （缓刑考验期限，从判决确定之日起计算。{payment}）"
    return f"。 （刑期从判决执行之日起计算。判决执行以前先行羁押的，羁押一日折抵刑期一日。{payment}）"


def _numbered(items: list[str]) -> str:
    return "\n".join(f"{'一二三四五六七八九'[i]}、{text}" for i, text in enumerate(items))


def _closing_items(story: Story, first: int) -> str:
    return "".join(f"\n{'一二三四五六七八九'[first - 1 + i]}、{t}" for i, t in enumerate(story.extra_items))


def _combined(
    rng: random.Random, wording: Wording, convictions: tuple[IntendedSentence, ...]
) -> tuple[IntendedSentence, str]:
    """数罪并罚 of one defendant (art. 69): between the longest term and the sum, fines added."""
    fixed = [s.months for s in convictions if s.penalty is MainPenalty.FIXED_TERM]
    main = max(
        convictions, key=lambda s: (s.penalty is MainPenalty.FIXED_TERM, s.penalty.is_custodial, s.months, s.days)
    )
    months = main.months
    if len(fixed) > 1:
        months = rng.randint(max(fixed), min(sum(fixed), 240))
    elif not fixed and sum(s.penalty is main.penalty for s in convictions) > 1:
        months = min(sum(s.months for s in convictions), 12)
    rights = max(s.rights_months for s in convictions)
    executed = replace(
        main,
        charges=tuple(charge for s in convictions for charge in s.charges),
        months=months,
        days=main.days if months == main.months else 0,
        fine=sum(s.fine for s in convictions),
        forfeiture=sum(s.forfeiture for s in convictions),
        rights_months=rights,
    )
    parts = [
        f"{'被告人' + s.name if i == 0 else ''}犯{s.charges[0]}，{wording.penalty(s)}"
        for i, s in enumerate(convictions)
    ]
    if not main.penalty.is_custodial:
        return executed, "一、" + "；".join(parts) + "。"
    verb = rng.choice(("决定执行", "数罪并罚，决定执行", "决定合并执行", "按数罪并罚原则，决定执行", "合并执行"))
    return executed, "一、" + "；".join(parts) + f"；{verb}{wording.served(executed)}。"


def _on_appeal(
    rng: random.Random,
    story: Story,
    wording: Wording,
    convictions: tuple[IntendedSentence, ...],
    level: CourtLevel,
) -> tuple[tuple[IntendedSentence, ...], str]:
    """Second instance: the last defendant's sentence is quashed and lightened, the others' are upheld."""
    *upheld, changed = convictions
    if changed.penalty is MainPenalty.DEATH:
        changed = replace(changed, penalty=MainPenalty.DEATH_SUSPENDED)
    earlier = _heavier(rng, changed)
    below = f"{story.city}中级" if level is CourtLevel.HIGH else f"{story.city}{story.district}"
    court = f"{below}人民法院（{story.year}）刑初{rng.randint(11, 480)}号"
    items = []
    if upheld:
        kept = "；".join(f"被告人{s.name}犯{s.charges[0]}，{wording.penalty(s)}" for s in upheld)
        items.append(f"维持{court}刑事判决第一项，即{kept}。")
    old = f"被告人{earlier.name}犯{earlier.charges[0]}，{wording.penalty(earlier)}。"
    quoted = f"即：“{old}”" if rng.random() < 0.3 else f"即{old}"
    items.append(f"撤销{court}刑事判决对上诉人{changed.name}的判决部分，{quoted}")
    items.append(_conviction_text(wording, changed, story, role="上诉人（原审被告人）"))
    return (*upheld, changed), _numbered(items)


def _heavier(rng: random.Random, sentence: IntendedSentence) -> IntendedSentence:
    """A first-instance sentence that the appeal lightens; it is quoted, so it need not fit the tier."""
    if sentence.penalty is MainPenalty.FIXED_TERM:
        return replace(sentence, months=sentence.months + rng.choice((3, 6, 9, 12)), probation_months=0)
    if sentence.penalty is MainPenalty.DEATH_SUSPENDED:
        return replace(sentence, penalty=MainPenalty.DEATH)
    if sentence.penalty is MainPenalty.LIFE:
        return replace(sentence, penalty=MainPenalty.DEATH_SUSPENDED)
    return replace(sentence, fine=2 * sentence.fine, probation_months=0)
