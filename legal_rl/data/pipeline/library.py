"""The fingerprint library of the benchmarks (paper, appendix G.4): which benchmark texts a 20-gram stands in.

library = build_library([Path("lawbench"), Path("lexeval")], background=statutes)
place, found = find(library.hashes_F, fingerprints(characters("some text")))
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legal_rl.data.pipeline.fingerprints import Hashes, characters, fingerprints, whole_fingerprint
from legal_rl.data.readers.lines import DataError, read_lines

SKIPPED_FIELDS = frozenset({"instruction", "id", "idx", "index", "source", "licence", "license"})
"""Fields of a benchmark that are no test content: the prompt is the same for all questions of a task."""
FORMULA = 20
"""A fingerprint in this many benchmark texts is a formula of the task or the trade and identifies none of them."""
MIN_UNIT = 10
"""A benchmark text with fewer fingerprints counts only where it is the larger part of the source text."""
MIN_WHOLE = 8
"""Shorter normalised texts (盗窃罪) are no evidence of anything, even when the source text is nothing else."""
_NO_DATA = frozenset({".md", ".rst", ".py", ".sh", ".yaml", ".yml", ".toml", ".pdf", ".png", ".bib", ".sha256"})
_PAPERS = frozenset({"README", "LICENSE", "LICENCE", "NOTICE", "CITATION", "CHANGELOG"})
"""Files beside a benchmark's samples that hold none."""
_BITS = 27
_SHIFT = np.uint64(64 - _BITS)


@dataclass(frozen=True)
class Library:
    """Fingerprints of all benchmarks: sorted columns of length F, a row per benchmark text (unit U), pairs P."""

    hashes_F: Hashes
    starts_F: NDArray[np.int64]
    """The units that have fingerprint f are `owners_P[starts_F[f] : starts_F[f] + counts_F[f]]`."""
    counts_F: NDArray[np.int64]
    owners_P: NDArray[np.uint32]
    formula_F: NDArray[np.bool_]
    """Stands in `FORMULA` benchmark texts or more: identifies nothing."""
    background_F: NDArray[np.bool_]
    """Stands in a background text: counts only where the source is little else."""
    sizes_U: NDArray[np.int64]
    """Number of identifying fingerprints of a unit: neither formula nor background."""
    full_sizes_U: NDArray[np.int64]
    """Number of its fingerprints that are no formulas."""
    benchmarks_U: NDArray[np.int32]
    samples_U: tuple[str, ...]
    names: tuple[str, ...]
    whole: dict[int, int]
    """Hash of a whole text -> unit, for units that have next to no fingerprints."""
    filter_bits: NDArray[np.uint8]
    """Bit h >> 37 is set for every fingerprint h: most lookups end here, without a search."""

    def owners_of(self, places: NDArray[np.intp]) -> NDArray[np.uint32]:
        """The units of several fingerprints, one list after the other."""
        counts = self.counts_F[places]
        before = np.cumsum(counts) - counts
        return self.owners_P[np.repeat(self.starts_F[places] - before, counts) + np.arange(counts.sum())]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        columns = (self.hashes_F, self.starts_F, self.counts_F, self.owners_P, self.formula_F, self.background_F)
        rows = (self.sizes_U, self.full_sizes_U, self.benchmarks_U)
        return sum(a.nbytes for a in (*columns, *rows, self.filter_bits))

    def summary(self) -> dict[str, dict[str, int]]:
        """Benchmark -> texts, fingerprints (counted where they stand first) and texts known only as a whole."""
        kinds = self.benchmarks_U[self.owners_P[self.starts_F]]
        short = np.bincount(
            self.benchmarks_U[list(self.whole.values())] if self.whole else [], minlength=len(self.names)
        )
        return {
            name: {
                "texts": int((self.benchmarks_U == i).sum()),
                "fingerprints": int((kinds == i).sum()),
                "short_texts": int(short[i]),
            }
            for i, name in enumerate(self.names)
        }


def build_library(benchmarks: Sequence[Path], background: Iterable[str] = ()) -> Library:
    """Fingerprint every text of every benchmark.

    Args:
        benchmarks: files or folders (read with subfolders) of `.jsonl` or `.jsonl.gz`; fields of any name.
        background: texts that are no test content although benchmarks quote them (statutes).

    Raises:
        DataError: nothing given, a file or folder is missing, empty or broken. The filter never runs half-armed.
    """
    if not benchmarks:
        raise DataError("no benchmark given; name at least one with --benchmark")
    units: list[Hashes] = []
    kinds: list[int] = []
    samples: list[str] = []
    wholes: list[int | None] = []
    seen: set[int] = set()
    for kind, benchmark in enumerate(benchmarks):
        for sample, text in benchmark_texts(benchmark):
            codes = characters(text)
            whole = whole_fingerprint(codes)
            if whole not in seen:
                seen.add(whole)
                units.append(np.unique(fingerprints(codes)))
                kinds.append(kind)
                samples.append(sample)
                wholes.append(whole if len(codes) >= MIN_WHOLE else None)
    return _assemble(units, kinds, samples, wholes, names_of(benchmarks), background)


def names_of(benchmarks: Sequence[Path]) -> list[str]:
    """A name for each that no other has: two folders called data become data and data#2."""
    names = [benchmark.resolve().name for benchmark in benchmarks]
    return [name if name not in names[:i] else f"{name}#{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def digests_of(benchmarks: Sequence[Path]) -> dict[str, str]:
    """Name -> SHA-256 over its files, so that a data set says which version it was compared with."""
    digests: dict[str, str] = {}
    for name, benchmark in zip(names_of(benchmarks), benchmarks, strict=True):
        total = hashlib.sha256()
        for file in [benchmark] if benchmark.is_file() else _files(benchmark):
            total.update(hashlib.sha256(file.read_bytes()).digest())
        digests[name] = total.hexdigest()
    return digests


def _assemble(
    units: list[Hashes],
    kinds: list[int],
    samples: list[str],
    wholes: list[int | None],
    names: list[str],
    background: Iterable[str],
) -> Library:
    lengths = [len(unit) for unit in units]
    everything = np.concatenate(units)
    units.clear()
    owner_of = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
    order = np.argsort(everything, kind="stable")
    everything, owners = everything[order], owner_of[order]
    starts = np.flatnonzero(np.concatenate([[True], everything[1:] != everything[:-1]])[: len(everything)])
    hashes, counts = everything[starts], np.diff(np.append(starts, len(everything)))
    formula, known = counts >= FORMULA, np.zeros(len(hashes), bool)
    for text in background:
        place, found = find(hashes, fingerprints(characters(text)))
        known[place[found]] = True
    full_sizes = np.bincount(owners[np.repeat(~formula, counts)], minlength=len(lengths))
    sizes = np.bincount(owners[np.repeat(~formula & ~known, counts)], minlength=len(lengths))
    bits = np.zeros(2 ** (_BITS - 3), np.uint8)
    spots = hashes >> _SHIFT
    np.bitwise_or.at(bits, spots >> np.uint64(3), np.uint8(1) << (spots & np.uint64(7)).astype(np.uint8))
    return Library(
        hashes,
        starts,
        counts,
        owners,
        formula,
        known,
        sizes,
        full_sizes,
        np.array(kinds, np.int32),
        tuple(samples),
        tuple(names),
        {whole: unit for unit, whole in enumerate(wholes) if whole is not None and full_sizes[unit] < MIN_UNIT},
        bits,
    )


def benchmark_texts(benchmark: Path) -> Iterator[tuple[str, str]]:
    """Yields (file:line, text) for every text field of every sample; question and answer are texts of their own."""
    if not benchmark.exists():
        raise DataError(f"benchmark {benchmark}: no such file or folder; without it nothing can be called clean")
    for file in [benchmark] if benchmark.is_file() else _files(benchmark):
        count = 0
        for number, record in read_lines(file):
            texts = list(texts_of(record))
            if not texts:
                raise DataError(
                    f"{file}, line {number}: no text field; a benchmark sample without text cannot be guarded"
                )
            count += 1
            yield from ((f"{file.name}:{number}", text) for text in texts)
        if not count:
            raise DataError(f"benchmark {file}: holds no sample")


def _files(folder: Path) -> list[Path]:
    """The folder's JSON Lines files; any other data file is an error, because its samples would not be guarded."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    chosen = [path for path in files if path.name.endswith((".jsonl", ".jsonl.gz"))]
    other = next(
        (p for p in files if p not in chosen and p.suffix not in _NO_DATA and p.stem.upper() not in _PAPERS), None
    )
    if other:
        raise DataError(
            f"benchmark {other}: not .jsonl or .jsonl.gz, so its samples would not be guarded; turn it into JSON Lines "
            "(a JSON array with `jq -c '.[]'`) or move it out of the folder"
        )
    if not chosen:
        raise DataError(f"benchmark {folder}: holds no .jsonl or .jsonl.gz file")
    return chosen


def texts_of(value: Any, skipped: frozenset[str] = SKIPPED_FIELDS) -> Iterator[str]:
    """All texts of a record, nested ones included, without the fields that are no content."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in skipped:
                yield from texts_of(inner, skipped)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner, skipped)


def maybe(library: Library, hashes: Hashes) -> NDArray[np.bool_]:
    spots = hashes >> _SHIFT
    return (library.filter_bits[spots >> np.uint64(3)] >> (spots & np.uint64(7)).astype(np.uint8)) & 1 == 1


def find(sorted_hashes: Hashes, wanted: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(place in the sorted column, whether it is really there) for each wanted hash."""
    place = np.minimum(np.searchsorted(sorted_hashes, wanted), max(0, len(sorted_hashes) - 1))
    found = sorted_hashes[place] == wanted if len(sorted_hashes) else np.zeros(len(wanted), bool)
    return place, found
