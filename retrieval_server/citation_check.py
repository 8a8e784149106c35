"""Do the articles that a text cites exist, and do they govern on a given day?

check_citations(index, "《刑法》第九百九十九条、刑法第264条")
-> [CitedArticle(law="刑法", label="第九百九十九条", status="not_found", …), CitedArticle(…, status="in_force", …)]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from retrieval_server.citations import Citation, resolve_citations
from retrieval_server.merged_laws import merger_note, replaced_laws
from retrieval_server.numerals import chinese_number
from retrieval_server.types import CitedArticle, CitedStatus
from retrieval_server.validity import is_in_force, validity_note

if TYPE_CHECKING:
    from retrieval_server.legal_index import LegalIndex

_CASE_NUMBER = re.compile(
    r"[（(]\s?(?:19|20)\d{2}\s?[)）]\s?[\u4e00-\u9fff]{1,4}\d{0,6}[\u4e00-\u9fff]{1,4}\s?\d{1,7}\s?号"
)
"""（2019）粤01刑终123号: year, court, kind of case, number."""


def check_citations(index: LegalIndex, text: str, as_of: date | None = None) -> list[CitedArticle]:
    """Every article and case number that the text cites, in order, each article once per law and number.

    Args:
        as_of: the day whose law is meant; None = today.
    """
    day = as_of or date.today()
    found: dict[tuple[str, int, int], CitedArticle] = {}
    for citation in resolve_citations(text, index.titles):
        place = (citation.law_key, citation.article_no, citation.article_sub)
        if place not in found:
            found[place] = _checked(index, citation, day)
    cases = [
        CitedArticle(kind="case", label=match[0], status=CitedStatus.NOT_FOUND, span=match.span())
        for match in _CASE_NUMBER.finditer(text)
    ]
    return sorted([*found.values(), *_known_cases(index, cases)], key=lambda cited: cited.span)


def article_label(number: int, sub: int = 0) -> str:
    """Example: (133, 1) -> 第一百三十三条之一."""
    return f"第{chinese_number(number)}条" + (f"之{chinese_number(sub)}" if sub else "")


def _checked(index: LegalIndex, citation: Citation, day: date) -> CitedArticle:
    label = article_label(citation.article_no, citation.article_sub)
    base = CitedArticle(
        law=citation.law_title.strip("《》"), label=label, status=CitedStatus.UNRESOLVED, span=citation.span
    )
    if not citation.law_key:
        return base.model_copy(update={"note": "未写明法律名称"})
    article = index.resolve(citation, day)
    if article is not None:
        status = CitedStatus.IN_FORCE if is_in_force(article, day) else CitedStatus.NOT_IN_FORCE
        known = {"status": status, "article_id": article.id, "note": validity_note(article, day), "text": article.text}
        return base.model_copy(update={"law": article.law_title, **known})
    replaced = replaced_laws(base.law, index.knows_law)
    if replaced:
        note = "；".join(merger_note(old, merger) for old, merger in replaced.items())
        return base.model_copy(update={"status": CitedStatus.NOT_IN_FORCE, "note": note})
    known_law = index.knows_law(citation.law_key)
    note = "该法在知识库中没有这一条" if known_law else "知识库中没有这部法律"
    return base.model_copy(update={"status": CitedStatus.NOT_FOUND, "note": note})


def _known_cases(index: LegalIndex, cited: Sequence[CitedArticle]) -> list[CitedArticle]:
    """A case number is known when it is the id of a precedent."""
    known = {case.id.rpartition("/")[2]: case.id for case in index.cases} if cited else {}
    note = "知识库中没有这一案号"
    return [
        case.model_copy(update={"status": CitedStatus.IN_FORCE, "article_id": known[case.label]})
        if case.label in known
        else case.model_copy(update={"note": note})
        for case in cited
    ]
