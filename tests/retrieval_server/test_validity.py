"""Which version governs on which day."""

from __future__ import annotations

from datetime import date

import pytest

from retrieval_server.types import Article
from retrieval_server.validity import close_versions, in_force_from, is_in_force, select_version, validity_note


def version(version_date: str, effective: str | None = None, until: str | None = None, no: int = 1) -> Article:
    return Article(
        id=f"law/公司法@{version_date}#{no}",
        kind="law",
        law_title="中华人民共和国公司法",
        law_key="公司法",
        version_date=version_date,
        effective_date=effective,
        in_force_until=until,
        article_no=no,
        text=version_date,
    )


OLD, NEW = version("2018-10-26", "1994-07-01"), version("2023-12-29", "2024-07-01")


def test_a_version_starts_on_the_later_of_its_two_dates() -> None:
    assert in_force_from(OLD) == "2018-10-26"
    assert in_force_from(NEW) == "2024-07-01"
    assert is_in_force(version(""), date(1, 1, 1))


def test_a_later_version_ends_the_earlier_one() -> None:
    old, new = close_versions([OLD, NEW])
    assert (old.in_force_until, new.in_force_until) == ("2024-07-01", None)
    assert is_in_force(old, date(2024, 6, 30)) and not is_in_force(old, date(2024, 7, 1))
    assert not is_in_force(new, date(2024, 6, 30)) and is_in_force(new, date(2024, 7, 1))


def test_articles_that_the_later_version_dropped_end_too() -> None:
    dropped = version("2018-10-26", "1994-07-01", no=218)
    assert [a.in_force_until for a in close_versions([OLD, dropped, NEW])] == ["2024-07-01", "2024-07-01", None]


def test_an_earlier_known_end_stays() -> None:
    repealed = version("2018-10-26", until="2020-01-01")
    assert close_versions([repealed, NEW])[0].in_force_until == "2020-01-01"


@pytest.mark.parametrize(
    ("day", "chosen"),
    [
        (date(2024, 7, 1), "2023-12-29"),
        (date(2024, 6, 30), "2018-10-26"),
        (date(2018, 10, 26), "2018-10-26"),
        (date(2000, 1, 1), "2018-10-26"),
    ],
)
def test_selection_by_day(day: date, chosen: str) -> None:
    selected = select_version(close_versions([NEW, OLD]), day)
    assert selected is not None and selected.version_date == chosen


def test_a_repealed_law_gives_its_last_text_and_nothing_gives_nothing() -> None:
    repealed = version("2018-10-26", until="2020-01-01")
    assert select_version([repealed], date(2025, 1, 1)) == repealed
    assert select_version([], date(2025, 1, 1)) is None


def test_notes() -> None:
    old, new = close_versions([OLD, NEW])
    assert validity_note(new, date(2025, 1, 1)) == "2023-12-29版本，2025-01-01有效"
    assert (
        validity_note(old, date(2025, 1, 1)) == "2018-10-26版本，自2024-07-01起被新版本取代或废止，2025-01-01已不再有效"
    )
    assert validity_note(new, date(2024, 1, 1)) == "2023-12-29版本，2024-07-01起施行，2024-01-01尚未生效"
    assert validity_note(version(""), date(2024, 1, 1)) == "版本日期不详，2024-01-01有效"
