"""R_gain: does the evidence that the environment inserted support the reference answer (paper, section 3.3; weight w3).

Only `Rollout.evidence` is read: whatever a policy writes between information tags of its own is no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs.types import Reference, Rollout
from retrieval_server.citations import resolve_citations
from retrieval_server.numerals import article_label
from retrieval_server.types import Evidence
from rewards.text import normalise
from rewards.types import RewardTerm

_CHARGE = re.compile(r"[\u4e00-\u9fff]{2,20}?罪")
_QUANTITY = re.compile(r"[\d〇零一二三四五六七八九十百千万亿.]+(?:年|个月|日|万?元)(?:以[上下])?")


def gain(rollout: Rollout, reference: Reference | None) -> RewardTerm:
    """Share of the reference evidence ids retrieved, else share of the answer's key spans found in the evidence."""
    if not needs_evidence(reference):
        return RewardTerm("gain", 1.0, reason="no evidence needed")
    wanted = reference.evidence_ids if reference else ()
    if wanted:
        found = {unit.id for unit in rollout.evidence} & set(wanted)
        return _share(len(found), len(set(wanted)), "reference units retrieved")
    spans = (reference.key_spans if reference else ()) or key_spans(rollout.question.answer)
    if not spans:
        return RewardTerm("gain", 0.0, reason="no reference evidence and no key spans", applies=False)
    return _share(spans_found(spans, rollout.evidence), len(spans), "key spans found")


def needs_evidence(reference: Reference | None) -> bool:
    """False for a question whose synthesised trajectory searched nothing: searching it is not paid for."""
    return reference is None or bool(reference.num_searches) or bool(reference.evidence_ids)


def key_spans(answer: str) -> tuple[str, ...]:
    """Articles, charges, terms and amounts that an answer hangs on, in order of kind.

    Example: 依照刑法第264条，犯盗窃罪，处三年以下有期徒刑 -> (第二百六十四条, 盗窃罪, 三年以下).
    """
    labels = [article_label(c.article_no, c.article_sub) for c in resolve_citations(answer)]
    charges = [re.split(r"[犯以定]|构成|涉嫌", found)[-1] for found in _CHARGE.findall(answer)]
    spans = [*labels, *charges, *_QUANTITY.findall(answer)]
    return tuple(dict.fromkeys(span for span in spans if len(span) > 1))


def spans_found(spans: Sequence[str], evidence: Sequence[Evidence]) -> int:
    """How many spans stand in the evidence, spelling differences aside."""
    text = "\n".join(
        normalise(f"{unit.id} {unit.title} {unit.label} {'、'.join(unit.charges)} {unit.text}") for unit in evidence
    )
    return sum(normalise(span) in text for span in spans)


def _share(found: int, wanted: int, what: str) -> RewardTerm:
    return RewardTerm("gain", found / wanted, reason=f"{found}/{wanted} {what}")
