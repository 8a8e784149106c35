"""Download of public sources with a checksum and a licence notice; works offline from a file that is already here."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from legal_rl.data.readers.lines import DataError

TIMEOUT_S = 30.0
ATTEMPTS = 3
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PublicSource:
    """One entry of `registry.yaml`."""

    name: str
    url: str
    file: str
    home: str
    licence: str
    sha256: str = ""


@cache
def registry() -> dict[str, PublicSource]:
    """Name -> source."""
    text = resources.files("legal_rl.data.readers").joinpath("registry.yaml").read_text(encoding="utf-8")
    return {name: PublicSource(name, **entry) for name, entry in yaml.safe_load(text).items()}


def fetch(
    name: str,
    folder: Path,
    given: Path | None = None,
    sha256: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
    sources: dict[str, PublicSource] | None = None,
) -> tuple[Path, str]:
    """Put one source into a folder and check it.

    Args:
        given: a file that is already on this machine: nothing is downloaded.
        sha256: expected checksum; else the registry's, else the one noted at the first download.

    Returns:
        (path, its SHA-256). The checksum is noted in `<file>.sha256`.

    Raises:
        DataError: unknown name, no network, no public link, or another checksum; nothing half-written stays.
    """
    known = sources or registry()
    source = known.get(name)
    if source is None:
        raise DataError(f"unknown source {name!r}; known: {', '.join(known)}")
    folder.mkdir(parents=True, exist_ok=True)
    target, note = folder / source.file, folder / f"{source.file}.sha256"
    expected = sha256 or source.sha256 or (note.read_text(encoding="utf-8").split()[0] if note.exists() else "")
    temporary = target.with_name(f"{target.name}.tmp{os.getpid()}")
    try:
        _copy(given, temporary) if given else _download(source, temporary, progress)
        digest = _sha256(temporary)
        if expected and digest != expected:
            raise DataError(f"{name}: SHA-256 is {digest}, expected {expected}; the file changed or is damaged")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    note.write_text(f"{digest}  {source.file}\n", encoding="utf-8")
    return target, digest


def _copy(given: Path, target: Path) -> None:
    if not given.is_file():
        raise DataError(f"{given}: no such file")
    shutil.copyfile(given, target)


def _download(source: PublicSource, target: Path, progress: Callable[[int, int], None]) -> None:
    import httpx
    import tenacity

    if not source.url:
        raise DataError(f"{source.name}: has no public link; ask for it at {source.home} and pass the file with --from")

    def attempt() -> None:
        with httpx.stream("GET", source.url, timeout=TIMEOUT_S, follow_redirects=True) as answer:
            answer.raise_for_status()
            total, done = int(answer.headers.get("content-length", 0)), 0
            with target.open("wb") as out:
                for chunk in answer.iter_bytes(_CHUNK):
                    out.write(chunk)
                    done += len(chunk)
                    progress(done, total)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=5),
        reraise=True,
    )
    try:
        retrying(attempt)
    except httpx.HTTPStatusError as error:
        raise DataError(
            f"{source.name}: {source.url} answered {error.response.status_code}; see {source.home}"
        ) from None
    except httpx.HTTPError as error:
        raise DataError(
            f"{source.name}: no network or {source.url} cannot be reached ({type(error).__name__}); "
            "download it elsewhere and pass the file with --from"
        ) from None


def _may_pass(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code == 429
    return isinstance(error, httpx.TransportError)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
