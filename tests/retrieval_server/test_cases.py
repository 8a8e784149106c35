"""Case adapters: every format read, annotations computed, and bad input named by file, line and field."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from retrieval_server.cases import load_cases
from retrieval_server.errors import CorpusError
from retrieval_server.generated_cases import iter_generated_cases
from retrieval_server.types import Case, CourtLevel

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).parents[3] / "shared" / "data"))
RESULT = "被告人王某犯盗窃罪，判处有期徒刑一年。"
LECARD = {
    "pid": 12,
    "qw": "云岭省高级人民法院刑事判决书……判决如下：" + RESULT + "如不服本判决，可上诉。",
    "fact": "王某盗窃。",
    "reason": "本院认为，构成盗窃罪。",
    "result": RESULT,
    "charge": ["盗窃罪"],
    "article": [264, "133-1"],
}
JUDGMENT = {
    "id": "j1",
    "court": "云州市中级人民法院",
    "court_level": "intermediate",
    "charge": ["盗窃罪"],
    "facts": "王某盗窃。",
    "reason": None,
    "result": None,
    "has_result": False,
    "articles": [264],
}


def write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in records), encoding="utf-8")
    return path


def test_generated() -> None:
    assert list(load_cases("generated:count=3")) == list(iter_generated_cases(count=3))
    assert next(load_cases("generated:seed=5,count=1")).id == "gen-5-0000"
    assert sum(1 for _ in load_cases("generated")) >= 300


@pytest.mark.parametrize("spec", ["generated:size=3", "generated:count=-1", "generated:count"])
def test_generated_with_wrong_options(spec: str) -> None:
    with pytest.raises(CorpusError, match="seed=N or count=N"):
        list(load_cases(spec))


def test_lecard(tmp_path: Path) -> None:
    (case,) = load_cases(write(tmp_path / "c.jsonl", LECARD))
    assert (case.id, case.court, case.court_level) == ("12", "云岭省高级人民法院", CourtLevel.HIGH)
    assert (case.charges, case.articles) == (("盗窃罪",), ("第二百六十四条", "第一百三十三条之一"))
    assert (case.facts, case.psi, case.psi_note) == ("王某盗窃。", 360.0, "")


def test_lecard_folder_with_parts_left_out(tmp_path: Path) -> None:
    write(tmp_path / "2.json", {"pid": 2, "qw": LECARD["qw"], "charge": "盗窃罪、诈骗罪"})
    write(tmp_path / "1.json", {"pid": 1, "fact": "王某盗窃。"})
    first, second = load_cases(tmp_path)
    assert (first.id, first.psi, first.psi_note, first.court_level) == ("1", None, "no result in the source", "unknown")
    assert (second.result, second.psi, second.charges) == (RESULT, 360.0, ("盗窃罪", "诈骗罪"))


def test_judgments_gzip_and_json_array(tmp_path: Path) -> None:
    packed = tmp_path / "j.jsonl.gz"
    with gzip.open(packed, "wt", encoding="utf-8") as lines:
        lines.write(json.dumps(JUDGMENT) + "\n\n" + json.dumps({**JUDGMENT, "id": "j2", "result": RESULT}) + "\n")
    first, second = load_cases(packed)
    assert (first.psi, first.result, first.court_level) == (None, "", CourtLevel.INTERMEDIATE)
    assert second.psi == 360.0
    array = tmp_path / "j.json"
    array.write_text(json.dumps([JUDGMENT]), encoding="utf-8")
    assert [c.id for c in load_cases(array)] == ["j1"]
    assert [c.id for c in load_cases(write(tmp_path / "lines.json", JUDGMENT, {**JUDGMENT, "id": "j3"}))] == [
        "j1",
        "j3",
    ]


def test_level_of_the_source_stands_where_the_name_tells_none(tmp_path: Path) -> None:
    (case,) = load_cases(write(tmp_path / "j.jsonl", {**JUDGMENT, "court": ""}))
    assert case.court_level is CourtLevel.INTERMEDIATE


def test_plain_cases_come_back_as_they_were(tmp_path: Path) -> None:
    cases = list(iter_generated_cases(count=4))
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(c.model_dump_json() for c in cases), encoding="utf-8")
    assert list(load_cases(path)) == cases
    (case,) = load_cases(
        write(tmp_path / "d.jsonl", {"id": "x", "court": "云州铁路运输法院", "facts": "略", "result": RESULT})
    )
    assert (case.psi, case.court_level) == (360.0, CourtLevel.PRIMARY)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({**LECARD, "pid": None}, "line 2: field 'pid'"),
        ({**LECARD, "fact": "", "qw": ""}, "line 2: field 'fact'"),
        ({**LECARD, "fact": 7}, "line 2: field 'fact'"),
        ({**LECARD, "charge": [1]}, "line 2: field 'charge'"),
        ({**LECARD, "article": [0]}, "line 2: field 'article'"),
        ({**LECARD, "pid": "first"}, "line 2: field 'id': 'first' stands in .*, line 1"),
        ({**JUDGMENT, "facts": " "}, "line 2: field 'facts'"),
        ({"id": "x", "court": "", "facts": "略", "psi": "much"}, "line 2: field 'psi'"),
        ({"id": "x", "court": "", "facts": "略", "colour": 1}, "line 2: field 'colour'"),
        ({"id": "x", "court": "", "facts": ""}, "line 2: field 'facts'"),
        ({"id": "", "court": "", "facts": "略"}, "line 2: field 'id'"),
        ([1], "line 2: expected an object"),
    ],
)
def test_bad_records_are_named(tmp_path: Path, record: Any, message: str) -> None:
    path = write(tmp_path / "bad.jsonl", {**LECARD, "pid": "first"}, record)
    with pytest.raises(CorpusError, match=rf"bad\.jsonl.*{message}") as caught:
        list(load_cases(path))
    assert "\n" not in str(caught.value)


def test_unreadable_places(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file"):
        list(load_cases(tmp_path / "missing.jsonl"))
    with pytest.raises(CorpusError, match=r"holds no \.json"):
        list(load_cases(tmp_path))
    (tmp_path / "empty.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="holds no case"):
        list(load_cases(tmp_path / "empty.jsonl"))
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(CorpusError, match="not UTF-8"):
        list(load_cases(tmp_path / "latin.json"))
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(CorpusError, match="expected an object"):
        list(load_cases(tmp_path / "list.json"))
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(CorpusError, match="line 1: not JSON"):
        list(load_cases(tmp_path / "broken.json"))


@pytest.mark.skipif(not DATA.is_dir(), reason="data folder (LEGAL_RL_DATA) is absent")
def test_real_judgments() -> None:
    cases = list(load_cases(DATA / "judgments.jsonl.gz"))
    assert all(isinstance(case, Case) for case in cases)
    assert all((case.psi is not None) == bool(case.result) for case in cases)
