"""Typed values in legal Chinese: terms, probation, fines, amounts, durations, dates, articles, charges, persons.

    find_values("判处有期徒刑三年，缓刑四年，并处罚金人民币5千元")
    -> term (有期徒刑, 36 months), probation 48 months, fine 5000.0

Two spellings of one value compare equal: 三年 = 36个月, 壹万元 = 10,000元, 刑法第264条 = 《刑法》第二百六十四条.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from retrieval_server.amounts import NUMERAL, normalise, parse_number, term_days, term_pattern
from retrieval_server.citations import resolve_citations
from retrieval_server.segmentation import legal_terms

Key = str | float | tuple[str | float | int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One value. `folded[start:end] == text` of the text as `retrieval_server.amounts.normalise` folds it.

    Example: Value(kind="term", key=("有期徒刑", 36.0), text="有期徒刑三年", start=2, end=8).
    """

    kind: str
    key: Key
    text: str
    start: int
    end: int


_MONEY = rf"(?:人民币)?({NUMERAL})(?:余|多)?(?:元|块钱|美元|港元)"
_FINE = re.compile(rf"(?:罚金|罚款)(?:为|的数额为|数额)?{_MONEY}|{_MONEY}的?(?:罚金|罚款)")
_AMOUNT = re.compile(_MONEY)
_NUMERAL = r"[\d一二三四五六七八九十百两壹贰叁肆伍陆柒捌玖拾零〇]+"
_SPAN = rf"(?:{_NUMERAL}(?:年(?:半(?!个)|(?:零|又)?{_NUMERAL}个?月)?|个月)|(?<![上下前后])半年)"
_RANGE = rf"(?:{_SPAN}以上)?(?:{_SPAN}以下)?"
_KIND = "有期徒刑|徒刑|拘役|管制|剥夺政治权利"
_TERM = re.compile(
    rf"(?P<kind>{_KIND}|刑期)(?:应当|应)?(?:为|是|共|:)?(?P<after>{_SPAN}(?:以上|以下)?(?:{_SPAN}以下)?)"
    rf"|(?P<before>{_SPAN}以上{_SPAN}以下|{_SPAN}(?:以上|以下)|{_SPAN})的?(?P<kind2>{_KIND})"
)
_PROBATION = re.compile(
    rf"缓刑(?:考验期(?:限)?)?(?:为|是|:)?(?P<after>{_SPAN})|缓期(?P<late>{_SPAN})(?:执行)?|(?P<before>{_SPAN})的?缓刑"
)
_PENALTY = re.compile(
    r"死刑[,、]?(?:并|且)?(?:宣告)?缓期[二两2]年(?:执行)?|死缓|死刑|无期徒刑|免予刑事处罚|单处罚金|没收(?:个人)?全部财产|驱逐出境"
)
_SHORT_PENALTY = re.compile(
    r"拘役|(?<!出口)(?<!交通)(?<!外汇)(?<!空中)(?<!流量)(?<!航空)管制(?!物项|措施|政策|清单|药品|刀具|器具|制度|部门|法)"
)
"""管制 is a penalty, but export controls (出口管制, 管制物项) are none."""
_DATE = re.compile(
    r"((?:19|20)\d{2}|[一二][九〇零○\d][一二三四五六七八九〇零○\d]{2})年(\d{1,2}|[一二三四五六七八九十]{1,3})月(?:(\d{1,2}|[一二三四五六七八九十]{1,3})日)?"
)
_DURATION = re.compile(
    rf"(?<![\d一二三四五六七八九十百]){_SPAN}(?![\d一二三四五六七八九十]*月)|(?<![月\d]){_NUMERAL}(?:日|天)(?:内|之内|以内|后|前|届满)?"
)
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%|百分之([一二三四五六七八九十百零]+)")
_PERSON = re.compile(
    r"(?<![\u4e00-\u9fff])?[\u4e00-\u9fff](?:某(?:某|[甲乙丙丁0-9A-Z])?|[甲乙丙丁])(?![\u4e00-\u9fff]?某)"
)
_ARTICLE_TEXT = re.compile(r"第[^条]{1,12}条(?:之[一二三四五六七八九十\d]+)?")
_SURNAMES = frozenset(
    "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦尤许何吕施张孔曹严华金魏陶姜戚谢邹喻柏水窦章云苏潘葛范彭郎鲁韦马苗方俞"
    "任袁柳鲍史唐费廉岑薛雷贺倪汤滕殷罗毕郝安常乐于时傅皮齐康伍余元顾孟黄穆萧尹姚邵汪祁毛狄米贝明臧戴宋庞熊纪舒屈"
    "项祝董梁杜阮蓝闵席季麻强贾路江童颜郭梅盛林刁钟徐邱骆高夏蔡田樊胡凌霍虞万支柯管卢莫房裘解应宗丁邓洪包左石崔吉"
    "龚程邢裴陆荣翁荀羊惠曲封段富巫乌焦巴牧山谷车侯全班秋仲伊宫宁仇甘厉祖武符刘景詹龙叶黎白蒲邰从索赖卓蔺屠池乔"
    "阴胥苍闻党翟谭贡姬申冉雍桑桂牛寿通边燕冀温庄柴瞿阎连习艾鱼容向古易廖耿匡寇广阙东殴利蔚越夔隆师巩聂晁勾敖融冷"
    "訾辛阚那简饶空曾毋沙养鞠须丰关相查后荆游竺权盖益桓公欧"
)


_COMMON_CHARGES = """
交通肇事 危险驾驶 寻衅滋事 聚众斗殴 敲诈勒索 非法拘禁 妨害公务 开设赌场 赌博 容留他人吸毒 贩卖毒品 非法持有毒品
掩饰、隐瞒犯罪所得 帮助信息网络犯罪活动 非法吸收公众存款 合同诈骗 信用卡诈骗 故意毁坏财物 非法侵入住宅 强奸 强制猥亵
绑架 拐卖妇女、儿童 重婚 虐待 遗弃 诽谤 侮辱 放火 失火 爆炸 重大责任事故 生产、销售假药 非法经营 假冒注册商标
侵犯公民个人信息 伪造公司印章 窝藏 包庇 伪证 脱逃 滥伐林木 盗伐林木 污染环境 玩忽职守 滥用职权 巨额财产来源不明
拒不支付劳动报酬 过失致人重伤 袭警 高空抛物 洗钱 串通投标 逃税 组织卖淫 走私普通货物、物品 非法捕捞水产品
破坏电力设备 侵占
"""
"""Charges that the dictionary of the segmenter lacks, without 罪."""


@cache
def _charges() -> re.Pattern[str]:
    known = {term.removesuffix("罪") for term in legal_terms() if term.endswith("罪")}
    names = sorted(known | set(_COMMON_CHARGES.split()), key=lambda name: (-len(name), name))
    return re.compile("|".join(map(re.escape, names)))


def plain_number(number: float) -> str:
    """A number as people write it, at most two decimals, never with an exponent: 1239500.0 -> 1239500."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def fold(text: str) -> str:
    """The text in which `Value.start` and `Value.end` count."""
    return normalise(text)


def find_values(text: str) -> list[Value]:
    """All values of a text, by place; what stands inside a longer value (the amount of a fine) is no other value.

    The articles of one citation (第577条、第584条) are several values with one place.
    """
    folded = fold(text)
    found: list[Value] = []
    for reader in _READERS:
        for value in reader(folded):
            if not any(
                value.start < other.end and other.start < value.end and not _of_one_citation(value, other)
                for other in found
            ):
                found.append(value)
    return sorted(found, key=lambda value: (value.start, value.kind))


def _of_one_citation(one: Value, other: Value) -> bool:
    return one.kind == other.kind == "article" and (one.start, one.end) == (other.start, other.end)


def _fines(text: str) -> Iterator[Value]:
    for match in _FINE.finditer(text):
        number = parse_number(match[1] or match[2])
        if number is not None:
            yield Value("fine", number, match[0], match.start(), match.end())


def _terms(text: str) -> Iterator[Value]:
    for match in _TERM.finditer(text):
        span = match["after"] or match["before"]
        kind = (match["kind"] or match["kind2"]).replace("刑期", "有期徒刑")
        key = _range_months(span)
        if key is not None:
            kind = "有期徒刑" if kind == "徒刑" else kind
            yield Value("term", (kind, *key), match[0], match.start(), match.end())


def _range_months(span: str) -> tuple[float, ...] | None:
    """三年 -> (36,), 三年以下 -> (0, 36), 三年以上十年以下 -> (36, 120), 十年以上 -> (120, 999)."""
    edges = re.findall(rf"({_SPAN})(以上|以下)?", span)
    months = [months_of(edge) for edge, _ in edges]
    if not edges or None in months:
        return None
    if len(edges) == 2:
        return (months[0] or 0.0, months[1] or 0.0)
    side, value = edges[0][1], months[0] or 0.0
    return (0.0, value) if side == "以下" else (value, 999.0) if side == "以上" else (value,)


@cache
def _term_reader() -> re.Pattern[str]:
    return re.compile(term_pattern("t_"))


def months_of(text: str) -> float | None:
    """三年六个月 -> 42.0; None when it is no term."""
    match = _term_reader().fullmatch(text)
    term = term_days(match.groupdict(), "t_") if match else None
    return None if term is None else term[0] + term[1] / 30


def _probations(text: str) -> Iterator[Value]:
    for match in _PROBATION.finditer(text):
        months = months_of(match["after"] or match["late"] or match["before"])
        if months is not None and not re.search("死刑[,、]?(?:并|且)?(?:宣告)?$", text[: match.start()]):
            yield Value("probation", months, match[0], match.start(), match.end())


def _penalties(text: str) -> Iterator[Value]:
    for match in _PENALTY.finditer(text):
        key = "死缓" if "缓" in match[0] else match[0].replace("个人", "")
        yield Value("penalty", key, match[0], match.start(), match.end())
    for match in _SHORT_PENALTY.finditer(text):
        yield Value("penalty", match[0], match[0], match.start(), match.end())


def _amounts(text: str) -> Iterator[Value]:
    for match in _AMOUNT.finditer(text):
        number = parse_number(match[1])
        if number is not None:
            yield Value("amount", number, match[0], match.start(), match.end())


def _dates(text: str) -> Iterator[Value]:
    for match in _DATE.finditer(text):
        numbers = [_calendar(part) for part in match.groups() if part]
        if None not in numbers:
            yield Value("date", tuple(n for n in numbers if n is not None), match[0], match.start(), match.end())


def _calendar(part: str) -> int | None:
    digits = part.translate(str.maketrans("零〇○一二三四五六七八九", "000123456789"))
    if digits.isdigit() and len(digits) in (1, 2, 4):
        return int(digits)
    number = parse_number(part)
    return None if number is None else int(number)


def _durations(text: str) -> Iterator[Value]:
    for match in _DURATION.finditer(text):
        body = re.sub(r"(?:之内|以内|内|后|前|届满)$", "", match[0])
        months = months_of(body)
        if months is None and (days := parse_number(body.rstrip("日天"))) is not None:
            months = days / 30
        if months is not None and months < 1_200:  # 2020年 is a date
            yield Value("duration", round(months, 4), match[0], match.start(), match.start() + len(body))


def _percents(text: str) -> Iterator[Value]:
    for match in _PERCENT.finditer(text):
        number = float(match[1]) if match[1] else parse_number(match[2])
        if number is not None:
            yield Value("percent", number, match[0], match.start(), match.end())


def _articles(text: str) -> Iterator[Value]:
    for citation in resolve_citations(text):
        start, end = citation.span
        yield Value(
            "article", (citation.law_key, citation.article_no, citation.article_sub), text[start:end], start, end
        )


def _crimes(text: str) -> Iterator[Value]:
    for match in _charges().finditer(text):
        end = match.end() + (text[match.end() : match.end() + 1] == "罪")
        yield Value("charge", match[0], text[match.start() : end], match.start(), end)


def _people(text: str) -> Iterator[Value]:
    for match in _PERSON.finditer(text):
        if match[0][0] in _SURNAMES and not (match[0][1] in "甲乙丙丁" and match[0][0] in "明后和及从与"):
            yield Value("person", match[0], match[0], match.start(), match.end())


_READERS = (
    _fines, _probations, _terms, _penalties, _amounts, _dates, _articles, _percents, _durations, _crimes, _people,
)  # fmt: skip
"""Longer and more telling kinds first: what they read is not read again."""
