"""Which words of a judgment's result are in force: items, brackets, quoted and quashed sentences (paper, appendix F.2).

A court of second instance repeats the sentence that it quashes. `operative_items` gives only what stands::

    一、撤销甲院判决，即：被告人张某犯盗窃罪，判处有期徒刑三年。 二、上诉人张某犯盗窃罪，判处有期徒刑一年。
    -> [Item(text="上诉人张某犯盗窃罪,判处有期徒刑一年。", upheld=False)]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from retrieval_server.amounts import normalise

ROLE = (
    "(?:原审上诉人|原审被告人|原审被告单位|上诉单位|上诉人|申诉人|被告人|被告单位|罪犯|同案犯|同案人"
    "|附带民事诉讼被告人|被告)"
)
_ITEM_MARK = re.compile(
    r"(?:^|(?<=[。;,:\n)”]))\n*(?:[一二三四五六七八九十]{1,3}、|\([一二三四五六七八九十]{1,3}\)|\d{1,2}[、.](?!\d))"
)
_BRACKET = re.compile(r"[(\[【〔][^()\[\]【】〔〕]*[)\]】〕]")
_KEPT_BRACKET = re.compile(r"[(\[【](?:并处|单处|附加|宣告缓刑|缓刑(?!考验)|剥夺政治权利|缓期)")
_OPEN_BRACKET = re.compile(
    r"\((?=(?:其)?(?:刑期|缓刑考?验?期|管制的?刑期|罚金|上述|判决执行|已缴))[^()]*?(?=\n|[。;](?=" + ROLE + r")|$)"
)
_ITEM_BRACKET = re.compile(r"\(([一二三四五六七八九十]{1,3})\)(?=" + ROLE + ")")
_QUOTE = re.compile(r"[“\"「『]([^”\"」』]*)[”\"」』]")
_QUOTES_THAT = re.compile(r"即(?![日将时可刻自从])|[::](?=.)")
_RESTART = re.compile(r"改判|变更为|改为")
_NEW_SENTENCE = re.compile(r"[。;\n](?=(?:对)?" + ROLE + ")")
_RESULT_START = re.compile(r"(?:判决|裁定|改判)如下[:,]?")
_APPEAL_NOTICE = re.compile(r"如不服本(?:判决|裁定)|本(?:判决|裁定)(?:为终审|送达后)")
_UPHOLDS = re.compile(r"(?<=[,;、])维持")
_QUASHES = re.compile(r"撤销(?!缓刑的?考验)")
_UPHELD_START = re.compile(r"^(?:驳回[^。]*?,)?(?:依法)?维持")


@dataclass(frozen=True)
class Item:
    """One numbered item of a result, cleaned; `upheld` when it quotes what the court keeps in force."""

    text: str
    upheld: bool = False


def operative_items(text: str) -> list[Item]:
    """The items of a result text that are in force, normalised, without notes in brackets."""
    cleaned = _without_quashed_quotes(_without_brackets(_result_part(normalise(text))))
    pieces = [p for p in _ITEM_MARK.split(cleaned) if p.strip()]
    items = (Item(_without_quashed(p, numbered=len(pieces) > 1), bool(_UPHELD_START.match(p))) for p in pieces)
    return [item for item in items if item.text.strip("。;,\n ")]


def _result_part(text: str) -> str:
    """The result of a whole judgment: after the last 判决如下, before the notice on appeal."""
    *_, last = _RESULT_START.split(text)
    return _APPEAL_NOTICE.split(last)[0]


def _without_brackets(text: str) -> str:
    """Drop notes in brackets, inner ones first, but keep penalties written in them; close what was left open."""
    text = _ITEM_BRACKET.sub(r"\n\1、", text)
    previous = None
    while previous != text:
        previous = text
        text = _BRACKET.sub(lambda m: "," + m[0][1:-1] if _KEPT_BRACKET.match(m[0]) else "", text)
    return re.sub(r"[()]", "", _OPEN_BRACKET.sub("", text))


def _without_quashed_quotes(text: str) -> str:
    """Resolve quotation marks: a quotation under 撤销 goes, one under 维持 loses its marks and item numbers."""
    out, end = [], 0
    for match in _QUOTE.finditer(text):
        before = text[end : match.start()]
        out.append(before)
        governing = re.findall(r"撤销|维持|改判|变更为", text[: match.start()])
        if not (governing and governing[-1] == "撤销" and _QUOTES_THAT.search(before)):
            out.append(_ITEM_MARK.sub("", match[1]))
        end = match.end()
    return "".join(out) + text[end:]


def _without_quashed(item: str, numbered: bool) -> str:
    """Cut each stretch that 撤销 governs: to the end of its sentence, or of the item when it quotes (即 …, :)."""
    out, start = [], 0
    while match := _QUASHES.search(item, start):
        out.append(item[start : match.start()])
        start = _end_of_quashed(item, match.end(), numbered)
    return "".join(out) + item[start:]


def _end_of_quashed(item: str, start: int, numbered: bool) -> int:
    """Where the text in force goes on after a 撤销 that ends at `start`."""
    stop = re.compile(r"[。;\n]").search(item, start)
    sentence_end = stop.start() if stop else len(item)
    if restart := _RESTART.search(item, start):
        return restart.end()
    quotes = _QUOTES_THAT.search(item, start, sentence_end)
    if (upholds := _UPHOLDS.search(item, start, sentence_end)) and not (quotes and quotes.start() < upholds.start()):
        return upholds.start()
    if quotes:
        new_sentence = None if numbered else _NEW_SENTENCE.search(item, start)
        return new_sentence.end() if new_sentence else len(item)
    resumes = re.compile(
        rf"[,:](?=(?:以)?{ROLE}[^,;。]{{1,20}}犯)|[,](?=(?:与|连同|和|实行|数罪|合并|决定|并与|执行|收监))"
    ).search(item, start, sentence_end)
    return resumes.end() if resumes else sentence_end
