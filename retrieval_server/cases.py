"""K_case: reads criminal judgments from the embedded generator, LeCaRDv2, judgment files or plain `Case` records.

What the source lacks is computed here, at build time: court level from the court's name, Punishment Severity Index from
the result (paper, section 4.1). A spec is `generated`, `generated:seed=1,count=300`, a file (`.json`, `.jsonl`,
`.jsonl.gz`) or a folder of such files; the format of each record is told by its fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from retrieval_server.corpus.json_lines import iter_json_lines
from retrieval_server.courts import court_in_text, court_level
from retrieval_server.errors import CorpusError
from retrieval_server.generated_cases import DEFAULT_COUNT, iter_generated_cases
from retrieval_server.numerals import article_label
from retrieval_server.severity import case_severity
from retrieval_server.types import Case, CourtLevel

_SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_GENERATED = re.compile(r"generated(?::(?P<options>.*))?")
_RESULT = re.compile(
    r"(?:判决|裁定)如下[:：]?(?P<result>.*?)(?:如不服本(?:判决|裁定)|本判决为终审|审\s*判\s*长|$)", re.S
)

Where = tuple[Path, int]
"""File and line number from 1 (position in the list for a JSON array)."""


def load_cases(spec: str | Path) -> Iterator[Case]:
    """Yield the cases of a spec, ids unique.

    Raises:
        CorpusError: the spec names nothing readable, or a record cannot be used; names file, line and field.
    """
    match = _GENERATED.fullmatch(str(spec))
    if match:
        yield from iter_generated_cases(**_generator_options(match["options"] or ""))
        return
    seen: dict[str, Where] = {}
    for where, record in _records(Path(spec)):
        case = _case(where, record)
        if case.id in seen:
            first = seen[case.id]
            raise CorpusError(f"{_at(where)}: field 'id': {case.id!r} stands in {first[0]}, line {first[1]}, already")
        seen[case.id] = where
        yield case
    if not seen:
        raise CorpusError(f"{spec}: holds no case")


def _generator_options(text: str) -> dict[str, int]:
    options = {"seed": 0, "count": DEFAULT_COUNT}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in options or not value.isdecimal():
            raise CorpusError(f"generated:{text}: {part!r} is not seed=N or count=N")
        options[name] = int(value)
    return options


def _records(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Records of a file, or of every readable file of a folder in the order of their names."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.name.endswith(_SUFFIXES))
        if not files:
            raise CorpusError(f"{path}: the folder holds no .json or .jsonl file")
        for file in files:
            yield from _records(file)
    elif not path.is_file():
        raise CorpusError(f"{path}: no such file or folder (cases: `generated`, a file or a folder)")
    elif path.suffix == ".json":
        yield from _json_records(path)
    else:
        for number, record in iter_json_lines(path):
            yield (path, number), record


def _json_records(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """One object or a list of objects; a `.json` that is really JSON Lines is read as such."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: not UTF-8: {error.reason}") from error
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from error
    except json.JSONDecodeError:
        for number, record in iter_json_lines(path):
            yield (path, number), record
        return
    for number, record in enumerate(data if isinstance(data, list) else [data], start=1):
        if not isinstance(record, dict):
            raise CorpusError(f"{path}, line {number}: expected an object, found {type(record).__name__}")
        yield (path, number), record


def _case(where: Where, record: dict[str, Any]) -> Case:
    if "pid" in record or "qw" in record:
        return _from_lecard(where, record)
    if "charge" in record or "has_result" in record:
        return _from_judgment(where, record)
    return _from_plain(where, record)


def _from_lecard(where: Where, record: dict[str, Any]) -> Case:
    """A LeCaRDv2 candidate: pid, qw (whole text), fact, reason, result, charge, article."""
    whole = _text(where, record, "qw", required=False)
    facts = _text(where, record, "fact", required=False) or whole
    if not facts:
        raise CorpusError(f"{_at(where)}: field 'fact' is missing or empty, and so is 'qw'")
    result = _text(where, record, "result", required=False)
    if not result and (found := _RESULT.search(whole)):
        result = found["result"].strip()
    court = _text(where, record, "court", required=False) or court_in_text(whole)
    return _annotated(
        id=_identifier(where, record, "pid"),
        court=court,
        charges=_texts(where, record, "charge"),
        articles=_articles(where, record, "article"),
        facts=facts,
        reason=_text(where, record, "reason", required=False),
        result=result,
        source="LeCaRDv2",
    )


def _from_judgment(where: Where, record: dict[str, Any]) -> Case:
    """A record of the judgments file: facts, reason, result as written, charge, articles as numbers."""
    return _annotated(
        id=_identifier(where, record, "id"),
        court=_text(where, record, "court", required=False),
        level=_text(where, record, "court_level", required=False),
        charges=_texts(where, record, "charge"),
        articles=_articles(where, record, "articles"),
        facts=_text(where, record, "facts"),
        reason=_text(where, record, "reason", required=False),
        result=_text(where, record, "result", required=False),
        source=_text(where, record, "source", required=False),
    )


def _from_plain(where: Where, record: dict[str, Any]) -> Case:
    """A record with the fields of `Case`; `court_level`, `psi` and `psi_note` may be left out and are computed."""
    level = record.get("court_level") or court_level(str(record.get("court") or ""))
    try:
        case = Case.model_validate({**record, "court_level": level})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CorpusError(f"{_at(where)}: field {field!r}: {first['msg']}") from error
    if not case.id or not case.facts.strip():
        raise CorpusError(f"{_at(where)}: field {'id' if not case.id else 'facts'!r} is empty")
    if case.psi is None and not case.psi_note:
        case = case.model_copy(update=_severity(case.result))
    return case


def _annotated(*, court: str, result: str, level: str = "", **fields: Any) -> Case:
    """A `Case` with court level and PSI computed; a level the source states stands where the name tells none."""
    computed = court_level(court)
    if computed is CourtLevel.UNKNOWN and level in set(CourtLevel):
        computed = CourtLevel(level)
    return Case(court=court, court_level=computed, result=result, **_severity(result), **fields)


def _severity(result: str) -> dict[str, Any]:
    if not result.strip():
        return {"psi": None, "psi_note": "no result in the source"}
    severity = case_severity(result)
    return {"psi": severity.psi, "psi_note": severity.note}


def _text(where: Where, record: dict[str, Any], name: str, required: bool = True) -> str:
    value = record.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value.strip()):
        raise CorpusError(f"{_at(where)}: field {name!r} is missing, empty or not a text")
    return value


def _identifier(where: Where, record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None and name == "pid":
        value = record.get("id")
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise CorpusError(f"{_at(where)}: field {name!r} is missing, empty or not an identifier")
    return str(value)


def _texts(where: Where, record: dict[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts, or one text with 、 , ; between its parts."""
    value = record.get(name)
    if value is None:
        return ()
    parts = re.split(r"[,，;；\s]+|(?<=罪)、", value) if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise CorpusError(f"{_at(where)}: field {name!r} must be a text or a list of texts")
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _articles(where: Where, record: dict[str, Any], name: str) -> tuple[str, ...]:
    """Article numbers (264, "264", "133-1") as labels; labels stay."""
    value = record.get(name)
    values = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(_label(where, name, item) for item in values))


def _label(where: Where, name: str, item: object) -> str:
    if isinstance(item, str) and (match := re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,2}))?\s*", item)):
        return article_label(int(match[1]), int(match[2] or 0))
    if isinstance(item, str) and item.strip():
        return item.strip()
    if isinstance(item, int) and not isinstance(item, bool) and item > 0:
        return article_label(item)
    raise CorpusError(f"{_at(where)}: field {name!r} holds {item!r}, which is no article")


def _at(where: Where) -> str:
    return f"{where[0]}, line {where[1]}"
