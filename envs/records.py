"""Rollouts and questions as JSON Lines: one self-contained object a line, safe to append to and to read meanwhile.

with RolloutWriter(path) as writer:
    writer.write(rollout)
for rollout in read_rollouts(path): ...
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from envs.errors import RecordError
from envs.types import (
    Completion,
    Malformed,
    Precedent,
    Question,
    Rollout,
    Statute,
    Stop,
    StopReason,
    TokenRecord,
    Turn,
)
from retrieval_server.types import SearchResult

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; readers refuse files of a later version."""

_ACTIONS = {"statute": Statute, "precedent": Precedent, "stop": Stop, "malformed": Malformed}
T = TypeVar("T")


def rollout_to_dict(rollout: Rollout) -> dict[str, Any]:
    """A rollout as plain JSON values, with the schema version first."""
    data = _plain(rollout)
    return {"schema_version": SCHEMA_VERSION, **data}


def rollout_from_dict(data: dict[str, Any]) -> Rollout:
    """The inverse of `rollout_to_dict`.

    Raises:
        RecordError: a field is missing, unknown or of the wrong type; the text names it.
    """
    data = _versioned(data)
    _check_keys(Rollout, data, "")
    turns = data.get("turns")
    if not isinstance(turns, list):
        raise RecordError("field 'turns': must be a list")
    tokens = data.get("tokens")
    plain = {name: data[name] for name in ("answer", "messages", "error", "elapsed_s") if name in data}
    if "messages" in plain:
        plain["messages"] = tuple(plain["messages"])
    return Rollout(
        question=question_from_dict(_need(data, "question"), "question."),
        turns=tuple(_turn(turn, f"turns[{i}].") for i, turn in enumerate(turns)),
        stop_reason=_validate(StopReason, _need(data, "stop_reason"), "stop_reason"),
        tokens=None if tokens is None else _validate(TokenRecord, tokens, "tokens"),
        **plain,
    )


def question_to_dict(question: Question) -> dict[str, Any]:
    """A question with its reference as plain JSON values."""
    return {"schema_version": SCHEMA_VERSION, **_plain(question)}


def question_from_dict(data: Any, path: str = "") -> Question:
    """The inverse of `question_to_dict`; raises `RecordError` naming the field."""
    data = _versioned(data)
    _check_keys(Question, data, path)
    return _validate(Question, data, path.rstrip("."))


def write_rollouts(path: Path, rollouts: Iterable[Rollout]) -> int:
    """Write a whole file at once: under a temporary name, then renamed. Returns the number of rollouts."""
    return _write_atomically(path, (rollout_to_dict(rollout) for rollout in rollouts))


def write_questions(path: Path, questions: Iterable[Question]) -> int:
    """Write a whole question file at once; returns the number of questions."""
    return _write_atomically(path, (question_to_dict(question) for question in questions))


def read_rollouts(path: Path, *, allow_torn_end: bool = False) -> Iterator[Rollout]:
    """Read rollouts one by one.

    Args:
        path: a JSON Lines file.
        allow_torn_end: skip a last line without its newline, as a killed writer leaves it.

    Raises:
        RecordError: the file cannot be opened, or a line cannot be read; the text names file, line and field.
    """
    yield from _read(path, rollout_from_dict, allow_torn_end)


def read_questions(path: Path) -> Iterator[Question]:
    """Read questions one by one; raises `RecordError` naming file, line and field."""
    yield from _read(path, question_from_dict, False)


class RolloutWriter:
    """Appends rollouts to a JSON Lines file, each line flushed, so that a killed run loses at most the line in work.

    Opening a file whose last line is torn (a killed writer) first cuts that line off, so that the file stays readable.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_end(path)
        self._file = path.open("a", encoding="utf-8")

    def write(self, rollout: Rollout) -> None:
        """Append one rollout and flush."""
        self._file.write(_line(rollout_to_dict(rollout)))
        self._file.flush()

    def close(self) -> None:
        """Close the file; further writes are errors."""
        self._file.close()

    def __enter__(self) -> RolloutWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(value: Any) -> Any:
    """Nested dataclasses, pydantic records and tuples as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, SearchResult):
        return value.model_dump(mode="json")
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, dict) else value


def _turn(data: Any, path: str) -> Turn:
    _check_keys(Turn, data, path)
    action = _need(data, "action", path)
    kind = action.get("kind") if isinstance(action, dict) else None
    if kind not in _ACTIONS:
        raise RecordError(f"field '{path}action.kind': {kind!r} is not one of {sorted(_ACTIONS)}")
    result = data.get("result")
    rest = {key: value for key, value in data.items() if key not in ("completion", "action", "result")}
    return Turn(
        completion=_validate(Completion, _need(data, "completion", path), f"{path}completion"),
        action=_validate(_ACTIONS[kind], action, f"{path}action"),
        result=None if result is None else _validate(SearchResult, result, f"{path}result"),
        **rest,
    )


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _validate(kind: type[T], data: Any, path: str) -> T:
    try:
        return _adapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join([path, *map(str, first["loc"])]).strip(".")
        raise RecordError(f"field '{where}': {first['msg']}") from error


def _check_keys(kind: type, data: Any, path: str) -> None:
    if not isinstance(data, dict):
        raise RecordError(f"field '{path.rstrip('.') or 'record'}': must be a JSON object")
    unknown = set(data) - {f.name for f in dataclasses.fields(kind)}
    if unknown:
        raise RecordError(f"field '{path}{min(unknown)}': unknown")


def _need(data: dict[str, Any], name: str, path: str = "") -> Any:
    if name not in data:
        raise RecordError(f"field '{path}{name}': missing")
    return data[name]


def _versioned(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise RecordError("field 'record': must be a JSON object")
    version = data.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise RecordError(f"field 'schema_version': {version!r} cannot be read, this program reads {SCHEMA_VERSION}")
    return {key: value for key, value in data.items() if key != "schema_version"}


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _write_atomically(path: Path, records: Iterable[dict[str, Any]]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    count = 0
    try:
        with temporary.open("w", encoding="utf-8") as file:
            for record in records:
                file.write(_line(record))
                count += 1
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _read(path: Path, decode: Callable[[dict[str, Any]], T], allow_torn_end: bool) -> Iterator[T]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise RecordError(f"{path}: cannot be opened ({error.strerror})") from error
    with file:
        for number, line in enumerate(file, start=1):
            if not line.strip() or (allow_torn_end and not line.endswith(b"\n")):
                continue
            try:
                yield decode(json.loads(line.decode("utf-8")))
            except UnicodeDecodeError as error:
                raise RecordError(f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line)") from error
            except json.JSONDecodeError as error:
                raise RecordError(f"{path}:{number}: no JSON object ({error.msg} at column {error.colno})") from error
            except RecordError as error:
                raise RecordError(f"{path}:{number}: {error}") from error


def _drop_torn_end(path: Path) -> None:
    """Cut a last line without newline off: it was being written when its writer was killed."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        if content and not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)
