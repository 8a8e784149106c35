"""The index folder's manifest: what it was built from and with, and a hash of every file in it."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from retrieval_server.errors import IndexStateError

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"


class FileRecord(BaseModel):
    """Size in bytes and SHA-256 of one file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: int
    sha256: str


class Recipe(BaseModel):
    """All that decides the index's content: equal recipes give equal answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format_version: int = FORMAT_VERSION
    articles_sha256: str
    cases_sha256: str
    segmenter: str
    segmenter_version: str
    bm25_version: str
    encoder: str = "none"
    encoder_version: str = ""
    dense: str = "flat"
    """Kind of the vector index, see `vectors`."""
    ranking_version: str = ""
    """Of the learned ranking's stored parts (`ranking.store`); empty where an older program wrote none."""

    @property
    def digest(self) -> str:
        """Twelve hex digits that name this recipe; the `index_version` of answers."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


class Manifest(BaseModel):
    """Content of `manifest.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    recipe: Recipe
    corpora: tuple[str, ...]
    """The specs as given, for the reader; content counts by its hash, not by its place."""
    case_specs: tuple[str, ...] = ()
    """Likewise; empty where the cases were given as objects."""
    articles: int
    laws: int
    cases: int
    dim: int = 0
    created: str = ""
    build_seconds: float = 0.0
    files: dict[str, FileRecord] = {}


def rebuild(folder: Path, manifest: Manifest | None = None) -> str:
    """The command that mends an index folder, for the end of an error text; with its manifest, from the same inputs."""
    words = ["legal-rl", "index", "build", str(folder)]
    if manifest is not None:
        for option, specs in (("--corpus", manifest.corpora), ("--cases", manifest.case_specs)):
            words += [word for spec in specs for word in (option, spec)]
        words += ["--encoder", manifest.recipe.encoder]
        words += ["--dense", manifest.recipe.dense] if manifest.recipe.dense != "flat" else []
    return f"run `{shlex.join(words)}`"


def lines_hash(lines: Iterable[str]) -> str:
    """SHA-256 over lines: the hash of a collection."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def file_record(path: Path) -> FileRecord:
    """Size and hash of one file."""
    with path.open("rb") as stream:
        return FileRecord(size=path.stat().st_size, sha256=hashlib.file_digest(stream, "sha256").hexdigest())


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Records every file of `folder` and writes `manifest.json`, last of all."""
    files = {
        str(path.relative_to(folder)): file_record(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME
    }
    stamped = manifest.model_copy(update={"files": files, "created": datetime.now(UTC).isoformat(timespec="seconds")})
    (folder / MANIFEST_NAME).write_text(stamped.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return stamped


def replace_file(folder: Path, manifest: Manifest, name: str, write: Callable[[], None]) -> Manifest:
    """Write one file of a finished index anew and record its hash; two renames in a row."""
    write()
    changed = manifest.model_copy(update={"files": {**manifest.files, name: file_record(folder / name)}})
    temporary = folder / f"{MANIFEST_NAME}.tmp"
    temporary.write_text(changed.model_dump_json(indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / MANIFEST_NAME)
    return changed


def read_manifest(folder: Path) -> Manifest:
    """Reads `manifest.json`.

    Raises:
        IndexStateError: no index there, an unreadable manifest, or another format version.
    """
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise IndexStateError(f"{folder}: no index here ({MANIFEST_NAME} is missing); {rebuild(folder)}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content.get("recipe", {}).get("format_version") if isinstance(content, dict) else None
        if found != FORMAT_VERSION:
            raise IndexStateError(
                f"{folder}: index format {found}, this program reads {FORMAT_VERSION}; {rebuild(folder)}"
            )
        return Manifest.model_validate(content)
    except (OSError, ValueError, AttributeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise IndexStateError(f"{path}: damaged ({reason}); {rebuild(folder)}") from error


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Compares every file with the manifest.

    Raises:
        IndexStateError: names the first file that is missing or changed.
    """
    for name, record in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise IndexStateError(f"{folder}: index is damaged, {name} is missing; {rebuild(folder, manifest)}")
        if file_record(path) != record:
            raise IndexStateError(f"{folder}: index is damaged, {name} was changed; {rebuild(folder, manifest)}")
