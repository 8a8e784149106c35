"""What is in a data file: format, counts, samples and problems, without stopping at the first problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from legal_rl.data.readers.lines import MAX_LINE_BYTES, DataError, parse_line, raw_lines
from legal_rl.data.readers.sources import Format, SourceText, array_elements, detect, read_sources

MAX_PROBLEMS = 20
SAMPLES = 2


@dataclass
class Inspection:
    """Counts of one file; every problem is one line that names file, line and what to do."""

    path: Path
    format: str = ""
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    characters: int = 0
    samples: list[SourceText] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    num_problems: int = 0

    def add(self, source: SourceText) -> None:
        """Count one readable record."""
        self.records += 1
        self.kinds[source.kind] += 1
        self.characters += len(source.text)
        if len(self.samples) < SAMPLES:
            self.samples.append(source)

    def problem(self, error: DataError) -> None:
        """Count one problem; the first `MAX_PROBLEMS` are kept."""
        self.num_problems += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(str(error))


def inspect_file(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> Inspection:
    """Read the whole file or folder and report; broken lines are counted, not raised."""
    report = Inspection(path)
    if path.is_dir() or path.suffix in (".txt", ".md"):
        report.format = "text"
        _count(report, lambda: read_sources(path))
    elif path.suffix == ".json" and _is_array(path):
        _count_array(report)
    else:
        _count_lines(report, max_line_bytes)
    if not report.records and not report.problems:
        report.problem(DataError(f"{path}: holds no record; give a file with one JSON object a line"))
    return report


def _count(report: Inspection, sources: Callable[[], Iterator[SourceText]]) -> None:
    try:
        for source in sources():
            report.add(source)
    except DataError as error:
        report.problem(error)


def _is_array(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1024).lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b"["


def _count_array(report: Inspection) -> None:
    """An array has to be read as a whole; after that each element is looked at by itself."""
    form: Format | None = None
    try:
        rows = array_elements(report.path)
    except DataError as error:
        report.problem(error)
        rows = []
    for number, record in enumerate(rows, start=1):
        try:
            if not isinstance(record, dict):
                raise DataError(f"{report.path}, element {number}: expected an object, found {type(record).__name__}")
            form = form or detect(report.path, number, record)
            report.add(form.read(report.path, number, record))
        except DataError as error:
            report.problem(error)
    report.format = form.name if form else "unknown"


def _count_lines(report: Inspection, max_line_bytes: int) -> None:
    form: Format | None = None
    lines = raw_lines(report.path, max_line_bytes)
    while True:
        try:
            number, line = next(lines)
            if line.strip():
                record = parse_line(report.path, number, line)
                form = form or detect(report.path, number, record)
                report.add(form.read(report.path, number, record))
        except StopIteration:
            break
        except DataError as error:
            report.problem(error)
    report.format = form.name if form else "unknown"
