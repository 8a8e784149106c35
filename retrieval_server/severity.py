"""Punishment Severity Index of a judgment's result text (paper, section 4.1 and appendix F.2, Table 8).

PSI = D·γ·φ + ΣS: days of the main penalty (month 30, year 360) times 1.0 for 有期徒刑, 0.8 for 拘役, 0.3 for 管制;
times 0.2 when suspended; plus 20·lg(amount + 1) for each of fine and forfeiture, 100 a year for 剥夺政治权利 …::

    punishment_severity_index("有期徒刑三年，缓刑四年") == 216.0
    punishment_severity_index("被告人张某犯诈骗罪，判处有期徒刑□年。") is nan, and `parse_sentence` says why

What cannot be read has no number and a reason, never 0. Choices where the paper is silent: `docs` and the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from retrieval_server.amounts import DAYS_PER_MONTH, DAYS_PER_YEAR
from retrieval_server.sentencing import MainPenalty, Ruling, read_rulings

FACTORS = {MainPenalty.FIXED_TERM: 1.0, MainPenalty.DETENTION: 0.8, MainPenalty.SURVEILLANCE: 0.3}
FIXED_VALUES = {MainPenalty.DEATH: 100_000.0, MainPenalty.DEATH_SUSPENDED: 50_000.0, MainPenalty.LIFE: 15_000.0}
SUSPENSION = 0.2
RIGHTS_FOR_LIFE = 2_000.0
RIGHTS_PER_YEAR = 100.0
DEPORTATION = 1_000.0
ALL_PROPERTY = 200.0
"""没收个人全部财产 without an amount."""

_ABSORBING = (MainPenalty.DEATH, MainPenalty.DEATH_SUSPENDED, MainPenalty.LIFE)


@dataclass(frozen=True)
class DefendantSentence:
    """What one defendant has to serve and pay, and the index of it.

    `psi` is None exactly when `reason` says what could not be read. Amounts are yuan; `rights_months` is the term of
    剥夺政治权利, with `rights_for_life` set for 终身. `notes` are remarks that do not stop the reading.
    """

    name: str
    charges: tuple[str, ...] = ()
    penalty: MainPenalty = MainPenalty.NONE
    months: int = 0
    days: int = 0
    suspended: bool = False
    fine: float | None = None
    forfeiture: float | None = None
    all_property: bool = False
    rights_months: int = 0
    rights_for_life: bool = False
    deported: bool = False
    is_unit: bool = False
    psi: float | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseSeverity:
    """Index of a whole case: the maximum over its defendants; `psi` is None when `note` gives a reason."""

    psi: float | None
    note: str
    defendants: tuple[DefendantSentence, ...]


def punishment_severity_index(text: str) -> float:
    """PSI of a result text, the maximum over its defendants; `nan` (never 0) when a sentence cannot be read.

    Takes 主文 as courts write it or a bare penalty (无期徒刑，剥夺政治权利终身). `case_severity` gives the reason.
    """
    psi = case_severity(text).psi
    return math.nan if psi is None else psi


def case_severity(text: str) -> CaseSeverity:
    """PSI, the reason or remarks, and the sentence of every defendant."""
    defendants = tuple(parse_sentence(text))
    unread = [f"{d.name or '被告人'}: {d.reason}" for d in defendants if d.psi is None]
    if unread:
        return CaseSeverity(None, "; ".join(unread), defendants)
    notes = dict.fromkeys(note for d in defendants for note in d.notes)
    return CaseSeverity(max(d.psi or 0.0 for d in defendants), "; ".join(notes), defendants)


def parse_sentence(text: str) -> list[DefendantSentence]:
    """The sentence in force of every defendant, in order of appearance; never empty.

    A text without any readable penalty gives one record without a name whose `reason` says so.
    """
    rulings, complaint = read_rulings(text)
    by_name: dict[str, list[Ruling]] = {}
    for ruling in rulings:
        by_name.setdefault(ruling.name, []).append(ruling)
    sentences = [_sentence_of(name, group) for name, group in by_name.items()]
    return sentences or [DefendantSentence(name="", penalty=MainPenalty.UNREADABLE, reason=complaint)]


def severity_of(sentence: DefendantSentence) -> float:
    """PSI = D·γ·φ + ΣS of one defendant, from the fields of the record."""
    if sentence.penalty in FIXED_VALUES:
        main = FIXED_VALUES[sentence.penalty]
    else:
        days = sentence.months * DAYS_PER_MONTH + sentence.days
        main = days * FACTORS.get(sentence.penalty, 0.0) * (SUSPENSION if sentence.suspended else 1.0)
    return main + _supplementary(sentence)


def _supplementary(sentence: DefendantSentence) -> float:
    """ΣS: fines and forfeitures by logarithm, rights by the year, deportation flat."""
    money = sum(20.0 * math.log10(amount + 1.0) for amount in (sentence.fine, sentence.forfeiture) if amount)
    property_ = ALL_PROPERTY if sentence.all_property and not sentence.forfeiture else 0.0
    months_per_year = DAYS_PER_YEAR // DAYS_PER_MONTH
    rights = RIGHTS_FOR_LIFE if sentence.rights_for_life else RIGHTS_PER_YEAR * sentence.rights_months / months_per_year
    return money + property_ + rights + (DEPORTATION if sentence.deported else 0.0)


def _sentence_of(name: str, rulings: list[Ruling]) -> DefendantSentence:
    """Resolve one defendant's rulings into what is executed, and price it."""
    executed, reason = _executed(rulings)
    sentence = DefendantSentence(
        name=name,
        charges=tuple(dict.fromkeys(charge for r in rulings for charge in r.charges)),
        penalty=executed.penalty,
        months=executed.months,
        days=executed.days,
        suspended=executed.suspended,
        fine=executed.fine,
        forfeiture=executed.forfeiture,
        all_property=executed.all_property,
        rights_months=executed.rights_months,
        rights_for_life=executed.rights_for_life,
        deported=executed.deported,
        is_unit=executed.is_unit,
        reason=executed.problem or reason,
        notes=executed.notes,
    )
    return sentence if sentence.reason else replace(sentence, psi=severity_of(sentence))


def _executed(rulings: list[Ruling]) -> tuple[Ruling, str]:
    """The one ruling a defendant serves, and a reason when the text does not settle it."""
    combined = [r for r in rulings if r.combined]
    if combined:
        return _with_note_on_lost_fines(combined[-1], rulings), ""
    merged = _one_per_charge(rulings)
    serving = [r for r in merged if r.penalty.is_custodial]
    main = _absorbing(serving)
    if main is None and len(serving) > 1:
        return merged[0], "several terms without 决定执行"
    base = main or (serving[0] if serving else merged[0])
    return _add_supplementary(base, [r for r in merged if r is not base]), ""


def _with_note_on_lost_fines(executed: Ruling, rulings: list[Ruling]) -> Ruling:
    single_fine = any(r.fine and not r.combined and not r.former for r in rulings)
    if executed.fine is None and executed.forfeiture is None and single_fine:
        return replace(executed, notes=(*executed.notes, "fine of a single conviction not named in 决定执行"))
    return executed


def _one_per_charge(rulings: list[Ruling]) -> list[Ruling]:
    """A later ruling on the same charges replaces the parts it names of an earlier, upheld one."""
    by_charge: dict[tuple[str, ...], Ruling] = {}
    for ruling in rulings:
        same = ruling.charges if ruling.charges in by_charge or ruling.charges else next(reversed(by_charge), ())
        earlier = by_charge.get(same)
        by_charge[same] = ruling if earlier is None else earlier.amended_by(ruling)
    return list(by_charge.values())


def _absorbing(serving: list[Ruling]) -> Ruling | None:
    """The main penalty that absorbs the others (Criminal Law art. 69): death, life, or a fixed term over 拘役."""
    for kind in _ABSORBING:
        if found := [r for r in serving if r.penalty is kind]:
            return found[0]
    fixed = [r for r in serving if r.penalty is MainPenalty.FIXED_TERM]
    others = [r for r in serving if r.penalty is MainPenalty.SURVEILLANCE]
    return fixed[0] if len(fixed) == 1 and not others else None


def _add_supplementary(base: Ruling, others: list[Ruling]) -> Ruling:
    """Fines and forfeitures of several convictions add up; rights and deportation are kept once."""
    for other in others:
        base = replace(
            base,
            fine=_plus(base.fine, other.fine),
            forfeiture=_plus(base.forfeiture, other.forfeiture),
            all_property=base.all_property or other.all_property,
            rights_months=max(base.rights_months, other.rights_months),
            rights_for_life=base.rights_for_life or other.rights_for_life,
            deported=base.deported or other.deported,
            problem=base.problem or other.problem,
            notes=(*base.notes, *other.notes),
        )
    return base


def _plus(a: float | None, b: float | None) -> float | None:
    return a if b is None else b if a is None else a + b
