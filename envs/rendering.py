"""Evidence as the text that the Lawyer reads.

    render_result(SearchResult(status="ok", evidence=(…,)), chars=80, style="compact")
    -> "<information>\\n[1]《刑法》第二百六十四条\\n盗窃公私财物，…\\n</information>"

Everything between the information tags is evidence for the masks; the tags cannot occur inside, whatever the corpus
holds.
"""

from __future__ import annotations

import re
from typing import Literal

from retrieval_server.types import CourtLevel, Evidence, SearchResult, Status

Style = Literal["full", "compact"]
"""`full`: id, court level, version, charges and notes. `compact`: short title and label only, for tiny policies."""

OPEN, CLOSE = "<information>", "</information>"
EMPTY_TEXT = "未检索到相关内容。"
DEGRADED_TEXT = "（检索服务降级，排序仅供参考）"
COURT_NAMES = {
    CourtLevel.SUPREME: "最高人民法院",
    CourtLevel.HIGH: "高级人民法院",
    CourtLevel.INTERMEDIATE: "中级人民法院",
    CourtLevel.PRIMARY: "基层人民法院",
}
_TAG_LIKE = re.compile(r"<(?=/?(?:think|search|answer|information|tool_call|tool_response)>|\|im_)", re.I)
_SPAN = re.compile(re.escape(OPEN) + r".*?" + re.escape(CLOSE), re.DOTALL)


def clip(text: str, chars: int) -> str:
    """At most `chars` characters of the text, the last one an ellipsis where something was cut off."""
    text = text.strip()
    return text if len(text) <= chars else text[: max(chars - 1, 0)].rstrip() + "…"


def render_result(result: SearchResult, chars: int, style: Style = "full") -> str:
    """One search result as an information block; `chars` limits each unit's text."""
    units = [render_unit(number, unit, chars, style) for number, unit in enumerate(result.evidence, start=1)]
    if not units:
        units = [EMPTY_TEXT]
    elif result.status is Status.DEGRADED and style == "full":
        units.insert(0, DEGRADED_TEXT)
    return "\n".join([OPEN, *units, CLOSE])


def render_unit(number: int, unit: Evidence, chars: int, style: Style = "full") -> str:
    """One numbered evidence unit: a head line and the clipped text."""
    title = unit.title.strip("《》")
    if style == "compact":
        head = f"[{number}]《{title.removeprefix('中华人民共和国')}》{unit.label}"
    else:
        head = f"[{number}] {unit.id} 《{title}》{unit.label}"
    remarks = _remarks(unit) if style == "full" else ()
    body = [head + (f"（{'；'.join(remarks)}）" if remarks else ""), clip(unit.text, chars)]
    return neutralise("\n".join(body))


def neutralise(text: str) -> str:
    """Make text from outside unable to open or close a tag of the protocol or of the chat format."""
    return _TAG_LIKE.sub("＜", text)


def evidence_spans(message: str) -> list[tuple[int, int]]:
    """Character spans of the information blocks in an environment message; text of a policy must never come here."""
    return [match.span() for match in _SPAN.finditer(message)]


def _remarks(unit: Evidence) -> tuple[str, ...]:
    court = COURT_NAMES.get(unit.court_level, "") if unit.court_level else ""
    remarks = (
        court if court != unit.label else "",
        f"{unit.version_date} 版本" if unit.version_date else "",
        "、".join(unit.charges),
        "程序生成的示例" if unit.generated else "",
        *unit.notes,
    )
    return tuple(remark for remark in remarks if remark)
