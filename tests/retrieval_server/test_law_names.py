"""Titles of laws, aliases and short forms."""

from __future__ import annotations

import pytest

from retrieval_server.law_names import builtin_titles, canonical_key, known_titles, law_key, short_titles, squash


@pytest.mark.parametrize(
    ("title", "key"),
    [
        ("中华人民共和国刑法", "刑法"),
        ("中华人民共和国刑法（2020修正）", "刑法"),
        ("中华人民共和国公司法(2018年修订)", "公司法"),
        ("公司法【最新修订版】", "公司法"),
        ("宪法修正案（1993年）", "宪法修正案（1993年）"),
        (
            "最高人民法院关于适用《中华人民共和国民法典》时间效力的若干规定",
            "最高人民法院关于适用《民法典》时间效力的若干规定",
        ),
        ("关于对中华人民共和国缔结或者参加的国际条约的决定", "关于对中华人民共和国缔结或者参加的国际条约的决定"),
    ],
)
def test_law_key(title: str, key: str) -> None:
    assert law_key(title) == key


def test_squash_makes_spellings_meet() -> None:
    assert squash("《中华人民共和国民法典》婚姻家庭编的解释（一）") == "民法典婚姻家庭编的解释一"
    assert squash("民法典 婚姻家庭编的解释(一)") == "民法典婚姻家庭编的解释一"
    assert squash("刑法（2020修正）") == "刑法"
    assert squash("宪法修正案（1993年）") == "宪法修正案1993年"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("民诉法", "民事诉讼法"),
        ("刑诉法", "刑事诉讼法"),
        ("民法", "民法典"),
        ("消法", "消费者权益保护法"),
        ("《中华人民共和国刑法》", "刑法"),
        ("刑诉解释", "最高人民法院关于适用《刑事诉讼法》的解释"),
        ("某某省条例", "某某省条例"),
    ],
)
def test_canonical_key(name: str, key: str) -> None:
    assert canonical_key(name) == key


def test_short_titles() -> None:
    key = "最高人民法院关于适用《民法典》婚姻家庭编的解释（一）"
    assert short_titles(key) == ["民法典婚姻家庭编的解释一", "民法典婚姻家庭编解释一"]
    assert short_titles("刑法") == []


def test_an_alias_never_hides_a_full_title() -> None:
    titles = builtin_titles()
    assert all(titles[squash(title)] == title for title in known_titles())
    titles["x"] = "y"
    assert "x" not in builtin_titles()
