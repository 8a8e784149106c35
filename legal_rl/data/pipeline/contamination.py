"""Fingerprint-based contamination filter (paper, appendix G.4): benchmark texts are kept out of the source texts.

    library = build_library([Path("lawbench"), Path("lexeval")])
    overlaps = scan(library, ["text of a source", "another"])          # one Overlap per text
    overlaps[0].contaminated(Thresholds())                             # True: leave this source out

Judgments quote formulas and statutes that benchmark questions quote too, so one shared 20-gram says little about them:
371 of 593 judgments share one with LawBench or LexEval. A text counts as contaminated when it holds most of one
benchmark text, or a long part of it; `Thresholds.strict()` is the strictest reading, the first shared 20-gram. Statutes
(the `background`) are no test content inside a longer text; a source that is little else than the statute text that a
benchmark asks for is contaminated all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legal_rl.data.pipeline.fingerprints import (
    NGRAM,
    SEPARATOR,
    Hashes,
    characters,
    fingerprints,
    whole_fingerprint,
)
from legal_rl.data.readers.lines import DataError, read_lines

SKIPPED_FIELDS = frozenset({"instruction", "id", "idx", "index", "source", "licence", "license"})
"""Fields that are no test content: the prompt is the same for all questions of a task."""
FORMULA = 20
"""A fingerprint in this many benchmark texts is a formula of the task or the trade and identifies none of them."""
MIN_UNIT = 10
"""A benchmark text with fewer fingerprints counts only where it is the larger part of the source text."""
MIN_WHOLE = 8
"""Shorter normalised texts (盗窃罪) are no evidence of anything, even when the source text is nothing else."""
WHOLE = 0.8
"""A source of which this benchmark text is the larger part is contaminated from this share of the text on."""
_BITS = 27
_SHIFT = np.uint64(64 - _BITS)
BATCH_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a source text counts as contaminated: any of the two is enough."""

    grams: int = 64
    """This many fingerprints of one benchmark text (64 = 83 characters in a row)."""
    containment: float = 0.8
    """This share of one benchmark text's fingerprints."""

    @classmethod
    def strict(cls) -> Thresholds:
        """The first shared 20-gram."""
        return cls(grams=1)


@dataclass(frozen=True, slots=True)
class Overlap:
    """What one source text shares with the benchmark text it shares most with.

    Example: Overlap(grams=120, size=130, total=400, shared=140, benchmark="lawbench", sample="3-1.jsonl.gz:12").
    """

    grams: int = 0
    """Different fingerprints of that benchmark text in the source."""
    size: int = 0
    """Different fingerprints that identify the benchmark text."""
    total: int = 0
    """Number of 20-grams of the source."""
    shared: int = 0
    """Number of the source's 20-grams that stand in any benchmark."""
    benchmark: str = ""
    sample: str = ""
    whole: bool = False
    """The source is little else than the benchmark text."""

    @property
    def containment(self) -> float:
        """Share of the benchmark text that the source holds."""
        return self.grams / self.size if self.size else 0.0

    @property
    def share(self) -> float:
        """Share of the source's 20-grams that stand in some benchmark."""
        return self.shared / self.total if self.total else 0.0

    def contaminated(self, limits: Thresholds) -> bool:
        """True when the source must be left out."""
        return (
            self.whole
            or self.grams >= limits.grams
            or (self.size >= MIN_UNIT and self.containment >= limits.containment)
        )


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
    return _assemble(units, kinds, samples, wholes, [b.name for b in benchmarks], background)


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
        place, found = _find(hashes, fingerprints(characters(text)))
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
    files = [benchmark] if benchmark.is_file() else sorted(p for p in benchmark.rglob("*.jsonl*") if p.is_file())
    if not files:
        raise DataError(f"benchmark {benchmark}: holds no .jsonl or .jsonl.gz file")
    for file in files:
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


def scan(library: Library, texts: Iterable[str]) -> Iterator[Overlap]:
    """One `Overlap` per text, in order; texts are hashed in batches."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text.replace(SEPARATOR, " "))
        size += len(text)
        if size >= BATCH_CHARS:
            yield from _scan_batch(library, batch)
            batch, size = [], 0
    if batch:
        yield from _scan_batch(library, batch)


def _scan_batch(library: Library, texts: list[str]) -> list[Overlap]:
    """All texts of a batch (N) at once: arrays in place of loops, because most texts share something."""
    codes = characters(SEPARATOR.join(texts))
    edges = np.flatnonzero(codes == ord(SEPARATOR))
    starts_N, ends_N = np.concatenate([[0], edges + 1]), np.concatenate([edges, [len(codes)]])
    totals_N = np.maximum(0, ends_N - starts_N - NGRAM + 1)
    hashes = fingerprints(codes)
    candidates = np.flatnonzero(_maybe(library, hashes))
    places, found = _find(library.hashes_F, hashes[candidates])
    rows = np.searchsorted(starts_N, candidates[found], side="right") - 1
    shared_N = np.bincount(rows, minlength=len(texts))
    rows, places = _different(rows, places[found], len(library.hashes_F))
    known = ~library.formula_F[places]
    rows, places = rows[known], places[known]
    large = 2 * np.bincount(rows, minlength=len(texts)) >= totals_N
    whole = _most_contained(library, rows[large[rows]], places[large[rows]], library.full_sizes_U, len(texts))
    telling = ~library.background_F[places]
    best = _most_contained(library, rows[telling], places[telling], library.sizes_U, len(texts))
    return [
        _overlap(
            library, int(total), int(shared), codes[start:end], (whole[0][n], whole[1][n]), (best[0][n], best[1][n])
        )
        for n, (start, end, total, shared) in enumerate(zip(starts_N, ends_N, totals_N, shared_N, strict=True))
    ]


def _different(
    rows: NDArray[np.intp], places: NDArray[np.intp], size: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The (row, place) pairs without repeats, sorted."""
    pairs = np.unique(rows * max(1, size) + places)
    return pairs // max(1, size), pairs % max(1, size)


def _maybe(library: Library, hashes: Hashes) -> NDArray[np.bool_]:
    spots = hashes >> _SHIFT
    return (library.filter_bits[spots >> np.uint64(3)] >> (spots & np.uint64(7)).astype(np.uint8)) & 1 == 1


def _find(sorted_hashes: Hashes, wanted: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(place in the sorted column, whether it is really there) for each wanted hash."""
    place = np.minimum(np.searchsorted(sorted_hashes, wanted), max(0, len(sorted_hashes) - 1))
    found = sorted_hashes[place] == wanted if len(sorted_hashes) else np.zeros(len(wanted), bool)
    return place, found


def _overlap(
    library: Library,
    total: int,
    shared: int,
    codes: NDArray[np.uint32],
    whole: tuple[int, int],
    best: tuple[int, int],
) -> Overlap:
    """`whole` and `best`: (unit or -1, number of its fingerprints), by all and by identifying fingerprints."""
    if shared == total and len(codes) >= MIN_WHOLE:  # only then can the whole be a benchmark text
        unit = library.whole.get(whole_fingerprint(codes))
        if unit is not None:
            size = int(library.sizes_U[unit])
            return Overlap(size, size, total, shared, *_names(library, unit), whole=True)
    unit, count = int(whole[0]), int(whole[1])
    if unit >= 0 and count >= WHOLE * library.full_sizes_U[unit] and 2 * count >= total:
        size = int(library.full_sizes_U[unit])
        return Overlap(count, size, total, shared, *_names(library, unit), whole=True)
    unit, count = int(best[0]), int(best[1])
    if unit < 0:
        return Overlap(total=total, shared=shared)
    return Overlap(count, int(library.sizes_U[unit]), total, shared, *_names(library, unit))


def _most_contained(
    library: Library, rows: NDArray[np.intp], places: NDArray[np.intp], sizes_U: NDArray[np.int64], num_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each row the most telling unit (-1 = none) and how many of its fingerprints the row has.

    Units too small to count come last, long shared parts first; equal ones by the order of the benchmark.
    """
    units_N, counts_N = np.full(num_rows, -1, np.int64), np.zeros(num_rows, np.int64)
    if not len(rows):
        return units_N, counts_N
    owners = library.owners_of(places).astype(np.int64)
    keys, counts = np.unique(np.repeat(rows, library.counts_F[places]) * len(sizes_U) + owners, return_counts=True)
    row, unit = keys // len(sizes_U), keys % len(sizes_U)
    sizes = np.maximum(sizes_U[unit], 1)
    weight = np.where(sizes >= MIN_UNIT, 1.0, 0.5) * counts / sizes + (counts >= Thresholds().grams)
    order = np.lexsort((-unit, weight, row))
    last = order[np.append(row[order][1:] != row[order][:-1], True)]
    units_N[row[last]], counts_N[row[last]] = unit[last], counts[last]
    return units_N, counts_N


def _names(library: Library, unit: int) -> tuple[str, str]:
    return library.names[library.benchmarks_U[unit]], library.samples_U[unit]


def decontaminate(
    records: Iterable[dict[str, Any]], library: Library, limits: Thresholds | None = None, fields: Sequence[str] = ()
) -> Iterator[tuple[dict[str, Any], Overlap, bool]]:
    """Yields (record, its overlap, whether to drop it) for every record, in order.

    Args:
        fields: names of the fields with the source text; none = all texts of the record.

    Raises:
        DataError: a record without any text: it cannot be called clean.
    """
    limits = limits or Thresholds()
    pending: deque[dict[str, Any]] = deque()

    def texts() -> Iterator[str]:
        for number, record in enumerate(records, start=1):
            pending.append(record)
            yield source_text(record, number, fields)

    for overlap in scan(library, texts()):
        yield pending.popleft(), overlap, overlap.contaminated(limits)


def source_text(record: dict[str, Any], number: int, fields: Sequence[str] = ()) -> str:
    """The text of a record that is compared with the benchmarks."""
    value = {name: record.get(name) for name in fields} if fields else record
    text = "\n".join(texts_of(value))
    if not text:
        raise DataError(f"record {number}: no text in {', '.join(fields) or 'any field'}; it cannot be called clean")
    return text
