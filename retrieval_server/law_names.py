"""Titles of laws as people write them, and the one key each stands for.

A law's key is its title without 中华人民共和国 and without a version remark. Two forms are compared after `squash`,
which also drops brackets and blanks, so that 《中华人民共和国民法典》婚姻家庭编的解释（一） and
民法典婚姻家庭编的解释一 meet.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files

STATE = "中华人民共和国"

VERSION_REMARK = re.compile(
    r"[（(\[【]\s*(?:(?:19|20)\d{2}\s*年?\s*)?(?:第[一二三四五六]次)?(?:最新|现行)?(?:修正|修订|修改|公布|文本|版本|版)(?:文本|版本|版|本)?\s*[)）\]】]"
)
"""（2020修正）, (2018年修订), （修正）, [2023年版]. A bare year stays: 宪法修正案（1993年） is a title."""

_STATE_OF_TITLE = re.compile(rf"(?:^|(?<=[《〈])){STATE}")
_ISSUER = re.compile(r"^最高人民(?:法院|检察院)(?:、?[\u4e00-\u9fff]{2,8}[部院局会])*关于(?:适用|审理|办理)?")
_FILLER = re.compile(r"若干问题的?|有关问题的?|应用法律|适用法律|具体|的(?=解释|规定)")
_BRACKETS = re.compile(r"[《》〈〉<>「」“”\"'（）()\[\]【】\s\\]")

ALIASES: dict[str, str] = {
    "民法": "民法典",
    "民诉法": "民事诉讼法",
    "民诉": "民事诉讼法",
    "刑诉法": "刑事诉讼法",
    "刑诉": "刑事诉讼法",
    "行诉法": "行政诉讼法",
    "刑法典": "刑法",
    "新刑法": "刑法",
    "新公司法": "公司法",
    "治安处罚法": "治安管理处罚法",
    "治安管理法": "治安管理处罚法",
    "治安法": "治安管理处罚法",
    "道交法": "道路交通安全法",
    "道路交通法": "道路交通安全法",
    "交通安全法": "道路交通安全法",
    "交通法": "道路交通安全法",
    "消法": "消费者权益保护法",
    "消保法": "消费者权益保护法",
    "消费者保护法": "消费者权益保护法",
    "反不当竞争法": "反不正当竞争法",
    "个保法": "个人信息保护法",
    "个人信息法": "个人信息保护法",
    "数安法": "数据安全法",
    "网安法": "网络安全法",
    "环保法": "环境保护法",
    "食安法": "食品安全法",
    "食品法": "食品安全法",
    "未保法": "未成年人保护法",
    "未成年保护法": "未成年人保护法",
    "妇女权益保护法": "妇女权益保障法",
    "妇保法": "妇女权益保障法",
    "劳合法": "劳动合同法",
    "劳动仲裁法": "劳动争议调解仲裁法",
    "劳动争议仲裁法": "劳动争议调解仲裁法",
    "破产法": "企业破产法",
    "证投法": "证券投资基金法",
    "基金法": "证券投资基金法",
    "房地产法": "城市房地产管理法",
    "房地产管理法": "城市房地产管理法",
    "土地法": "土地管理法",
    "土地承包法": "农村土地承包法",
    "知产法": "知识产权法",
    "国赔法": "国家赔偿法",
    "反家暴法": "反家庭暴力法",
    "反诈法": "反电信网络诈骗法",
    "反电诈法": "反电信网络诈骗法",
    "质量法": "产品质量法",
    "税收征管法": "税收征收管理法",
    "税收征收法": "税收征收管理法",
    "个税法": "个人所得税法",
    "个人所得税": "个人所得税法",
    "企税法": "企业所得税法",
    "香港基本法": "香港特别行政区基本法",
    "澳门基本法": "澳门特别行政区基本法",
    "社保法": "社会保险法",
    "涉外法律适用法": "涉外民事关系法律适用法",
    "法律适用法": "涉外民事关系法律适用法",
    "枪支法": "枪支管理法",
    "海环法": "海洋环境保护法",
    "大气法": "大气污染防治法",
    "固废法": "固体废物污染环境防治法",
    "人大组织法": "全国人民代表大会组织法",
    "刑诉解释": "最高人民法院关于适用《刑事诉讼法》的解释",
    "刑诉法解释": "最高人民法院关于适用《刑事诉讼法》的解释",
    "刑事诉讼法解释": "最高人民法院关于适用《刑事诉讼法》的解释",
    "民诉解释": "最高人民法院关于适用《民事诉讼法》的解释",
    "民诉法解释": "最高人民法院关于适用《民事诉讼法》的解释",
    "民事诉讼法解释": "最高人民法院关于适用《民事诉讼法》的解释",
    "行诉解释": "最高人民法院关于适用《行政诉讼法》的解释",
    "行诉法解释": "最高人民法院关于适用《行政诉讼法》的解释",
    "行政诉讼法解释": "最高人民法院关于适用《行政诉讼法》的解释",
    "刑诉规则": "人民检察院刑事诉讼规则",
    "高检规则": "人民检察院刑事诉讼规则",
    "刑事诉讼规则": "人民检察院刑事诉讼规则",
    "民间借贷解释": "最高人民法院关于审理民间借贷案件适用法律若干问题的规定",
    "刑法总则": "刑法",
    "刑法分则": "刑法",
    "民法典总则编": "民法典",
    "民法典物权编": "民法典",
    "民法典合同编": "民法典",
    "民法典人格权编": "民法典",
    "民法典婚姻家庭编": "民法典",
    "民法典继承编": "民法典",
    "民法典侵权责任编": "民法典",
    "民间借贷司法解释": "最高人民法院关于审理民间借贷案件适用法律若干问题的规定",
    "民间借贷规定": "最高人民法院关于审理民间借贷案件适用法律若干问题的规定",
}
"""Short forms -> law key."""

INTERPRETATIONS: tuple[str, ...] = (
    "最高人民法院关于适用《民法典》总则编若干问题的解释",
    "最高人民法院关于适用《民法典》物权编的解释（一）",
    "最高人民法院关于适用《民法典》合同编通则若干问题的解释",
    "最高人民法院关于适用《民法典》有关担保制度的解释",
    "最高人民法院关于适用《民法典》婚姻家庭编的解释（一）",
    "最高人民法院关于适用《民法典》婚姻家庭编的解释（二）",
    "最高人民法院关于适用《民法典》继承编的解释（一）",
    "最高人民法院关于适用《民法典》侵权责任编的解释（一）",
    "最高人民法院关于适用《民法典》时间效力的若干规定",
    "最高人民法院关于适用《刑事诉讼法》的解释",
    "最高人民法院关于适用《民事诉讼法》的解释",
    "最高人民法院关于适用《行政诉讼法》的解释",
    "最高人民法院关于审理民间借贷案件适用法律若干问题的规定",
    "最高人民法院关于审理道路交通事故损害赔偿案件适用法律若干问题的解释",
    "最高人民法院关于审理劳动争议案件适用法律问题的解释（一）",
    "最高人民法院关于审理人身损害赔偿案件适用法律若干问题的解释",
)
"""Keys of interpretations that are often cited by a short form (see `short_titles`)."""


def known_titles() -> list[str]:
    """Titles of `law_titles.txt`: a bare mention (without 《》) of these is recognised when no index is at hand."""
    lines = (files("retrieval_server") / "law_titles.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def law_key(title: str) -> str:
    """中华人民共和国刑法（2020修正） -> 刑法; also inside: 适用《中华人民共和国民法典》 -> 适用《民法典》. No alias."""
    return _STATE_OF_TITLE.sub("", VERSION_REMARK.sub("", title).strip())


def squash(title: str) -> str:
    """The form two spellings of one title share: NFKC, no brackets, blanks, version remark or 中华人民共和国."""
    plain = unicodedata.normalize("NFKC", VERSION_REMARK.sub("", title))
    return _BRACKETS.sub("", plain).replace(STATE, "")


def short_titles(key: str) -> list[str]:
    """Shorter spellings of an interpretation's title, squashed: without its issuer, 关于适用, 若干问题的 and 的.

    Example: 最高人民法院关于适用《民法典》婚姻家庭编的解释（一） -> 民法典婚姻家庭编的解释一, 民法典婚姻家庭编解释一.
    """
    plain = squash(key)
    bare = _ISSUER.sub("", plain)
    if bare == plain:
        return []
    tight = _FILLER.sub("", bare)
    return list(dict.fromkeys(form for form in (bare, tight) if len(form) > 3))


_ON_A_LAW = re.compile(
    r"关于适用《([^》]+)》(.*?)(?:的|若干问题的?|有关问题的?)*(?:解释|规定)((?:[（(][一二三四五六七八]+[）)])?)$"
)
_ON_CASES = re.compile(r"关于审理(.+?)案件.*?(解释|规定)((?:[（(][一二三四五六七八]+[）)])?)$")


def interpretation_aliases(key: str) -> list[str]:
    """What an interpretation is called in practice, squashed.

    Example: 最高人民法院关于适用《公司法》若干问题的规定（三） -> 公司法解释三, 公司法司法解释三, …
    """
    if match := _ON_A_LAW.search(key):
        law, matter, number = match[1], match[2].removeprefix("有关"), match[3]
        subjects = [law + matter, *([matter] if len(matter) > 2 else [])]
    elif match := _ON_CASES.search(key):
        subject, number = match[1], match[3]
        subjects = list(dict.fromkeys((subject, subject.removesuffix("纠纷"), subject.removesuffix("纠纷") + "纠纷")))
    else:
        return []
    return [
        squash(f"{subject}{kind}{number}") for subject in subjects for kind in ("解释", "司法解释", "的解释", "规定")
    ]


@cache
def _canonical() -> dict[str, str]:
    keys = [*known_titles(), *INTERPRETATIONS]
    titles = {squash(key): key for key in keys}
    shorter = {form: key for key in reversed(INTERPRETATIONS) for form in short_titles(key)}
    return shorter | {squash(alias): key for alias, key in ALIASES.items()} | titles


def canonical_key(title: str) -> str:
    """The law key a title or alias stands for: 民诉法 -> 民事诉讼法; unknown titles give their own `law_key`."""
    return _canonical().get(squash(title)) or law_key(title)


def builtin_titles() -> dict[str, str]:
    """Squashed title or alias -> law key, for titles known without an index; a copy the caller may extend."""
    return dict(_canonical())
