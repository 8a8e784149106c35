"""Reads rulings out of a result text: who, convicted of what, sentenced to what (used by `severity`).

The reader walks once over the text in force, token by token, and keeps one open `Ruling`: a conviction (…犯…罪), a
combined sentence (决定执行…) or a named defendant opens a new one, a penalty fills it. A penalty that stands twice in
one conviction, as in 罚金二千元，罚金二千元已缴纳, counts once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from retrieval_server.amounts import NUMERAL, parse_number, term_days, term_pattern
from retrieval_server.operative import ROLE, operative_items

MAX_YEARS = 25
"""Longest executed fixed term (Criminal Law art. 69); anything longer is a misreading."""


class MainPenalty(StrEnum):
    """Main penalty of a sentence; `NONE` covers sentences to a fine or another supplementary penalty alone."""

    DEATH = "death"
    DEATH_SUSPENDED = "death_suspended"
    LIFE = "life"
    FIXED_TERM = "fixed_term"
    DETENTION = "detention"
    SURVEILLANCE = "surveillance"
    NONE = "none"
    EXEMPT = "exempt"
    ACQUITTED = "acquitted"
    NOT_RESPONSIBLE = "not_responsible"
    UNREADABLE = "unreadable"

    @property
    def is_custodial(self) -> bool:
        """Whether it is a main penalty in the sense of Criminal Law art. 33."""
        return self not in _NO_MAIN_PENALTY


_NO_MAIN_PENALTY = {
    MainPenalty.NONE,
    MainPenalty.EXEMPT,
    MainPenalty.ACQUITTED,
    MainPenalty.NOT_RESPONSIBLE,
    MainPenalty.UNREADABLE,
}


@dataclass(frozen=True)
class Ruling:
    """One conviction or combined sentence of one defendant, as the text has it; `problem` names what is unreadable."""

    name: str
    charges: tuple[str, ...] = ()
    combined: bool = False
    former: bool = False
    upheld: bool = False
    is_unit: bool = False
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
    settled: bool = False
    """Whether any penalty (or exemption) was read into it."""
    problem: str = ""
    notes: tuple[str, ...] = ()

    def amended_by(self, later: Ruling) -> Ruling:
        """This ruling with the parts that a later ruling on the same charge names anew."""
        new_main = later.penalty is not MainPenalty.NONE
        main = later if new_main else self
        return replace(
            later,
            charges=later.charges or self.charges,
            penalty=main.penalty,
            months=main.months,
            days=main.days,
            suspended=main.suspended or (not new_main and later.suspended),
            fine=self.fine if later.fine is None else later.fine,
            forfeiture=self.forfeiture if later.forfeiture is None else later.forfeiture,
            all_property=self.all_property or later.all_property,
            rights_months=later.rights_months or self.rights_months,
            rights_for_life=later.rights_for_life or self.rights_for_life,
            deported=later.deported or self.deported,
            problem=later.problem or ("" if new_main else self.problem),
            notes=(*self.notes, *later.notes),
        )


_KIND = r"(?:有期徒刑|(?<!无期)(?<!有期)徒刑|拘役|管制|死刑|死缓|无期徒刑|罚金|没收(?:个人)?(?:全部)?财产)"
_STOP = (
    r"(?=犯|无罪|免[予于除]|不负|判|单处|并处|处|均|各|分别|以|因|有期|拘役|管制|死刑|死缓|无期|驱逐|罚金|剥夺"
    r"|没收|的|在|于|已|向|退|违|减|宣告|适用|撤|所|与|之|[,;。:“”\n]|$)"
)


def _money_pattern(prefix: str) -> str:
    return (
        r"(?:款|金额|额|数额)?(?:合计|共计|总计|总额|各|为|计|:|分别)*"
        rf"(?:人民币?|RMB|[¥￥]|(?P<{prefix}foreign>美元|港币|欧元|日元))*(?:各|共计|合计)*"
        rf"(?P<{prefix}amount>{NUMERAL})(?:余|多)?(?P<{prefix}yuan>元|圆|块)?"
    )


_TOKENS = re.compile(
    "|".join(
        [
            r"(?P<former>与?(?:前罪|原罪|前判|(?<!维持)(?<!执行)原判|原犯|前犯|曾犯|曾因|前因|原因|余刑|剩余|尚未执行"
            r"|(?:未|没有|已经?)(?:予)?执行|总和刑期|合并刑期|刑期(?:合计|总和)|前科|减去))",
            rf"(?P<combined>执行原判(?:决)?(?:认定|确定)?(?:的)?(?:刑罚|刑期)?[,:]?(?={_KIND})"
            rf"|决定(?:合并)?(?:予以)?执行(?:的)?(?:刑罚|刑期)?(?:为)?[,:]?(?=.{{0,12}}?{_KIND})"
            rf"|(?:合并|并罚|数罪)[^,;。]{{0,8}}?执行(?:刑罚|刑期)?(?:为)?[,:]?(?={_KIND})|(?<![未已予])执行(?={_KIND})|(?<!依法)(?<!期满)(?<!以后)减为(?={_KIND}))",
            rf"(?P<convict>(?:(?P<role>{ROLE})(?P<who>[^,;。:\n犯]{{1,60}}?)|(?<![^,;。:\n])即?(?P<bare>(?![^,;。:\n犯]{{0,5}}(?:上诉|被告|罪犯))[^,;。:\n犯]{{1,6}}?))?"
            rf"(?<![罪同从主案累])犯(?:有)?(?!罪)(?P<charge>[^,;。:\n]{{1,60}}?(?<!犯)罪(?!名|行)(?:[、和][^,;。:\n]{{1,40}}?(?<!犯)罪(?!名|行))*))",
            rf"(?P<subject>{ROLE}(?P<subject_name>[^,;。:\n]{{1,30}}?){_STOP})",
            r"(?P<death>(?:死刑|死缓)(?P<reprieve>[,]?(?:缓期|缓刑)(?:[二两2贰]年)?(?:执行)?)?)",
            r"(?P<life>无期徒刑)",
            r"(?P<term_kind>(?:有期)?徒刑|拘役|管制)(?:各|均|分别|刑期|为|:)*(?P<term>"
            + term_pattern("t_")
            + ")(?!以[上下内])",
            r"(?P<probation>(?:宣告|适用|并)?缓刑(?:,缓刑)?(?:考验期限?)?(?:各|均|为|:)*(?P<probation_term>"
            + term_pattern("s_")
            + "))",
            r"(?P<rights>剥夺政治权利(?:各|均|期限|为)*(?:(?P<rights_life>终身|终生)|(?P<rights_term>"
            + term_pattern("r_")
            + ")))",
            r"(?P<deport>驱逐出境)",
            r"(?P<fine>(?P<fine_verb>并处|单处|判处|附加|合?并?处|各处)?(?:交纳|缴纳)?罚金(?:刑)?(?:"
            + _money_pattern("f_")
            + ")?)",
            r"(?P<forfeit>没收(?:其|被告人[^,;。]{1,12}?)?(?:的)?(?:个人)?(?:所有)?(?:的)?(?P<all>全部)?(?:部分)?(?:个人)?(?:所有)?(?:的)?(?:全部|部分)?财产"
            r"(?:中的)?(?:" + _money_pattern("c_") + ")?)",
            r"(?P<exempt>免[予于除](?:(?:刑事)?处[罚分]|刑罚|刑事责任|对其的?刑事处罚))",
            r"(?P<acquit>无罪)",
            r"(?P<irresponsible>不负刑事责任)",
            r"(?P<pause>[。;\n])",
        ]
    )
)
_NOT_A_FINE = re.compile(r"(?:上述|以上|所?判?处的|[缴交]纳?的?|预[缴交]|抵作?|该|[冲抵]|作为|欠缴|部分)$")
_PENAL_VERB = re.compile(r"(?:判处|决定执行|合并执行|执行|改判|处)(?:罚金)?$")
_NEXT_TERM = re.compile(r"[、,和](?:有期徒刑|拘役|管制)?" + term_pattern("n_"))
_NAME_SPLIT = re.compile(r"[、和及与]|以及")
_TERM_PENALTIES = {
    "有期徒刑": MainPenalty.FIXED_TERM,
    "徒刑": MainPenalty.FIXED_TERM,
    "拘役": MainPenalty.DETENTION,
    "管制": MainPenalty.SURVEILLANCE,
}


def read_rulings(text: str) -> tuple[list[Ruling], str]:
    """Rulings in force with at least one penalty, in order, and why there are none when there are none."""
    reader = _Reader()
    for item in operative_items(text):
        reader.read(item.text, item.upheld)
    rulings = [reader.checked(r) for r in reader.rulings if r.settled and not r.former]
    return rulings, "" if rulings else _why_empty(text, reader)


def _why_empty(text: str, reader: _Reader) -> str:
    if not text.strip():
        return "empty result"
    if any(r.former for r in reader.rulings):
        return "only former sentences are named"
    if "维持原判" in text or "维持" in text:
        return "the upheld sentence is not repeated in the text"
    if "撤销" in text:
        return "the text only quashes"
    return "no penalty found"


class _Reader:
    """Keeps the open rulings (one per person of a joint conviction) while it walks over the tokens."""

    def __init__(self) -> None:
        self.rulings: list[Ruling] = []
        self._open: list[int] = []
        self._names: tuple[str, ...] = ("",)
        self._is_unit = False
        self._upheld = False
        self._item = ""
        self._upheld_main = False

    def checked(self, ruling: Ruling) -> Ruling:
        """A ruling with a fine alone is not the whole sentence when the main penalty was upheld without naming it."""
        if self._upheld_main and ruling.penalty is MainPenalty.NONE and not ruling.upheld and not ruling.problem:
            return replace(ruling, problem="the upheld main penalty is not repeated in the text")
        return ruling

    def read(self, text: str, upheld: bool) -> None:
        """Read one item of the result."""
        self._upheld, self._item, self._open = upheld, text, []
        for match in _TOKENS.finditer(text):
            getattr(self, f"_on_{self._kind_of(match)}")(match)
        silent = not any(r.upheld and r.penalty.is_custodial for r in self.rulings)
        self._upheld_main |= upheld and silent and bool(re.search(r"主刑|定罪量刑|定罪和量刑", text))

    @staticmethod
    def _kind_of(match: re.Match[str]) -> str:
        return next(k for k in _HANDLED if match[k] is not None)

    # -- who ----------------------------------------------------------------------------------------------------------

    def _start(self, **fields: object) -> None:
        self._open = []
        for name in self._names:
            self._open.append(len(self.rulings))
            ruling = Ruling(name=name, upheld=self._upheld, is_unit=self._is_unit)
            self.rulings.append(replace(ruling, **fields))  # type: ignore[arg-type]

    def _rename(self, names: str, role: str) -> None:
        self._names = tuple(n for n in _NAME_SPLIT.split(names) if n) or ("",)
        self._is_unit = "单位" in role
        if self._is_unit:
            self._names = (names,)

    def _on_convict(self, match: re.Match[str]) -> None:
        former = False
        if match["who"]:
            self._rename(_clean_name(match["who"]), match["role"])
        elif match["bare"]:
            former = bool(re.search(r"[原前曾旧]", match["bare"])) and not match["bare"].startswith("原审")
            name = _clean_name(match["bare"])
            if not former and len(name) >= 2 and not re.search(r"[其又再另还且同以]", name):
                self._rename(name, "")
        self._start(charges=tuple(re.split(r"(?<=罪)[、和]", match["charge"])), former=former)

    def _on_subject(self, match: re.Match[str]) -> None:
        role = match[0][: -len(match["subject_name"])]
        names = tuple(n for n in _NAME_SPLIT.split(_clean_name(match["subject_name"])) if n)
        known = {r.name for r in self.rulings}
        if self._open and set(names) <= {self.rulings[i].name for i in self._open}:
            return
        if names and (set(names) <= known or len(names[0]) <= 12):
            self._rename(_clean_name(match["subject_name"]), role)
            self._open = []

    def _on_combined(self, match: re.Match[str]) -> None:
        self._start(combined=True)

    def _on_former(self, match: re.Match[str]) -> None:
        if match[0] == "减去" or not self._is_combined():
            self._start(former=True)

    def _on_pause(self, match: re.Match[str]) -> None:
        if self._open and self.rulings[self._open[0]].former:
            self._open = []

    def _is_combined(self) -> bool:
        return bool(self._open) and self.rulings[self._open[0]].combined

    # -- what ---------------------------------------------------------------------------------------------------------

    def _fill(self, **fields: object) -> None:
        """Write into every open ruling; open one for the named defendants if none is open."""
        if not self._open:
            self._start()
        for i in self._open:
            self.rulings[i] = replace(self.rulings[i], settled=True, **fields)  # type: ignore[arg-type]

    def _current(self) -> Ruling:
        return self.rulings[self._open[0]] if self._open else Ruling(name="")

    def _main(self, penalty: MainPenalty, **fields: object) -> None:
        """The first main penalty of a ruling is its main penalty; later ones in it are remarks (终身监禁 …)."""
        if self._current().penalty is MainPenalty.NONE:
            self._fill(penalty=penalty, **fields)

    def _on_death(self, match: re.Match[str]) -> None:
        reprieved = match["reprieve"] or match[0].startswith("死缓")
        self._main(MainPenalty.DEATH_SUSPENDED if reprieved else MainPenalty.DEATH)

    def _on_life(self, match: re.Match[str]) -> None:
        self._main(MainPenalty.LIFE)

    def _on_term_kind(self, match: re.Match[str]) -> None:
        term = term_days(match.groupdict(), "t_")
        if term is None:
            if _PENAL_VERB.search(self._item[: match.start()]) and not self._current().settled:
                self._fill(problem=f"{match['term_kind']} without a readable term")
            return
        if term[0] > 12 * MAX_YEARS:
            return self._fill(problem=f"{match[0]} is longer than the law allows")
        self._main(_TERM_PENALTIES[match["term_kind"]], months=term[0], days=term[1])
        self._share_out(match.end())

    def _share_out(self, end: int) -> None:
        """分别判处有期徒刑二年、一年六个月: the terms that follow belong to the other persons of a joint conviction."""
        for i in self._open[1:]:
            following = _NEXT_TERM.match(self._item, end)
            term = term_days(following.groupdict(), "n_") if following else None
            if following is None or term is None:
                return
            self.rulings[i] = replace(self.rulings[i], months=term[0], days=term[1])
            end = following.end()

    def _on_probation(self, match: re.Match[str]) -> None:
        declared = term_days(match.groupdict(), "s_") or re.match(r"(?:宣告|适用)缓刑(?!的|考验)", match[0])
        refused = re.search(r"(?:不|不予|不得|撤销)$", self._item[: match.start()])
        if declared and not refused and self._current().penalty.is_custodial:
            self._fill(suspended=True)

    def _on_rights(self, match: re.Match[str]) -> None:
        if match["rights_life"]:
            return self._fill(rights_for_life=True)
        term = term_days(match.groupdict(), "r_")
        if term is not None:
            self._fill(rights_months=self._current().rights_months or term[0])
        elif re.search(r"(?:并处|附加|单处|判处|,)$", self._item[: match.start()]):
            self._fill(problem="剥夺政治权利 without a readable term")

    def _on_deport(self, match: re.Match[str]) -> None:
        self._fill(deported=True)

    def _on_fine(self, match: re.Match[str]) -> None:
        if self._current().fine is not None or _NOT_A_FINE.search(self._item[: match.start()]):
            return
        amount = _amount(match, "f_")
        if amount is None:
            # 罚金限…缴纳 speaks of payment; 并处罚金 followed by nothing readable hides the amount.
            following = self._item[match.end() : match.end() + 1]
            if match["fine_verb"] and following not in ("有", "拘", "管"):
                self._fill(problem="罚金 without a readable amount")
            return
        self._fill(fine=amount)

    def _on_forfeit(self, match: re.Match[str]) -> None:
        amount = _amount(match, "c_")
        if amount is None:
            note = () if match["all"] else ("没收财产 without an amount, counted as all property",)
            return self._fill(all_property=True, notes=self._current().notes + note)
        self._fill(forfeiture=self._current().forfeiture or amount)

    def _on_exempt(self, match: re.Match[str]) -> None:
        self._main(MainPenalty.EXEMPT)

    def _on_acquit(self, match: re.Match[str]) -> None:
        self._main(MainPenalty.ACQUITTED)

    def _on_irresponsible(self, match: re.Match[str]) -> None:
        self._main(MainPenalty.NOT_RESPONSIBLE)


_HANDLED = tuple(name.removeprefix("_on_") for name in vars(_Reader) if name.startswith("_on_"))


def _clean_name(name: str) -> str:
    return re.sub(rf"^(?:对|{ROLE})+|(?:均|都|共同|各|分别|以)+$", "", name)


def _amount(match: re.Match[str], prefix: str) -> float | None:
    """Yuan of a fine or forfeiture; None for none, for a foreign currency, or for a bare small number."""
    text = match[prefix + "amount"]
    if not text or match[prefix + "foreign"]:
        return None
    amount = parse_number(text)
    bare = not match[prefix + "yuan"] and not re.search(r"[万亿千仟百佰]|\d{3}", text)
    return None if bare else amount
