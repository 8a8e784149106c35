"""Facts and court's opinion of a generated judgment: people, circumstances, and the sentences that tell them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from retrieval_server.numerals import chinese_number

Offence = tuple[dict[str, Any], dict[str, Any], float]
"""(charge row, tier row, position 0..1 of the offence within its tier)."""

_SUFFIXES = ("某", "某某", "某甲", "某乙", "某丙")
_EVIDENCE = (
    "上述事实，被告人在开庭审理过程中亦无异议，且有被害人陈述、证人证言、现场勘验笔录、扣押清单、户籍证明等证据证实，足以认定。",
    "上述事实，有受案登记表、到案经过、证人证言、鉴定意见、监控视频、被告人的供述与辩解等证据予以证实。",
    "认定上述事实的证据有：书证、物证照片、证人证言、鉴定意见、辨认笔录及被告人供述，各证据经庭审质证，能够相互印证。",
)
_CHAPTER_CIRCUMSTANCES = {
    "自首": ("第六十七条第一款", "主动投案并如实供述自己的罪行，是自首，依法可以从轻处罚"),
    "坦白": ("第六十七条第三款", "到案后如实供述自己的罪行，依法可以从轻处罚"),
    "累犯": (
        "第六十五条第一款",
        "曾因故意犯罪被判处有期徒刑以上刑罚，刑罚执行完毕后五年内再犯应当判处有期徒刑以上刑罚之罪，是累犯，依法应当从重处罚",
    ),
    "从犯": ("第二十七条", "在共同犯罪中起次要、辅助作用，是从犯，依法应当从轻处罚"),
    "谅解": ("", "积极赔偿被害人经济损失并取得谅解，可酌情从轻处罚"),
    "退赃": ("", "主动退缴违法所得，有悔罪表现，可酌情从轻处罚"),
    "认罪认罚": ("", "自愿认罪认罚并签署具结书，依法可以从宽处理"),
}
_LENIENCY = {"自首": 0.35, "坦白": 0.15, "从犯": 0.3, "谅解": 0.2, "退赃": 0.15, "认罪认罚": 0.1, "累犯": -0.4}


@dataclass(frozen=True)
class Person:
    """A defendant and the circumstances found for him."""

    name: str
    circumstances: tuple[str, ...]
    foreign: bool = False

    @property
    def recidivist(self) -> bool:
        """累犯: no suspension."""
        return "累犯" in self.circumstances

    @property
    def accessory(self) -> bool:
        """从犯."""
        return "从犯" in self.circumstances

    @property
    def leniency(self) -> float:
        """Weight of all circumstances, 0 to 1."""
        return min(1.0, max(0.0, sum(_LENIENCY[c] for c in self.circumstances)))


@dataclass(frozen=True)
class Story:
    """Everything a generated judgment tells, before it is told."""

    offences: tuple[Offence, ...]
    people: tuple[Person, ...]
    victim: str
    city: str
    district: str
    year: int
    month: int
    day: int
    slots: dict[str, str]
    extra_items: tuple[str, ...]

    @classmethod
    def draw(cls, rng: random.Random, offences: list[Offence], size: int, tables: dict[str, Any]) -> Story:
        """Draw names, dates, places and circumstances for the given offences."""
        surnames = rng.sample(list(tables["surnames"]), size + 1)
        row = offences[0][0]
        people = tuple(
            Person(surnames[i] + rng.choice(_SUFFIXES), _draw_circumstances(rng, row, i), rng.random() < 0.02)
            for i in range(size)
        )
        victim = surnames[size] + rng.choice(_SUFFIXES[:2])
        city, district = rng.choice(tables["cities"]), rng.choice(tables["districts"])
        slots = {
            "place": city + district + rng.choice(tables["places"]),
            "co": rng.choice(tables["cities"]) + rng.choice(tables["firms"]),
            "office": city + rng.choice(tables["offices"]),
            "v": victim,
            "n": chinese_number(rng.randint(3, 6)),
        }
        items = _draw_items(rng, row, people, victim)
        date = rng.randint(2015, 2023), rng.randint(1, 12), rng.randint(1, 28)
        return cls(tuple(offences), people, victim, city, district, *date, slots, items)

    @property
    def articles(self) -> tuple[str, ...]:
        """Labels of the Criminal Law articles that the judgment cites: the offence's first, then the general part."""
        labels = [a for row, _, _ in self.offences for a in (row["article"], *row.get("more_articles", ()))]
        for person in self.people:
            labels += [
                _CHAPTER_CIRCUMSTANCES[c][0].split("条")[0] + "条"
                for c in person.circumstances
                if _CHAPTER_CIRCUMSTANCES[c][0]
            ]
        labels += ["第二十五条"] if len(self.people) > 1 else []
        labels += ["第六十九条"] if len(self.offences) > 1 else []
        return tuple(dict.fromkeys(labels))


def _draw_circumstances(rng: random.Random, row: dict[str, Any], place: int) -> tuple[str, ...]:
    """Circumstances that can stand together: 自首 or 坦白; 累犯 not for negligence; 谅解 only with a victim."""
    found = [rng.choice(("自首", "坦白", "坦白", "坦白"))] if rng.random() < 0.85 else []
    if not row.get("negligent") and rng.random() < 0.12:
        found.append("累犯")
    if place > 0 and rng.random() < 0.6:
        found.append("从犯")
    if row.get("victim") and rng.random() < 0.35:
        found.append("谅解")
    elif row.get("official") and rng.random() < 0.6:
        found.append("退赃")
    if rng.random() < 0.45:
        found.append("认罪认罚")
    return tuple(found)


def _draw_items(rng: random.Random, row: dict[str, Any], people: tuple[Person, ...], victim: str) -> tuple[str, ...]:
    """Items of the result that are no penalties: 退赔, 没收 of tools, 追缴."""
    items = []
    paid = any("谅解" in p.circumstances for p in people)
    if row.get("victim") and not row.get("person") and not paid and rng.random() < 0.6:
        items.append(f"责令被告人{'、'.join(p.name for p in people)}退赔被害人{victim}的经济损失。")
    if row["tool"] and rng.random() < 0.6:
        items.append(f"{row['tool']}，依法予以没收。")
    if not row.get("victim") and not row["tool"] and rng.random() < 0.4:
        items.append(f"追缴被告人{people[0].name}的违法所得，上缴国库。")
    return tuple(items)


def facts_text(rng: random.Random, story: Story, appeal: bool) -> str:
    """事实: the deeds of each offence, arrest, restitution, record, evidence; 150 to 400 characters."""
    opening = (
        "原审判决认定：" if appeal else rng.choice(("公诉机关指控：", "经审理查明：", "公诉机关指控并经审理查明："))
    )
    deeds = [_deed(rng, story, offence, i) for i, offence in enumerate(story.offences)]
    people = "、".join(p.name for p in story.people)
    parts = [*deeds, _arrest(rng, story)]
    if any("谅解" in p.circumstances for p in story.people):
        parts.append(f"案发后，被告人{people}的亲属赔偿了被害人{story.victim}的经济损失，取得了书面谅解。")
    if any("退赃" in p.circumstances for p in story.people):
        parts.append(f"案发后，被告人{people}退缴了全部违法所得。")
    parts += [
        f"另查明，被告人{p.name}于{story.year - 3}年因故意犯罪被判处有期徒刑一年，{story.year - 2}年刑满释放。"
        for p in story.people
        if p.recidivist
    ]
    return opening + "".join(parts) + rng.choice(_EVIDENCE)


def _deed(rng: random.Random, story: Story, offence: Offence, place: int) -> str:
    row, tier, position = offence
    month = (story.month + 2 * place - 1) % 12 + 1
    hour = rng.choice(("凌晨2时许", "上午9时许", "下午3时许", "18时许", "20时许", "22时30分许"))
    who = "被告人" + "、".join(p.name + ("（外国籍）" if p.foreign else "") for p in story.people)
    if len(story.people) > 1:
        who += rng.choice(("", "经共谋，", "共同"))
    slots = dict(story.slots, who=who, means=rng.choice(row["means"]), amount=_amount(row, tier, position))
    for key in ("harm", "guns"):
        slots[key] = rng.choice(tier.get(key, ("",)))
    long_crime = "{n}个月" in row["facts"][0] or row.get("official") or "期间" in row["facts"][0]
    when = (
        f"{story.year - 1}年至{story.year}年{month}月间"
        if long_crime
        else f"{story.year}年{month}月{story.day}日{hour}"
    )
    return f"{when}，{rng.choice(row['facts']).format_map(slots)}"


def _amount(row: dict[str, Any], tier: dict[str, Any], position: float) -> str:
    """The amount at `position` of the tier's range, in the measure of the charge."""
    if "amount" not in tier:
        return ""
    low, high = tier["amount"]
    value = low + int(position * (high - low))
    measure = row.get("measure")
    if measure:
        return f"{value / measure['scale']:g}{measure['unit']}"
    return f"人民币{value}元" if value < 1_000_000 else f"人民币{value / 10_000:.2f}万元"


def _arrest(rng: random.Random, story: Story) -> str:
    sentences = []
    for person in story.people:
        if "自首" in person.circumstances:
            sentences.append(
                f"{story.year}年底，被告人{person.name}经电话通知后主动到公安机关投案，如实供述了上述事实。"
            )
        elif "坦白" in person.circumstances:
            sentences.append(f"被告人{person.name}被公安民警抓获，到案后如实供述了上述事实。")
        else:
            sentences.append(f"被告人{person.name}被公安民警在{rng.choice(('其住处', '火车站', '某网吧'))}抓获归案。")
    return "".join(sentences)


def opinion_text(story: Story, appeal: bool) -> str:
    """本院认为: qualification, circumstances of each defendant, articles."""
    who = "、".join(p.name for p in story.people)
    crimes = "；".join(_qualification(row, tier) for row, tier, _ in story.offences)
    text = f"本院认为，被告人{who}{crimes}。"
    text += "原判认定事实清楚，定罪准确，但量刑不当，应予纠正。" if appeal else "公诉机关指控的罪名成立。"
    for person in story.people:
        text += "".join(f"被告人{person.name}{_CHAPTER_CIRCUMSTANCES[c][1]}。" for c in person.circumstances)
    cited = "、".join(story.articles)
    return f"{text}依照《中华人民共和国刑法》{cited}之规定，判决如下："


def _qualification(row: dict[str, Any], tier: dict[str, Any]) -> str:
    """致人重伤，其行为已构成故意伤害罪, or, for a matter of amount, 其行为已构成盗窃罪，且数额巨大."""
    degree = tier["degree"]
    if degree.startswith(("数额", "数量", "情节", "有其他")):
        return f"的行为已构成{row['charge']}，且{degree}"
    return f"{degree}，其行为已构成{row['charge']}"
