"""Raw legal material in one form, whatever file it came from.

next(read_sources(Path("data_train.json")))
-> SourceText(id="cail2018:data_train:1", kind="fact", text="某县人民检察院指控，…", source="cail2018",
              metadata={"charges": ["故意伤害"], …}, licence="…")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from legal_rl.data.readers.lines import MAX_LINE_BYTES, DataError, need_text, parse_line, raw_lines
from retrieval_server.numerals import article_label

KINDS = ("fact", "judgment", "statute", "interpretation", "qa", "choice", "text")


@dataclass(frozen=True, slots=True)
class SourceText:
    """One piece of material x of D_raw (paper, appendix G.2)."""

    id: str
    kind: str
    """One of `KINDS`."""
    text: str
    question: str = ""
    """For material that is question and answer already."""
    answer: str = ""
    choices: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    """`charges`, `articles` (labels), `term_months`, `law`, `label`, `subject`, `court`, as far as the source tells."""
    source: str = ""
    licence: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values; the inverse is `source_from_dict`."""
        return {**asdict(self), "choices": list(self.choices)}


def source_from_dict(data: dict[str, Any]) -> SourceText:
    """The inverse of `SourceText.to_dict`."""
    return SourceText(**{**data, "choices": tuple(data.get("choices", ()))})


Reader = Callable[[Path, int, dict[str, Any]], SourceText]


@dataclass(frozen=True, slots=True)
class Format:
    """One public format: how it is told from its fields, and how one record is read."""

    name: str
    fields: tuple[str, ...]
    """Fields that every record has; together they tell the format."""
    read: Reader
    licence: str


def read_sources(path: Path, format_name: str = "", max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[SourceText]:
    """Stream one file, or a folder of `.txt` and `.md` files.

    Args:
        format_name: a key of `FORMATS`; empty = told from the first record.

    Raises:
        DataError: no such file, an unknown format, or a record without a field; names file, line and field.
    """
    if path.is_dir():
        yield from _read_folder(path)
        return
    if path.suffix in (".txt", ".md"):
        yield _read_text_file(path, path.parent)
        return
    form = FORMATS.get(format_name)
    if format_name and form is None:
        raise DataError(f"unknown format {format_name!r}; known: {', '.join(FORMATS)}")
    for number, record in numbered_records(path, max_line_bytes):
        form = form or detect(path, number, record)
        yield licensed(form, form.read(path, number, record))


def licensed(form: Format, source: SourceText) -> SourceText:
    """The source with its format's licence, where it has none of its own."""
    return source if source.licence else replace(source, licence=form.licence)


def numbered_records(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, record) of JSON Lines; a `.json` file that is one array is read as a whole and counted by its elements."""
    first = True
    for number, line in raw_lines(path, max_line_bytes):
        if first and line.strip():
            first = False
            if path.suffix == ".json" and line.lstrip()[:1] == b"[":
                yield from _array(path)
                return
        if line.strip():
            yield number, parse_line(path, number, line)


def _array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, record in enumerate(array_elements(path), start=1):
        if not isinstance(record, dict):
            raise DataError(f"{path}, element {number}: expected an object, found {type(record).__name__}")
        yield number, record


def array_elements(path: Path) -> list[Any]:
    """The elements of a `.json` file that is one array; raises `DataError` when it is none."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a JSON array in UTF-8 ({error}); mend it or write one object a line") from None
    return rows if isinstance(rows, list) else [rows]


def detect(path: Path, number: int, record: dict[str, Any]) -> Format:
    """The format whose fields the record has.

    Raises:
        DataError: none fits; the text lists the fields there are, and the formats.
    """
    found = next((form for form in FORMATS.values() if all(name in record for name in form.fields)), None)
    if found is None:
        known = "; ".join(f"{form.name} ({', '.join(form.fields)})" for form in FORMATS.values())
        raise DataError(
            f"{path}, line {number}: fields {', '.join(sorted(record)[:12]) or '(none)'} fit no known format; "
            f"known: {known}"
        )
    return found


def _id(name: str, path: Path, number: int, record: dict[str, Any], key: str = "id") -> str:
    value = record.get(key)
    own = str(value) if isinstance(value, str | int) and str(value) else str(number)
    return f"{name}:{path.name.split('.')[0]}:{own}"


def _cail(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    text, meta = need_text(path, number, record, "fact"), record["meta"]
    where = f"{path}, line {number}"
    if not isinstance(meta, dict):
        raise DataError(f"{where}: field 'meta' is {type(meta).__name__}, not an object; is this CAIL2018?")
    term = meta.get("term_of_imprisonment") or {}
    if not isinstance(term, dict):
        raise DataError(f"{where}: field 'meta.term_of_imprisonment' is {type(term).__name__}, not an object")
    months = -2 if term.get("death_penalty") else -1 if term.get("life_imprisonment") else term.get("imprisonment")
    metadata = {
        "charges": [str(c).strip("[]") for c in _list(where, meta, "accusation")],
        "articles": [article_label(int(a)) for a in _list(where, meta, "relevant_articles") if str(a).isdigit()],
        "term_months": months,
        "fine": meta.get("punish_of_money"),
    }
    return SourceText(_id("cail2018", path, number, record), "fact", text, metadata=metadata, source="cail2018")


def _list(where: str, record: dict[str, Any], name: str) -> list[Any]:
    value = record.get(name, [])
    if not isinstance(value, list):
        raise DataError(f"{where}: field '{name}' is {type(value).__name__}, not a list")
    return value


def _lecard(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    parts = [str(record[name]) for name in ("fact", "reason", "result") if record.get(name)]
    text = "\n".join(parts) or need_text(path, number, record, "qw")
    where = f"{path}, line {number}"
    metadata = {
        "charges": [str(c) for c in _list(where, record, "charge")],
        "articles": [article_label(int(a)) for a in _list(where, record, "article") if str(a).isdigit()],
        "court": str(record.get("court", "")),
    }
    key = "pid" if "pid" in record else "id"
    kind = "judgment" if record.get("result") else "fact"
    return SourceText(_id("lecardv2", path, number, record, key), kind, text, metadata=metadata, source="lecardv2")


def _lecard_query(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    text = need_text(path, number, record, "fact")
    return SourceText(_id("lecardv2", path, number, record), "fact", text, source="lecardv2")


def _disc(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    question, answer = need_text(path, number, record, "input"), need_text(path, number, record, "output")
    evidence = [str(item) for item in _list(f"{path}, line {number}", record, "reference")]
    key = _id("disc-law-sft", path, number, record)
    text = "\n".join([question, *evidence])
    return SourceText(key, "qa", text, question, answer, metadata={"reference": evidence}, source="disc-law-sft")


def _jec(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    statement, options = need_text(path, number, record, "statement"), record["option_list"]
    if not isinstance(options, dict) or not options:
        raise DataError(f"{path}, line {number}: field 'option_list' must map letters to options")
    answer = record.get("answer", "")
    letters = "".join(answer) if isinstance(answer, list) else str(answer)
    if not set(letters) <= set(options):
        raise DataError(f"{path}, line {number}: field 'answer' names {letters!r}, the options are {sorted(options)}")
    choices = tuple(str(options[letter]) for letter in sorted(options))
    text = "\n".join([statement, *(f"{letter}. {options[letter]}" for letter in sorted(options))])
    metadata = {"subject": str(record.get("subject", "")), "case_type": str(record.get("type", ""))}
    key = _id("jec-qa", path, number, record)
    return SourceText(key, "choice", text, statement, letters, choices, metadata, "jec-qa")


def _crime_kg(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    question = need_text(path, number, record, "question")
    answers = [str(a).strip() for a in _list(f"{path}, line {number}", record, "answers") if str(a).strip()]
    if not answers:
        raise DataError(f"{path}, line {number}: field 'answers' is empty; every record of this format needs one")
    subject = str(record.get("category", ""))
    key = f"crimekgassitant:{path.name.split('.')[0]}:{number}"
    text = "\n".join([question, *answers])
    return SourceText(key, "qa", text, question, answers[0], (), {"subject": subject}, "crimekgassitant")


def _norm(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    text, title = need_text(path, number, record, "text"), need_text(path, number, record, "law_title")
    kind = "interpretation" if record["kind"] == "interpretation" else "statute"
    metadata = {
        "law": record.get("law_key") or title.removeprefix("中华人民共和国"),
        "label": record.get("article_label") or "",
        "chapter": record.get("chapter") or "",
    }
    return SourceText(need_text(path, number, record, "id"), kind, text, metadata=metadata, source="norms")


def _judgment(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    facts = need_text(path, number, record, "facts")
    result = str(record.get("result") or "")
    text = "\n".join(part for part in (facts, str(record.get("reason") or ""), result) if part)
    charge = record.get("charge") or record.get("charges") or []
    articles = record.get("articles") or []
    metadata = {
        "facts": facts,
        "result": result,
        "charges": [charge] if isinstance(charge, str) else list(charge),
        "articles": [article_label(a) if isinstance(a, int) else str(a) for a in articles],
        "court": str(record.get("court") or ""),
    }
    key = need_text(path, number, record, "id")
    return SourceText(key, "judgment" if result else "fact", text, metadata=metadata, source="judgments")


def _source(path: Path, number: int, record: dict[str, Any]) -> SourceText:
    need_text(path, number, record, "id")
    if record["kind"] not in KINDS:
        raise DataError(f"{path}, line {number}: field 'kind' is {record['kind']!r}, not one of {', '.join(KINDS)}")
    names = set(SourceText.__dataclass_fields__)
    return source_from_dict({name: value for name, value in record.items() if name in names})


def _read_folder(folder: Path) -> Iterator[SourceText]:
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".txt", ".md") and p.is_file())
    if not files:
        raise DataError(f"{folder}: holds no .txt or .md file")
    for file in files:
        yield _read_text_file(file, folder)


def _read_text_file(file: Path, folder: Path) -> SourceText:
    try:
        text = file.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: not UTF-8 (byte {error.start + 1}); turn it with `iconv -f GB18030 -t UTF-8`"
        ) from None
    if not text:
        raise DataError(f"{file}: empty; remove it from the folder")
    name = file.relative_to(folder).with_suffix("").as_posix()
    return SourceText(f"text:{name}", "text", text, metadata={"title": file.stem}, source=folder.name)


_PUBLIC = "texts of laws are outside copyright (PRC Copyright Law, art. 5)"
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("cail2018", ("fact", "meta"), _cail, "no licence file; research use, cite Xiao et al. (2018)"),
        Format("jec-qa", ("statement", "option_list"), _jec, "research use on request, cite Zhong et al. (2020)"),
        Format("crimekgassitant", ("question", "answers"), _crime_kg, "see the repository; research use"),
        Format("lecardv2", ("qw",), _lecard, "MIT"),
        Format("lecardv2-queries", ("query", "fact"), _lecard_query, "MIT"),
        Format("norms", ("law_title", "kind"), _norm, _PUBLIC),
        Format("judgments", ("facts",), _judgment, "as the source of the judgments says"),
        Format("disc-law-sft", ("input", "output"), _disc, "Apache-2.0"),
        Format("sources", ("kind", "text", "metadata"), _source, "as each record says"),
    )
}
"""Formats in the order in which they are tried."""
