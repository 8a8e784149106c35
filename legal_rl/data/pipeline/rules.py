"""The rule-based teacher: questions of sixteen sub-categories from statutes and judgments, without any model.

Every answer is a piece of the source or of its annotation, so that each record can be checked against its evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from legal_rl.data.clauses import definition, first_clause, sentencing_tiers
from legal_rl.data.pipeline.gates import Decision
from legal_rl.data.pipeline.profiles import TaskProfile
from legal_rl.data.pipeline.text_rules import ACCUSED, TEXT_RULES, Written, facts_of, qa
from legal_rl.data.pipeline.values import find_values, plain_number
from legal_rl.data.readers.sources import SourceText

MAX_EXCERPT = 120
MIN_EXCERPT = 24
_REFERENCE = re.compile(r"本法|本条|前款|前条|第[一二三四五六七八九十百千零]+[条款项]")


class RuleTeacher:
    """Feasible is what one of the rules can write; the same source gives the same question on every machine."""

    name = "rules v2"
    tasks: frozenset[str] | None = None

    def __init__(self) -> None:
        self.tasks = frozenset(RULES)

    async def feasible(self, source: SourceText, profile: TaskProfile) -> Decision:
        """Gate 2: the rule for the task finds what it needs."""
        if RULES[profile.id](source):
            return Decision(True, "by rule")
        return Decision(False, "the material lacks what the task asks for")

    async def write(self, source: SourceText, profile: TaskProfile) -> tuple[Written, str]:
        """The question and answer."""
        written = RULES[profile.id](source)
        return written, "" if written else "missing answer"


def clause_recall(source: SourceText) -> Written:
    """Law and label -> the article's text."""
    law, label = source.metadata["law"], source.metadata["label"]
    return qa(f"《{law}》{label}的内容是什么？", source.text) if label.startswith("第") else None


def clause_retrieval(source: SourceText) -> Written:
    """An excerpt that stands for itself -> law and label."""
    law, label = source.metadata["law"], source.metadata["label"]
    excerpt = re.split(r"[\n；]", source.text)[0][:MAX_EXCERPT].rstrip("，、：")
    if len(excerpt) < MIN_EXCERPT or _REFERENCE.search(excerpt) or not label.startswith("第"):
        return None
    return qa(f"“{excerpt}”", f"{law}{label}")


def concept_comprehension(source: SourceText) -> Written:
    """A term that the law defines -> its definition."""
    found = definition(source.text)
    return qa(f"《{source.metadata['law']}》所称的“{found[0]}”是指什么？", found[1]) if found else None


def scenario_analysis(source: SourceText) -> Written:
    """A condition of a criminal article -> its range of punishment (options are added later)."""
    if source.metadata.get("law") != "刑法" or not source.text:
        return None
    tiers = [tier for tier in sentencing_tiers(source.text) if 6 <= len(tier.condition) <= 80]
    if not tiers:
        return None
    conduct = first_clause(source.text)
    lead = "" if tiers[0].first else f"{conduct}，"
    return qa(f"{source.metadata['label']}的情形：{lead}{tiers[0].condition}。应当如何处刑？", tiers[0].penalty.value)


def charge_prediction(source: SourceText) -> Written:
    """Facts -> charges."""
    return qa(facts_of(source), _charges(source))


def charge_with_law(source: SourceText) -> Written:
    """Facts -> charges and the article of the first."""
    articles = source.metadata["articles"]
    return (
        qa(facts_of(source), f"{_charges(source)}；刑法{articles[0]}") if len(source.metadata["charges"]) == 1 else None
    )


def sentence_prediction(source: SourceText) -> Written:
    """Facts and charges -> the main penalty, where the result has exactly one."""
    terms = [v for v in find_values(source.metadata["result"]) if v.kind == "term" and len(_key(v.key)) == 2]
    if len({value.key for value in terms}) != 1:
        return None
    return qa(f"{facts_of(source)}\n罪名：{_charges(source)}", terms[0].text)


def case_judgment(source: SourceText) -> Written:
    """Facts -> the operative part of the judgment."""
    return qa(facts_of(source), re.sub(r"\s+", " ", source.metadata["result"]).strip())


def amount_calculation(source: SourceText) -> Written:
    """The fines that a result names -> their sum."""
    fines = [v for v in find_values(source.metadata.get("result", "")) if v.kind == "fine"]
    if len(fines) < 2 or len({v.key for v in fines}) < 2:
        return None
    total = sum(float(v.key) for v in fines if isinstance(v.key, float))
    listed = "，".join(v.text for v in fines)
    return qa(f"判决书写有以下各项：{listed}。以上各项合计多少元？", f"{plain_number(total)}元")


def subject_identification(source: SourceText) -> Written:
    """The first sentence of the facts -> the accused named in it."""
    sentence = facts_of(source).split("。")[0]
    names = dict.fromkeys(ACCUSED.findall(sentence))
    return qa(f"{sentence}。文中的被告人是谁？", "、".join(names)) if names and len(sentence) >= 20 else None


RULES: dict[str, Callable[[SourceText], Written]] = TEXT_RULES | {
    rule.__name__: rule
    for rule in (
        clause_recall,
        clause_retrieval,
        concept_comprehension,
        scenario_analysis,
        charge_prediction,
        charge_with_law,
        sentence_prediction,
        case_judgment,
        amount_calculation,
        subject_identification,
    )
}
"""Profile id -> its rule."""


def _charges(source: SourceText) -> str:
    return "、".join(name if name.endswith("罪") else f"{name}罪" for name in source.metadata["charges"])


def _key(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
