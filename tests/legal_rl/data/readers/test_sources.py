"""The public formats, each from a hand-written record."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from legal_rl.data.readers.fetch import PublicSource, fetch, registry
from legal_rl.data.readers.lines import DataError
from legal_rl.data.readers.sources import FORMATS, SourceText, read_sources, source_from_dict

TERM = {"death_penalty": False, "imprisonment": 8, "life_imprisonment": False}
META = {"criminals": ["甲"], "accusation": ["盗窃"], "relevant_articles": [264], "punish_of_money": 2000}
CAIL = {"fact": "某县人民检察院指控……", "meta": {**META, "term_of_imprisonment": TERM}}
OPTIONS = {"A": "甲", "B": "乙"}
JEC = {"id": "1_5", "statement": "下列说法正确的是：", "option_list": OPTIONS, "answer": ["B"], "subject": "民法"}
LECARD = {"pid": 7, "qw": "某院判决书", "fact": "甲盗窃", "result": "判处拘役", "charge": ["盗窃罪"], "article": [264]}
NORM = {"id": "law/刑法@x#1", "kind": "law", "law_title": "中华人民共和国刑法", "text": "为了惩罚犯罪"}
JUDGMENT = {
    "id": "j-1",
    "charge": ["盗窃罪"],
    "facts": "甲盗窃",
    "reason": "本院认为",
    "result": "拘役",
    "articles": [264],
}
RECORDS = {
    "cail2018": CAIL,
    "jec-qa": JEC,
    "crimekgassitant": {"_id": 1, "question": "离婚怎么办？", "answers": ["协商。", "起诉。"], "category": "婚姻"},
    "lecardv2": LECARD,
    "lecardv2-queries": {"id": 3, "query": "全文", "fact": "甲伤人"},
    "norms": {**NORM, "article_label": "第一条"},
    "judgments": JUDGMENT,
    "disc-law-sft": {"id": "d-1", "input": "何谓要约？", "output": "意思表示。", "reference": ["民法典第四百七十二条"]},
    "sources": {"id": "s-1", "kind": "text", "text": "材料", "metadata": {"a": 1}},
}


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    return path


def test_every_format_has_a_record_here() -> None:
    assert set(RECORDS) == set(FORMATS)


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_formats_are_told_by_their_fields_and_read(tmp_path: Path, name: str) -> None:
    (told,) = read_sources(write(tmp_path / "f.jsonl", RECORDS[name]))
    (named,) = read_sources(tmp_path / "f.jsonl", name)
    assert told == named and told.text and told.licence
    assert source_from_dict(json.loads(json.dumps(told.to_dict()))) == told


def test_cail_by_hand(tmp_path: Path) -> None:
    (source,) = read_sources(write(tmp_path / "data_train.json", CAIL))
    assert source == SourceText(
        "cail2018:data_train:1", "fact", "某县人民检察院指控……",
        metadata={"charges": ["盗窃"], "articles": ["第二百六十四条"], "term_months": 8, "fine": 2000},
        source="cail2018", licence=FORMATS["cail2018"].licence,
    )  # fmt: skip


def test_examination_questions_by_hand(tmp_path: Path) -> None:
    (source,) = read_sources(write(tmp_path / "train.json", JEC))
    assert (source.kind, source.answer, source.choices) == ("choice", "B", ("甲", "乙"))
    assert source.text == "下列说法正确的是：\nA. 甲\nB. 乙"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({**CAIL, "meta": []}, "line 1: field 'meta' is list, not an object"),
        ({**CAIL, "fact": ""}, "line 1: field 'fact' is empty"),
        ({**JEC, "answer": ["D"]}, "line 1: field 'answer' names 'D'"),
        ({"question": "甲", "answers": []}, "line 1: field 'answers' is empty"),
        ({"question": "甲", "answers": "乙"}, "line 1: field 'answers' is str, not a list"),
    ],
)
def test_a_record_that_breaks_its_schema(tmp_path: Path, record: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_sources(write(tmp_path / "f.jsonl", record)))


def test_arrays_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([JEC, JEC]), encoding="utf-8")
    assert len(list(read_sources(tmp_path / "a.json"))) == 2
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "b.txt").write_text("第二份", encoding="utf-8")
    (folder / "a.md").write_text("第一份", encoding="utf-8")
    assert [(s.id, s.text) for s in read_sources(folder)] == [("text:a", "第一份"), ("text:b", "第二份")]
    (folder / "c.txt").write_bytes("盗窃".encode("gbk"))
    with pytest.raises(DataError, match=r"c\.txt: not UTF-8"):
        list(read_sources(folder))
    with pytest.raises(DataError, match="unknown format 'x'"):
        list(read_sources(tmp_path / "a.json", "x"))


def test_fetch_from_a_file_notes_and_checks_the_sum(tmp_path: Path) -> None:
    given = write(tmp_path / "mine.json", JEC)
    path, digest = fetch("jec-qa", tmp_path / "data", given)
    assert path.read_bytes() == given.read_bytes() and digest == hashlib.sha256(given.read_bytes()).hexdigest()
    write(given, {**JEC, "id": "other"})
    with pytest.raises(DataError, match=f"expected {digest}"):
        fetch("jec-qa", tmp_path / "data", given)
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["train.json", "train.json.sha256"]


def test_fetch_without_a_network_says_so(tmp_path: Path) -> None:
    nowhere = {"x": PublicSource("x", "http://127.0.0.1:9/x", "x.json", "home", "MIT")}
    with pytest.raises(DataError, match=r"no network or http://127\.0\.0\.1:9/x cannot be reached.*--from"):
        fetch("x", tmp_path, sources=nowhere)
    with pytest.raises(DataError, match="ask for it at"):
        fetch("jec-qa", tmp_path)
    with pytest.raises(DataError, match="unknown source 'y'; known: cail2018"):
        fetch("y", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert all(source.licence and source.home for source in registry().values())
