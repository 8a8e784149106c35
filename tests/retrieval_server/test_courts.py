"""Court levels and authority tiers of appendix F.1."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from retrieval_server.courts import authority_score, court_in_text, court_level
from retrieval_server.types import CourtLevel

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("最高人民法院", "supreme"),
        ("最高人民法院第一巡回法庭", "supreme"),
        ("广东省高级人民法院", "high"),
        ("新疆维吾尔自治区高级人民法院生产建设兵团分院", "high"),
        ("中国人民解放军军事法院", "high"),
        ("上海市第一中级人民法院", "intermediate"),
        ("北京铁路运输中级法院", "intermediate"),
        ("上海海事法院", "intermediate"),
        ("广州知识产权法院", "intermediate"),
        ("上海金融法院", "intermediate"),
        ("中国人民解放军东部战区第一军事法院", "intermediate"),
        ("杭州互联网法院", "primary"),
        ("郑州铁路运输法院", "primary"),
        ("北京军事法院", "primary"),
        ("云南省金平苗族瑶族傣族自治县人民法院", "primary"),
        ("  北京市 海淀区\u3000人民法院 ", "primary"),
        ("某公司", "unknown"),
        ("", "unknown"),
    ],
)
def test_court_level(name: str, level: str) -> None:
    assert court_level(name) == level


def test_tier_scores() -> None:
    assert [authority_score(level) for level in CourtLevel] == [1.1, 1.1, 1.05, 1.0, 1.0]


def test_court_at_the_head_of_a_judgment() -> None:
    assert court_in_text("云南省高级人民法院\n刑 事 判 决 书\n（2019）") == "云南省高级人民法院"
    assert court_in_text("中华人民共和国最高人民法院 刑事裁定书").endswith("最高人民法院")
    assert court_in_text("被告人张某") == ""


@pytest.mark.skipif(not DATA.is_dir(), reason="data folder (LEGAL_RL_DATA) is absent")
def test_levels_of_real_courts_agree_with_the_data() -> None:
    with gzip.open(DATA / "judgments.jsonl.gz", "rt", encoding="utf-8") as lines:
        wrong = [r["court"] for r in map(json.loads, lines) if court_level(r["court"]) != r["court_level"]]
    assert wrong == []
