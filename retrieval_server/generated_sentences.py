"""Sentences of the generated judgments: drawn inside the statutory range, then worded as courts word them.

`statutory_range` reads the range from the statute's own words, so that a sentence cannot leave it; `Wording` holds one
court's habits (numerals, order, notes in brackets). The intended numbers are kept: tests price them independently of
the parser.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import cn2an

from retrieval_server.sentencing import MainPenalty

FIXED, DETENTION, SURVEILLANCE = MainPenalty.FIXED_TERM, MainPenalty.DETENTION, MainPenalty.SURVEILLANCE
PENALTY_WORDS = {FIXED: "有期徒刑", DETENTION: "拘役", SURVEILLANCE: "管制", MainPenalty.LIFE: "无期徒刑"}
MIN_FIXED, MAX_FIXED = 6, 180
"""Fixed terms last six months to fifteen years (Criminal Law art. 45)."""
DETENTION_MONTHS, SURVEILLANCE_MONTHS = (1, 6), (3, 24)
"""拘役 and 管制 (Criminal Law art. 42 and 38)."""
_YEARS = {c: i for i, c in enumerate("一二三四五六七八九十", 1)} | {"十五": 15}


@dataclass(frozen=True)
class StatutoryRange:
    """What one tier of an article allows; `fixed` is (shortest, longest) in months."""

    fixed: tuple[int, int] | None
    detention: bool
    surveillance: bool
    life: bool
    death: bool
    fine: str
    """none, must (并处罚金), sole (并处或者单处罚金, or 罚金 as a main choice) or may (可以并处罚金)."""
    forfeiture: bool


@dataclass(frozen=True)
class IntendedSentence:
    """The numbers that a generated judgment means; months and days are those of the main penalty."""

    name: str
    charges: tuple[str, ...]
    penalty: MainPenalty = MainPenalty.NONE
    months: int = 0
    days: int = 0
    probation_months: int = 0
    fine: int = 0
    forfeiture: int = 0
    all_property: bool = False
    rights_months: int = 0
    rights_for_life: bool = False
    deported: bool = False

    @property
    def suspended(self) -> bool:
        """Whether 缓刑 was declared."""
        return self.probation_months > 0


def statutory_range(law: str) -> StatutoryRange:
    """Read a range such as 处三年以上十年以下有期徒刑，并处罚金 into months and allowed kinds."""
    low, high = MIN_FIXED, MAX_FIXED
    if match := re.search(r"([一二三四五六七八九十]+)年以上", law):
        low = 12 * _YEARS[match[1]]
    if match := re.search(r"([一二三四五六七八九十]+)年以下", law):
        high = 12 * _YEARS[match[1]]
    if match := re.search(r"处(十五)年有期徒刑", law):
        low = high = 12 * _YEARS[match[1]]
    return StatutoryRange(
        fixed=(low, high) if "有期徒刑" in law else None,
        detention="拘役" in law,
        surveillance="管制" in law,
        life="无期徒刑" in law,
        death="死刑" in law,
        fine=_fine_rule(law),
        forfeiture="没收财产" in law,
    )


def _fine_rule(law: str) -> str:
    if "可以并处罚金" in law:
        return "may"
    if "单处" in law or re.search(r"或者罚金", law):
        return "sole" if "单处" in law else "instead"
    return "must" if "罚金" in law else "none"


def draw_sentence(
    rng: random.Random,
    law: StatutoryRange,
    fines: tuple[int, int],
    *,
    position: float,
    lenient: float,
    may_suspend: bool,
    grave: bool,
) -> IntendedSentence:
    """Draw one sentence inside `law`.

    Args:
        position: 0 to 1, where the offence lies in its tier; moves the term up.
        lenient: 0 to 1, weight of the mitigating circumstances; moves the term down.
        may_suspend: False for recidivists (Criminal Law art. 74).
        grave: True lets life and death sentences be drawn where the law has them.
    """
    penalty = _draw_penalty(rng, law, position, lenient, grave)
    point = min(1.0, max(0.0, 0.65 * position + 0.45 * rng.random() - 0.3 * lenient))
    months, days = _draw_term(rng, law, penalty, point)
    probation = 0
    if may_suspend and penalty in (FIXED, DETENTION) and months <= 36 and rng.random() < 0.25 + 0.5 * lenient:
        probation = _draw_probation(rng, penalty, months)
    fine, forfeiture, everything = _draw_money(rng, law, fines, penalty, position)
    return IntendedSentence(
        name="",
        charges=(),
        penalty=penalty,
        months=months,
        days=days,
        probation_months=probation,
        fine=fine,
        forfeiture=forfeiture,
        all_property=everything,
        rights_for_life=penalty in (MainPenalty.LIFE, MainPenalty.DEATH, MainPenalty.DEATH_SUSPENDED),
    )


def _draw_penalty(rng: random.Random, law: StatutoryRange, position: float, lenient: float, grave: bool) -> MainPenalty:
    if grave and law.death and rng.random() < 0.4:
        return MainPenalty.DEATH if rng.random() < 0.35 else MainPenalty.DEATH_SUSPENDED
    if grave and law.life and rng.random() < 0.75:
        return MainPenalty.LIFE
    if law.fixed is None:
        return DETENTION
    if law.detention and position < 0.5:
        if law.fine in ("sole", "instead") and rng.random() < 0.06 + 0.06 * lenient:
            return MainPenalty.NONE
        if rng.random() < 0.05 * lenient:
            return MainPenalty.EXEMPT
        if law.surveillance and rng.random() < 0.05:
            return SURVEILLANCE
        if rng.random() < 0.35:
            return DETENTION
    return FIXED


def _draw_term(rng: random.Random, law: StatutoryRange, penalty: MainPenalty, point: float) -> tuple[int, int]:
    """(months, days); long terms in steps of three or six months, 拘役 now and then with odd days."""
    if penalty is FIXED and law.fixed:
        low, high = law.fixed
        step = 1 if high - low <= 30 else 3 if rng.random() < 0.5 else 6
        return low + round(point * (high - low) / step) * step if point < 1 else high, 0
    if penalty is DETENTION:
        low, high = DETENTION_MONTHS
        months = low + round(point * (high - low))
        return months, rng.choice((5, 10, 15, 20)) if months < high and rng.random() < 0.15 else 0
    if penalty is SURVEILLANCE:
        low, high = SURVEILLANCE_MONTHS
        return low + round(point * (high - low) / 3) * 3, 0
    return 0, 0


def _draw_probation(rng: random.Random, penalty: MainPenalty, months: int) -> int:
    """Probation of art. 73: not shorter than the term; 拘役 two months to one year, else one to five years."""
    if penalty is DETENTION:
        return min(12, max(2, months + rng.choice((1, 2, 3))))
    return min(60, max(12, -(-months // 6) * 6 + rng.choice((0, 6, 12))))


def _draw_money(
    rng: random.Random, law: StatutoryRange, fines: tuple[int, int], penalty: MainPenalty, position: float
) -> tuple[int, int, bool]:
    """(fine, forfeiture, everything forfeited), amounts in yuan."""
    low, high = fines
    step = 500 if high <= 20_000 else 1_000 if high <= 100_000 else 10_000
    amount = max(low, round((low + (high - low) * (0.7 * position + 0.3 * rng.random())) / step) * step)
    if penalty is MainPenalty.EXEMPT or not high or (law.fine == "instead" and penalty is not MainPenalty.NONE):
        return 0, 0, False
    heavy = penalty in (MainPenalty.LIFE, MainPenalty.DEATH, MainPenalty.DEATH_SUSPENDED)
    if law.forfeiture and (law.fine == "none" or heavy or rng.random() < 0.2):
        return (0, 0, True) if heavy and rng.random() < 0.7 else (0, amount, False)
    if law.fine == "none" or (law.fine == "may" and rng.random() < 0.5):
        return 0, 0, False
    return amount, 0, False


@dataclass(frozen=True)
class Wording:
    """One court's habits of wording; `Wording.draw` picks them."""

    numerals: str = "chinese"
    money: str = "chinese"
    linking: str = ""
    currency: str = "人民币"
    fine_joint: str = "，并处罚金"
    probation_joint: str = "，缓刑"
    notes: bool = True

    @classmethod
    def draw(cls, rng: random.Random) -> Wording:
        """A random but coherent set of habits."""
        return cls(
            numerals=rng.choice(("chinese",) * 8 + ("digits", "full_width")),
            money=rng.choice(("chinese",) * 5 + ("digits",) * 3 + ("comma", "capital", "wan", "decimals")),
            linking=rng.choice(("", "", "零", "又")),
            currency=rng.choice(("人民币", "人民币", "人民币", "")),
            fine_joint=rng.choice(("，并处罚金",) * 5 + ("，罚金", "。并处罚金", "；并处罚金")),
            probation_joint=rng.choice(("，缓刑",) * 4 + ("，宣告缓刑", "缓刑")),
            notes=rng.random() < 0.85,
        )

    def number(self, value: int) -> str:
        """A small number of years, months or days."""
        if self.numerals == "chinese":
            text = cn2an.an2cn(value, "low")
            return text.removeprefix("一") if 10 <= value < 20 else text
        return (
            str(value).translate(str.maketrans("0123456789", "０１２３４５６７８９"))
            if (self.numerals == "full_width")
            else str(value)
        )

    def term(self, months: int, days: int = 0) -> str:
        """三年, 三年零六个月, 一个月十五天."""
        years, rest = divmod(months, 12)
        text = f"{self.number(years)}年" if years else ""
        if rest:
            text += (self.linking if years else "") + f"{self.number(rest)}个月"
        return text + (
            f"{'零' if self.linking else ''}{self.number(days)}{'日' if self.linking else '天'}" if days else ""
        )

    def yuan(self, amount: int) -> str:
        """An amount of money with its currency words."""
        written = {
            "digits": f"{amount}元",
            "comma": f"{amount:,}元".replace(",", "，"),
            "capital": f"{cn2an.an2cn(amount, 'up')}元",
            "wan": f"{amount / 10_000:g}万元" if amount >= 10_000 else f"{amount}元",
            "decimals": f"{amount}.00元",
        }
        return self.currency + written.get(self.money, f"{cn2an.an2cn(amount, 'low')}元")

    def penalty(self, sentence: IntendedSentence) -> str:
        """The operative words after 犯…罪，: 判处有期徒刑三年，缓刑四年，并处罚金人民币五千元."""
        if sentence.penalty is MainPenalty.EXEMPT:
            return "免予刑事处罚"
        if sentence.penalty is MainPenalty.NONE:
            return f"{'单处' if self.notes else '判处'}罚金{self.yuan(sentence.fine)}"
        return "判处" + self.served(sentence)

    def served(self, sentence: IntendedSentence) -> str:
        """Main and supplementary penalties without the verb."""
        text = {
            MainPenalty.DEATH: "死刑",
            MainPenalty.DEATH_SUSPENDED: "死刑，缓期二年执行",
            MainPenalty.LIFE: "无期徒刑",
        }.get(sentence.penalty) or PENALTY_WORDS[sentence.penalty] + self.term(sentence.months, sentence.days)
        if sentence.suspended:
            text += self.probation_joint + self.term(sentence.probation_months)
        if sentence.rights_for_life:
            text += "，剥夺政治权利终身"
        elif sentence.rights_months:
            text += f"，剥夺政治权利{self.term(sentence.rights_months)}"
        if sentence.all_property:
            text += "，并处没收个人全部财产"
        elif sentence.forfeiture:
            text += f"，并处没收个人财产{self.yuan(sentence.forfeiture)}"
        if sentence.fine:
            text += self.fine_joint + self.yuan(sentence.fine)
        return text + ("，附加驱逐出境" if sentence.deported else "")
