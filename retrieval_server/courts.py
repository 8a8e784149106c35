"""Court levels and authority tiers (paper, section 4.1 and appendix F.1).

court_level("云南省高级人民法院") is CourtLevel.HIGH      authority_score(CourtLevel.HIGH) == 1.1
"""

from __future__ import annotations

import re
import unicodedata

from retrieval_server.types import CourtLevel

AUTHORITY = {
    CourtLevel.SUPREME: 1.1,
    CourtLevel.HIGH: 1.1,
    CourtLevel.INTERMEDIATE: 1.05,
    CourtLevel.PRIMARY: 1.0,
    CourtLevel.UNKNOWN: 1.0,
}
"""Tier scores of appendix F.1; "primary people's courts or other local tribunals" takes in what is not known."""
MAX_AUTHORITY = 1.1

LEVEL_NAMES = {
    CourtLevel.SUPREME: "最高",
    CourtLevel.HIGH: "高级",
    CourtLevel.INTERMEDIATE: "中级",
    CourtLevel.PRIMARY: "基层",
    CourtLevel.UNKNOWN: "未知",
}

# First match wins. Maritime, intellectual property and financial courts rank with intermediate courts, internet and
# railway transport courts with primary ones; military courts have three levels of their own.
_RULES = (
    (re.compile(r"最高(?:人民)?法院"), CourtLevel.SUPREME),
    (re.compile(r"高级(?:人民)?法院|高院"), CourtLevel.HIGH),
    (re.compile(r"(?:^|中国)人民解放军军事法院|^解放军军事法院"), CourtLevel.HIGH),
    (re.compile(r"中级(?:人民)?法院|中级.{0,4}法院|中院"), CourtLevel.INTERMEDIATE),
    (re.compile(r"(?:海事|知识产权|金融)法院"), CourtLevel.INTERMEDIATE),
    (re.compile(r"(?:战区|军区|总直属|海军|空军|武警部队).{0,6}军事法院"), CourtLevel.INTERMEDIATE),
    (re.compile(r"法院|法庭"), CourtLevel.PRIMARY),
)
_COURT_NAME = re.compile(
    r"[\u4e00-\u9fff]{0,24}?(?:人民法院|铁路运输(?:中级)?法院|海事法院|知识产权法院|金融法院|互联网法院|军事法院|林区(?:基层|中级)法院)"
)
_DOCUMENT_KINDS = re.compile(r"^(?:刑事|民事|行政|附带民事|判决书|裁定书|公诉机关|中华人民共和国(?!最高))+")


def court_level(name: str) -> CourtLevel:
    """Level of a court from its name; `UNKNOWN` when the name is empty or names no court."""
    plain = re.sub(r"\s+", "", unicodedata.normalize("NFKC", name))
    return next((level for pattern, level in _RULES if pattern.search(plain)), CourtLevel.UNKNOWN)


def authority_score(level: CourtLevel) -> float:
    """Tier score 1.1, 1.05 or 1.0; the MMR divides it by `MAX_AUTHORITY`."""
    return AUTHORITY[level]


def court_in_text(text: str) -> str:
    """Name of the court at the head of a judgment's full text; empty when there is none."""
    head = re.sub(r"\s+", "", text[:200])
    found = _COURT_NAME.search(head)
    return _DOCUMENT_KINDS.sub("", found[0]) if found else ""
