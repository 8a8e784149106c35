"""Precedents: the main penalty that a court imposed, and which of two courts sentenced more severely (needs PRECEDENT).

Severity is the Punishment Severity Index (paper, appendix F.2) of the whole judgment.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from envs.types import Question, Reference
from legal_rl.data.families.base import shuffled
from legal_rl.data.material import Material
from legal_rl.data.wording import ask
from retrieval_server.briefs import compact_brief
from retrieval_server.severity import punishment_severity_index
from retrieval_server.types import Case

FAMILY = "compare_precedents"
MIN_RATIO = 1.5
"""Severities closer than this are not asked about: the difference should be plain from the sentences."""


def compare_precedents(material: Material, rng: random.Random) -> Iterator[Question]:
    """One question on each case's sentence and one on each pair of a charge, in turns."""
    by_charge = askable(material.cases, material.court_counts)
    for charge in shuffled(by_charge, rng):
        cases = shuffled(by_charge[charge], rng)
        for case in cases:
            yield _sentence_question(material, charge, case, rng)
        for first, second in pairwise(cases):
            if _plainly_different(first, second):
                yield _comparison(material, charge, first, second, rng)


def askable(cases: Sequence[Case], named: Counter[tuple[str, str]]) -> dict[str, list[Case]]:
    """charge -> its cases with one charge, one main penalty, and a court that has no other case of that charge.

    `named` counts (court, charge) over all parts: the teacher searches all cases, not the part's.
    """
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if len(case.charges) == 1 and case.psi is not None and named[case.court, case.charges[0]] == 1:
            parts = sentence_parts(compact_brief(case))
            if parts and "等" not in "".join(parts) and parts[0][-1] not in "…":
                groups[case.charges[0]].append(case)
    return dict(groups)


def sentence_parts(brief: str) -> list[str]:
    """The penalties in a compact brief, main penalty first: ["有期徒刑三年", "罚金5000元"]; [] when it names none.

    Example: `云州市中级人民法院 盗窃罪 有期徒刑八个月 罚金2000元` -> ["有期徒刑八个月", "罚金2000元"].
    """
    parts = brief.split(" ")[2:]
    main = parts[0] if parts else ""
    return parts if main.startswith(("有期徒刑", "拘役", "管制", "无期徒刑", "死刑")) else []


def _plainly_different(first: Case, second: Case) -> bool:
    """True when the indices are far apart and the unsuspended main penalties do not say the opposite."""
    low, high = sorted((first, second), key=lambda case: case.psi or 0.0)
    low_psi, high_psi = low.psi or 0.0, high.psi or 0.0
    return high_psi > 0 and high_psi >= MIN_RATIO * low_psi and _main_term(high) >= _main_term(low)


def _main_term(case: Case) -> float:
    """Index of the main penalty alone, as if it were served."""
    return punishment_severity_index("判处" + sentence_parts(compact_brief(case))[0].removesuffix("（缓刑）"))


def _sentence_question(material: Material, charge: str, case: Case, rng: random.Random) -> Question:
    answer = sentence_parts(compact_brief(case))[0]
    text = ask("precedent_sentence", rng, court_a=case.court, charge=charge)
    return _question(material, text, answer, (case,), charge, kind="precedent_sentence")


def _comparison(material: Material, charge: str, first: Case, second: Case, rng: random.Random) -> Question:
    heavier = max(first, second, key=lambda case: case.psi or 0.0)
    text = ask("compare_precedents", rng, court_a=first.court, court_b=second.court, charge=charge)
    return _question(material, text, heavier.court, (first, second), charge, kind="compare_precedents")


def _question(material: Material, text: str, answer: str, cases: Sequence[Case], charge: str, kind: str) -> Question:
    reference = Reference(
        actions=("precedent", "stop"),
        evidence_ids=tuple(case.id for case in cases),
        key_spans=(charge, *(case.court for case in cases), answer),
    )
    courts = [case.court for case in cases]
    metadata = {"charge": charge, "court_a": courts[0], "court_b": courts[-1], "kind": kind, "case": cases[0].id}
    return Question("", text, answer, "exact", FAMILY, material.split, reference=reference, metadata=metadata)
