"""What a run reads from outside its folder: corpus files, the index, the policy's model."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from legal_rl.errors import ModelError


def source_states(specs: list[str]) -> list[list[Any]]:
    """Size and time of every file behind the specs, so that a changed input makes its stage run again.

    Files and folders by path; anything else by its name and, where it is an installed package, by its version.
    """
    return [state for spec in specs for state in _states(spec)]


def _states(spec: str) -> list[list[Any]]:
    path = Path(spec).expanduser()
    if not path.exists():
        return [[spec, _version(spec)]]
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    return [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""


def index_is_whole(folder: Path) -> bool:
    """Whether an index lies there and every file has the hash of its manifest."""
    from retrieval_server.errors import IndexStateError
    from retrieval_server.manifest import read_manifest, verify_files

    try:
        verify_files(folder, read_manifest(folder))
    except IndexStateError:
        return False
    return True


def fetch_model(name: str) -> Path:
    """The local folder of a hub model, downloaded once; a cached one needs no network.

    Raises:
        ModelError: the hub has no such model, or it cannot be reached.
    """
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(name, "config.json")
        return Path(snapshot_download(name, local_files_only=isinstance(cached, str)))
    except (OSError, ValueError) as error:  # httpx's and the hub's own errors among them
        reason = str(error).strip().splitlines()
        raise ModelError(
            f"model {name!r}: no such folder, and the model hub did not give it ({reason[0] if reason else error!r})"
        ) from None
