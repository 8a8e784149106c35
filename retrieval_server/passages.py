"""The paragraph (款) and item (项) of an article that a citation names.

A paragraph is a line of the article that is no item; the items （一）、（二） … belong to the paragraph before them::

    "甲：\\n（一）乙；\\n（二）丙。\\n丁。"  -> paragraph 1 = 甲 and both items, item 2 = 丙, paragraph 2 = 丁
"""

from __future__ import annotations

import re

from retrieval_server.numerals import NUMERAL_CHARS, parse_number

_ITEM = re.compile(rf"\s*[（(]([{NUMERAL_CHARS}]{{1,4}})[)）]")


def cited_passage(text: str, paragraph: int | None, item: int | None) -> str | None:
    """The text of the named paragraph, of the named item in it (paragraph 1 when none is named), or None."""
    if paragraph is None and item is None:
        return None
    groups = _paragraphs(text)
    if item is None:
        lines = groups[paragraph - 1] if paragraph and 0 < paragraph <= len(groups) else None
        return "\n".join(lines) if lines else None
    searched = groups if paragraph is None else groups[paragraph - 1 : paragraph] if paragraph > 0 else []
    for lines in searched:
        for line in lines:
            mark = _ITEM.match(line)
            if mark and parse_number(mark[1]) == item:
                return line.strip()
    return None


def _paragraphs(text: str) -> list[list[str]]:
    groups: list[list[str]] = []
    for line in filter(str.strip, text.splitlines()):
        if _ITEM.match(line) and groups:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups
