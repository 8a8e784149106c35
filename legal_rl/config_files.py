"""Settings from YAML: files that extend each other, `a.b=c` overrides on top, every mistake one line with file and key.

raw = read_layers(path, find); apply_override(raw, "limits.max_turns=4")
settings = validated(ServeConfig, raw, path)
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from legal_rl.errors import ConfigError

M = TypeVar("M", bound=BaseModel)


def find_named(name: str, folder: Path) -> Path:
    """A config by path, or by name in `folder`.

    Raises:
        ConfigError: no such file; the text lists the names there are.
    """
    direct = Path(name)
    candidates = [direct] if direct.suffix in {".yaml", ".yml"} else [folder / f"{name}.yaml", direct]
    found = next((c for c in candidates if c.is_file()), None)
    if found is None:
        names = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise ConfigError(f"no config {name!r}; give a .yaml file or one of: {names}")
    return found


def read_layers(path: Path, find: Callable[[str], Path], seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """One YAML file with what it `extends` underneath it."""
    if path in seen:
        raise ConfigError(f"{path}: extends itself through {' -> '.join(p.name for p in seen)}")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}:{where} not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must be a mapping of sections, is {type(raw).__name__}")
    parent = raw.pop("extends", None)
    if parent is None:
        return raw
    return merged(read_layers(find(str(parent)), find, (*seen, path)), raw)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` wins; mappings are merged key by key, everything else is replaced."""
    both = dict(below)
    for key, value in above.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return both


def apply_override(raw: dict[str, Any], override: str) -> None:
    """Set `section.key=value` in place; the value is read as YAML."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"override {override!r}: write section.key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"override {override!r}: the value is not valid YAML") from None
    *parents, leaf = key.strip().split(".")
    node = raw
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            raise ConfigError(f"override {override!r}: {parent} is a value, not a section")
    node[leaf] = value


def validated(model: type[M], raw: Mapping[str, Any], path: Path) -> M:
    """The settings; the first problem as one line, further ones counted.

    Raises:
        ConfigError: unknown key, or a value of the wrong kind.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(_explain(error, path, model)) from None


def _explain(error: ValidationError, path: Path, model: type[BaseModel]) -> str:
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if not key or (
        problem["type"] == "value_error" and isinstance(problem["input"], dict)
    ):  # a rule between keys or sections
        return f"{path}: {key}{': ' if key else ''}{message}"
    if problem["type"] == "extra_forbidden":
        text = f"{path}: unknown key {key}{_suggestion(problem['loc'], model)}"
    else:
        text = f"{path}: {key}: {message} (got {problem['input']!r:.80})"
    more = error.error_count() - 1
    return f"{text} (and {more} more)" if more else text


def _suggestion(location: tuple[int | str, ...], root: type[BaseModel]) -> str:
    model: type[BaseModel] | None = root
    for part in location[:-1]:
        annotation = model.model_fields[str(part)].annotation if model and str(part) in model.model_fields else None
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    close = difflib.get_close_matches(str(location[-1]), list(model.model_fields) if model else [], n=1)
    return f"; did you mean {close[0]}?" if close else ""
