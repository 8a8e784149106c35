"""Fingerprint-based contamination filter (paper, appendix G.4): benchmark texts are kept out of the source texts.

    library = build_library([Path("lawbench"), Path("lexeval")])
    overlaps = scan(library, ["text of a source", "another"])          # one Overlap per text
    overlaps[0].contaminated(Thresholds())                             # True: leave this source out
    judge(library, [["a question", "its answer"]], Thresholds())       # a record of several texts: one hit is enough

Judgments quote formulas and statutes that benchmark questions quote too, so one shared 20-gram says little about them:
371 of 593 judgments share one with LawBench or LexEval. A text counts as contaminated when it holds most of one
benchmark text, or a long part of it; `Thresholds.strict()` is the strictest reading, the first shared 20-gram. Statutes
(the `background`) are no test content inside a longer text; a source that is little else than the statute text that a
benchmark asks for is contaminated all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legal_rl.data.pipeline.fingerprints import NGRAM, SEPARATOR, characters, fingerprints, whole_fingerprint
from legal_rl.data.pipeline.library import MIN_UNIT, MIN_WHOLE, Library, find, maybe, texts_of
from legal_rl.data.readers.lines import DataError

LABELS = frozenset({"id", "idx", "index", "licence", "license"})
"""Fields of a record that hold no source text, unless the caller names them."""

WHOLE = 0.8
"""A source of which this benchmark text is the larger part is contaminated from this share of the text on."""
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


def scan(library: Library, texts: Iterable[str], limits: Thresholds | None = None) -> Iterator[Overlap]:
    """One `Overlap` per text, in order; texts are hashed in batches.

    Args:
        limits: what the overlaps will be judged by; a benchmark text that is over them is reported before all others.
    """
    limits = limits or Thresholds()
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text.replace(SEPARATOR, " "))
        size += len(text)
        if size >= BATCH_CHARS:
            yield from _scan_batch(library, batch, limits)
            batch, size = [], 0
    if batch:
        yield from _scan_batch(library, batch, limits)


def _scan_batch(library: Library, texts: list[str], limits: Thresholds) -> list[Overlap]:
    """All texts of a batch (N) at once: arrays in place of loops, because most texts share something."""
    codes = characters(SEPARATOR.join(texts))
    edges = np.flatnonzero(codes == ord(SEPARATOR))
    starts_N, ends_N = np.concatenate([[0], edges + 1]), np.concatenate([edges, [len(codes)]])
    totals_N = np.maximum(0, ends_N - starts_N - NGRAM + 1)
    hashes = fingerprints(codes)
    candidates = np.flatnonzero(maybe(library, hashes))
    places, found = find(library.hashes_F, hashes[candidates])
    rows = np.searchsorted(starts_N, candidates[found], side="right") - 1
    shared_N = np.bincount(rows, minlength=len(texts))
    rows, places = _different(rows, places[found], len(library.hashes_F))
    known = ~library.formula_F[places]
    rows, places = rows[known], places[known]
    large = 2 * np.bincount(rows, minlength=len(texts)) >= totals_N

    def nearly_all(row: NDArray[np.int64], counts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (counts >= WHOLE * sizes) & (2 * counts >= totals_N[row])

    def over(row: NDArray[np.int64], counts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (counts >= limits.grams) | ((sizes >= MIN_UNIT) & (counts >= limits.containment * sizes))

    whole = _most_telling(library, rows[large[rows]], places[large[rows]], library.full_sizes_U, len(texts), nearly_all)
    telling = ~library.background_F[places]
    best = _most_telling(library, rows[telling], places[telling], library.sizes_U, len(texts), over)
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


def _most_telling(
    library: Library,
    rows: NDArray[np.intp],
    places: NDArray[np.intp],
    sizes_U: NDArray[np.int64],
    num_rows: int,
    counts_as_hit: Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each row the most telling unit (-1 = none) and how many of its fingerprints the row has.

    Units that count as a hit by (row, fingerprints shared, size) come first, then those of which most is there; units
    too small to count come last; equal ones by the order of the benchmark.
    """
    units_N, counts_N = np.full(num_rows, -1, np.int64), np.zeros(num_rows, np.int64)
    if not len(rows):
        return units_N, counts_N
    owners = library.owners_of(places).astype(np.int64)
    keys, counts = np.unique(np.repeat(rows, library.counts_F[places]) * len(sizes_U) + owners, return_counts=True)
    row, unit = keys // len(sizes_U), keys % len(sizes_U)
    sizes = np.maximum(sizes_U[unit], 1)
    weight = np.where(sizes >= MIN_UNIT, 1.0, 0.5) * counts / sizes + 2.0 * counts_as_hit(row, counts, sizes)
    order = np.lexsort((-unit, weight, row))
    last = order[np.append(row[order][1:] != row[order][:-1], True)]
    units_N[row[last]], counts_N[row[last]] = unit[last], counts[last]
    return units_N, counts_N


def _names(library: Library, unit: int) -> tuple[str, str]:
    return library.names[library.benchmarks_U[unit]], library.samples_U[unit]


def judge(library: Library, groups: Iterable[Sequence[str]], limits: Thresholds) -> Iterator[tuple[Overlap, bool]]:
    """(the first contaminated overlap, else that of the first text; whether it is contaminated) per group of texts."""
    sizes: deque[int] = deque()

    def texts() -> Iterator[str]:
        for group in groups:
            sizes.append(len(group))
            yield from group

    overlaps: list[Overlap] = []
    for overlap in scan(library, texts(), limits):
        overlaps.append(overlap)
        if len(overlaps) == sizes[0]:
            sizes.popleft()
            hit = next((one for one in overlaps if one.contaminated(limits)), None)
            yield hit or overlaps[0], hit is not None
            overlaps = []


def decontaminate(
    records: Iterable[dict[str, Any]], library: Library, limits: Thresholds | None = None, fields: Sequence[str] = ()
) -> Iterator[tuple[dict[str, Any], Overlap, bool]]:
    """Yields (record, its overlap, whether to drop it) for every record, in order.

    Args:
        fields: names of the fields with the source text; none = all texts of the record.

    Raises:
        DataError: a record without any text: it cannot be called clean.
    """
    pending: deque[dict[str, Any]] = deque()

    def groups() -> Iterator[list[str]]:
        for number, record in enumerate(records, start=1):
            pending.append(record)
            yield source_texts(record, number, fields)

    for overlap, drop in judge(library, groups(), limits or Thresholds()):
        yield pending.popleft(), overlap, drop


def source_texts(record: dict[str, Any], number: int, fields: Sequence[str] = ()) -> list[str]:
    """The texts of a record that are compared with the benchmarks: all of them as one, then each of several by itself.

    Each by itself, because a short benchmark text counts only where it is all of the text: an answer beside it must not
    hide it.
    """
    value = {name: record.get(name) for name in fields} if fields else record
    texts = list(dict.fromkeys(texts_of(value, frozenset() if fields else LABELS)))
    if not texts:
        raise DataError(f"record {number}: no text in {', '.join(fields) or 'any field'}; it cannot be called clean")
    return texts if len(texts) == 1 else ["\n".join(texts), *texts]
