"""JSON Lines in and out. A line that cannot be used stops the reader with one line that says which and what to do.

for number, record in read_lines(Path("train.jsonl.gz")): ...
with LinesWriter(Path("kept.jsonl")) as out: out.write({"id": "a"})
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from retrieval_server.errors import LegalRLError

MAX_LINE_BYTES = 32 * 2**20
"""A longer line is no record but a file without line breaks: it is refused before it fills the memory."""
_BOMS = {b"\xef\xbb\xbf": "UTF-8", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


class DataError(LegalRLError):
    """A data file or record cannot be used; the text names file, line and field and says what to do."""


def read_lines(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) of a `.jsonl` or `.jsonl.gz` file; blank lines are skipped.

    Raises:
        DataError: the file is missing or truncated, or a line is no UTF-8, no JSON object or too long.
    """
    for number, line in raw_lines(path, max_line_bytes):
        if line.strip():
            yield number, parse_line(path, number, line)


def raw_lines(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yields (line number, bytes) without reading more than `max_line_bytes` of one line into memory."""
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opener(path, "rb") as file:
            while line := file.readline(max_line_bytes + 1):
                number += 1
                if len(line) > max_line_bytes:
                    raise DataError(
                        f"{path}, line {number}: longer than {max_line_bytes / 2**20:g} MiB; write one JSON object "
                        "a line (a JSON array in one line is turned by `jq -c '.[]'`)"
                    )
                yield number, line
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}, after line {number}: damaged gzip data ({error}); copy the file again") from error


def parse_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """One line as an object; raises `DataError` with a diagnosis."""
    where = f"{path}, line {number}"
    bom = next((name for mark, name in _BOMS.items() if line.startswith(mark)), None)
    if bom == "UTF-16":
        raise DataError(f"{where}: UTF-16 text; turn it into UTF-8 with `iconv -f UTF-16 -t UTF-8`")
    if bom and number == 1:
        raise DataError(
            f"{where}: starts with a byte order mark (BOM); remove it with `sed -i '1s/^\\xEF\\xBB\\xBF//'`"
        )
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: {_encoding_advice(line, error)}") from None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {_json_advice(text, error)}") from None
    if "\\ud" in text.lower() and _half_pair(text):
        raise DataError(f"{where}: half of a surrogate pair (\\ud83d) in a text; mend or remove the line")
    if not isinstance(record, dict):
        raise DataError(
            f"{where}: expected an object, found {type(record).__name__}; write one JSON object a line "
            "(a JSON array is turned by `jq -c '.[]'`)"
        )
    return record


def _half_pair(text: str) -> bool:
    """True for JSON whose texts have no UTF-8: no later stage could write them."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _encoding_advice(line: bytes, error: UnicodeDecodeError) -> str:
    try:
        line.decode("gb18030")
    except UnicodeDecodeError:
        return f"not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8"
    return (
        f"not UTF-8 but most likely GBK (byte {error.start + 1}); turn it into UTF-8 with `iconv -f GB18030 -t UTF-8`"
    )


def _json_advice(text: str, error: Exception) -> str:
    head = text.lstrip()[:1]
    if head not in "{[" and ("," in text or "\t" in text):
        return "no JSON but looks like CSV; turn it into JSON Lines, one object a line, with the column names as fields"
    if text.strip() in ("[", "{"):
        return "a JSON document over several lines; write one object a line with `jq -c`"
    column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
    reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
    return f"not JSON ({reason}{column}); mend or remove the line"


def need_text(path: Path, number: int, record: dict[str, Any], name: str) -> str:
    """A text field that must be there and not blank; raises `DataError` naming file, line and field."""
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        found = "missing" if name not in record else "empty" if value == "" else f"{type(value).__name__}, not a text"
        raise DataError(f"{path}, line {number}: field '{name}' is {found}; every record of this format needs it")
    return value


def dump(record: dict[str, Any]) -> str:
    """One record as a line with its newline: the same bytes for the same record."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


class LinesWriter:
    """Writes JSON Lines under a temporary name; the name appears when the `with` block ends without an error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
        opener = partial(gzip.open, compresslevel=6) if path.suffix == ".gz" else open
        self._file = opener(self._temporary, "wt", encoding="utf-8")
        self.count = 0

    def write(self, record: dict[str, Any]) -> None:
        """Append one record."""
        self._file.write(dump(record))
        self.count += 1

    def __enter__(self) -> LinesWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            os.replace(self._temporary, self.path)
        else:
            self._temporary.unlink(missing_ok=True)


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> int:
    """Write a whole file; returns the number of records."""
    with LinesWriter(path) as out:
        for record in records:
            out.write(record)
    return out.count
