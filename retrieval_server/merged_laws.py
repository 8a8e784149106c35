"""Laws that another law replaced under a new name: 合同法 -> 民法典合同编.

People go on citing them. Where the old text is not in the knowledge base, the successor is searched, and its evidence
says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from retrieval_server.law_names import STATE


@dataclass(frozen=True, slots=True)
class Merger:
    """Example: Merger("民法典", "合同编", "2021-01-01") for 合同法."""

    successor: str
    """Law key."""
    part: str
    """Where in the successor; empty where the whole law follows."""
    since: str
    """First day of the successor."""


def _into_civil_code(part: str) -> Merger:
    return Merger("民法典", part, "2021-01-01")


_FOREIGN_INVESTMENT = Merger("外商投资法", "", "2020-01-01")

MERGED: dict[str, Merger] = {
    "合同法": _into_civil_code("合同编"),
    "物权法": _into_civil_code("物权编"),
    "担保法": _into_civil_code("担保物权 保证合同"),
    "侵权责任法": _into_civil_code("侵权责任编"),
    "婚姻法": _into_civil_code("婚姻家庭编"),
    "收养法": _into_civil_code("婚姻家庭编 收养"),
    "继承法": _into_civil_code("继承编"),
    "民法总则": _into_civil_code("总则编"),
    "民法通则": _into_civil_code("总则编"),
    "中外合资经营企业法": _FOREIGN_INVESTMENT,
    "中外合作经营企业法": _FOREIGN_INVESTMENT,
    "外资企业法": _FOREIGN_INVESTMENT,
    "治安管理处罚条例": Merger("治安管理处罚法", "", "2006-03-01"),
    "道路交通管理条例": Merger("道路交通安全法", "", "2004-05-01"),
    "企业劳动争议处理条例": Merger("劳动争议调解仲裁法", "", "2008-05-01"),
    "学位条例": Merger("学位法", "", "2025-01-01"),
}

_OLD = re.compile(rf"[《〈]?(?:{STATE})?(?<!劳动)({'|'.join(sorted(MERGED, key=len, reverse=True))})(?!典)[》〉]?")


def replaced_laws(query: str, is_known: Callable[[str], bool]) -> dict[str, Merger]:
    """Old laws named in the query that the knowledge base does not hold.

    Args:
        is_known: does the knowledge base hold a text of this law?
    """
    names = dict.fromkeys(match[1] for match in _OLD.finditer(query))
    return {name: MERGED[name] for name in names if not is_known(name)}


def with_successors(query: str, replaced: dict[str, Merger]) -> str:
    """The query with each old name followed by where its matter stands now."""
    if not replaced:
        return query
    return _OLD.sub(lambda m: f"{replaced[m[1]].successor} {replaced[m[1]].part} " if m[1] in replaced else m[0], query)


def merger_note(old: str, merger: Merger) -> str:
    """One Chinese sentence for the evidence."""
    place = f"《{merger.successor}》{merger.part.replace(' ', '、')}"
    return f"《{old}》已被取代，{merger.since}起见{place}"
