"""Embedding a corpus in chunks: in this process or on a Ray cluster, with the same bytes, resumable.

Texts are sorted by length and cut into chunks; each chunk's vectors are a file until all are there. A killed run goes
on with the missing ones, and since both ways encode the same chunks, they give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_server.dense import BATCH_SIZE, Encoder, make_encoder
from retrieval_server.errors import RetrievalError

CHUNK = 8 * BATCH_SIZE
_ERROR_LINE = re.compile(r"(?!ray\.)[\w.]+(?:Error|Exception): ")


def embed(
    encoder: Encoder,
    texts: Sequence[str],
    folder: Path | None = None,
    *,
    ray: bool = False,
    advance: Callable[[int], None] | None = None,
    chunk: int = CHUNK,
) -> np.ndarray:
    """float32 vectors of all texts, in their order.

    Args:
        folder: chunks are kept there until the caller removes it; None = only in memory.
        ray: encode on the Ray cluster that is connected, else on a local one; needs `folder`.
        advance: told the number of texts just finished.

    Raises:
        RetrievalError: a worker failed; finished chunks stay in `folder`.
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    chunks = [order[start : start + chunk] for start in range(0, len(order), chunk)]
    names = [chunk_name(encoder, [texts[i] for i in rows]) for rows in chunks]
    if folder is not None and ray:
        _on_ray(encoder, texts, chunks, names, folder, advance)
    vectors = np.empty((len(texts), encoder.dim), dtype=np.float32)
    for rows, name in zip(chunks, names, strict=True):
        path = folder / name if folder else None
        if path is not None and path.exists():
            part = np.load(path, allow_pickle=False)
        else:
            part = encoder.encode([texts[i] for i in rows])
            if path is not None:
                save_chunk(path, part)
        vectors[rows] = part
        if advance and not ray:
            advance(len(rows))
    return vectors


def chunk_name(encoder: Encoder, texts: Sequence[str]) -> str:
    """File name of a chunk: a hash of the encoder and the texts."""
    digest = hashlib.blake2b(f"{encoder.spec}\n{encoder.version}\n".encode(), digest_size=16)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return f"{digest.hexdigest()}.npy"


def save_chunk(path: Path, vectors: np.ndarray) -> None:
    """Under a temporary name first: a chunk is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    with temporary.open("wb") as file:
        np.save(file, np.ascontiguousarray(vectors, dtype=np.float32))
    os.replace(temporary, path)


class ChunkEncoder:
    """A Ray Data worker: one encoder, made once; vectors of a chunk go to the shared folder."""

    def __init__(self, encoder: Any, folder: str) -> None:
        self.encoder = make_encoder(encoder) if isinstance(encoder, str) else encoder
        self.folder = Path(folder)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        assert self.encoder is not None
        save_chunk(self.folder / str(row["name"]), self.encoder.encode([str(text) for text in row["texts"]]))
        return {"name": row["name"], "count": len(row["texts"])}


def _on_ray(
    encoder: Encoder,
    texts: Sequence[str],
    chunks: Sequence[list[int]],
    names: Sequence[str],
    folder: Path,
    advance: Callable[[int], None] | None,
) -> None:
    """Encode the missing chunks; the folder must be readable on every node."""
    import ray
    import ray.data

    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    missing = [
        {"name": name, "texts": [texts[i] for i in rows]}
        for rows, name in zip(chunks, names, strict=True)
        if not (folder / name).exists()
    ]
    if advance:
        advance(len(texts) - sum(len(row["texts"]) for row in missing))
    if not missing:
        return
    workers = max(1, min(len(missing), int(ray.cluster_resources().get("CPU", 1))))
    data = ray.data.from_items(missing, override_num_blocks=len(missing))
    shared = encoder.spec if can_be_made(encoder) else encoder
    worker: Any = ChunkEncoder
    done = data.map(worker, fn_constructor_args=(shared, str(folder.resolve())), concurrency=workers)
    try:
        for row in done.iter_rows():
            if advance:
                advance(int(row["count"]))
    except Exception as error:
        reason = _cause(error)
        raise RetrievalError(f"encoding on Ray failed: {reason}; finished chunks are kept, run it again") from error


def can_be_made(encoder: Encoder) -> bool:
    """True for the encoders that a worker can make from their spec, weights and all."""
    return type(encoder).__module__.startswith("retrieval_server.")


def _cause(error: BaseException) -> str:
    """The line of the worker's traceback that names its error: Ray wraps it several times."""
    named = [line.strip() for line in str(error).splitlines() if _ERROR_LINE.match(line.strip())]
    return (named[0] if named else type(error).__name__)[:200]
