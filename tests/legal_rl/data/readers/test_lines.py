"""JSON Lines: every kind of broken file gets one line that names the place and what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legal_rl.data.readers.inspect import inspect_file
from legal_rl.data.readers.lines import DataError, LinesWriter, read_lines, write_lines

GOOD = '{"question": "甲", "answers": ["乙"]}\n'
BROKEN = [
    (GOOD * 2 + '{"question": \n', "line 3", "mend or remove the line"),
    (('{"question": "盗窃罪如何量刑", "answers": ["三年"]}\n').encode("gbk"), "line 1", "iconv -f GB18030 -t UTF-8"),
    (b"\xef\xbb\xbf" + GOOD.encode(), "line 1", "byte order mark (BOM); remove it"),
    (GOOD + '{"question": "甲"}\n', "line 2", "'answers'"),
    ("id,question,answer\n1,甲,乙\n", "line 1", "looks like CSV; turn it into JSON Lines"),
    ("\ufeff".encode("utf-16") + GOOD.encode("utf-16-le"), "line 1", "UTF-16"),
    ("[\n", "line 1", "jq -c"),
    ('{"question": "\\ud83d", "answers": ["x"]}\n', "line 1", "half of a surrogate pair"),
    (GOOD + "[1, 2]\n", "line 2", "expected an object, found list"),
    ('{"nonsense": 1}\n', "line 1", "fit no known format; known: cail2018"),
    ("", "", "holds no record"),
]


@pytest.mark.parametrize(("content", "place", "advice"), BROKEN)
def test_inspect_names_the_line_and_the_remedy(tmp_path: Path, content: str | bytes, place: str, advice: str) -> None:
    path = tmp_path / "material.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    report = inspect_file(path)
    assert report.num_problems >= 1
    assert place in report.problems[0] and advice in report.problems[0] and "\n" not in report.problems[0]
    assert str(path) in report.problems[0]


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as out:
        out.write(GOOD.encode())
        out.seek(200 * 2**20, 1)  # a hole: 200 MB of zeros that take no space on the disk
        out.write(b"}\n")
    report = inspect_file(path)
    assert report.records == 1
    assert "line 2: longer than 32 MiB; write one JSON object a line" in report.problems[0]


def test_good_lines_around_a_bad_one_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(GOOD + "\n{oops\n" + GOOD, encoding="utf-8")
    report = inspect_file(path)
    assert (report.format, report.records, report.num_problems) == ("crimekgassitant", 2, 1)


def test_gzip_and_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    data = gzip.compress(GOOD.encode() * 50)
    path.write_bytes(data)
    assert len(list(read_lines(path))) == 50
    path.write_bytes(data[:-12])
    with pytest.raises(DataError, match="damaged gzip data"):
        list(read_lines(path))
    with pytest.raises(DataError, match="no such file"):
        list(read_lines(tmp_path / "none.jsonl"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(max_size=5), st.text() | st.integers() | st.none(), max_size=3), max_size=5))
def test_what_is_written_is_read(tmp_path: Path, records: list[dict[str, object]]) -> None:
    path = tmp_path / "out.jsonl"
    assert write_lines(path, records) == len(records)
    assert [record for _, record in read_lines(path)] == records


@given(st.binary(max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_a_report(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    assert inspect_file(path).records >= 0


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), LinesWriter(tmp_path / "a.jsonl") as out:
        out.write({"a": 1})
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_inspect_reads_on_after_a_bad_element_of_an_array(tmp_path: Path) -> None:
    path = tmp_path / "qa.json"
    good = '{"question": "何谓要约？", "answers": ["意思表示"]}'
    path.write_text(f'[{good}, 3, {{"question": "甲"}}, {good}]', encoding="utf-8")
    report = inspect_file(path)
    assert (report.records, report.num_problems) == (2, 2) and "element 2" in report.problems[0]
