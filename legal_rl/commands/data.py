"""`legal-rl data synthesize|inspect`: questions, trajectories and what is in a file of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from legal_rl.commands import data_build, data_chain, data_stages
from legal_rl.commands.shared import (
    ConfigArgument,
    JsonOption,
    OverridesArgument,
    console,
    load,
    print_json,
    require_file,
)

app = typer.Typer(help="Build and inspect training data.", no_args_is_help=True)
data_stages.register(app)
data_build.register(app)
data_chain.register(app)


@app.command("synthesize")
def synthesize(config: ConfigArgument, overrides: OverridesArgument = None) -> None:
    """Make questions from the statutes and let the scripted teacher play them through the real Assistant.

    Example: legal-rl data synthesize quickstart run_dir=runs/data questions.train_per_family=100
    """
    from legal_rl.quickstart.story import run_story

    run_story(load(config, overrides), last="trajectories")


@app.command("inspect")
def inspect(
    file: Annotated[Path, typer.Argument(help="Rollouts, questions, or raw material in a known format; or a folder.")],
    as_json: JsonOption = False,
) -> None:
    """Tell a file's format, counts, samples and problems; broken lines are named, with what to do.

    Examples:

      legal-rl data inspect runs/quickstart/trajectories/sft.rollouts.jsonl

      legal-rl data inspect data_train.json --json
    """
    if not (file.is_dir() and _has_texts(file)):
        require_file(file, "rollouts, questions or raw material as JSON Lines")
    if not file.is_dir() and _looks_like(file, "history") and _looks_like(file, "profile"):
        _inspect_set(file, as_json)
        return
    if file.is_dir() or not _looks_like(file, "turns", "schema_version"):
        _inspect_material(file, as_json)
        return
    kind, counts = _count(file)
    total = sum(counts.values())
    if as_json:
        print_json({"kind": kind, "n": total, "families": counts})
        return
    table = Table("family", kind, title=str(file), title_justify="left")
    for family, count in counts.items():
        table.add_row(family, str(count))
    table.add_row("all", str(total))
    console.print(table)


def _has_texts(folder: Path) -> bool:
    return any(path.suffix in (".txt", ".md") for path in folder.rglob("*"))


def _inspect_set(file: Path, as_json: bool) -> None:
    """A data set's own records: checked one by one, counted by task and split."""
    from legal_rl.data.pipeline.records import record_from_dict
    from legal_rl.data.readers.lines import read_lines

    records = [record_from_dict(row, f"{file}, line {number}") for number, row in read_lines(file)]
    tasks, splits = (
        dict(sorted(Counter(names).items())) for names in zip(*((r.profile, r.split) for r in records), strict=True)
    )
    if as_json:
        print_json({"kind": "records", "n": len(records), "tasks": tasks, "splits": splits})
        return
    table = Table("task", "records", title=f"{file}: {splits}", title_justify="left")
    for task, count in {**tasks, "all": len(records)}.items():
        table.add_row(task, str(count))
    console.print(table)


def _inspect_material(file: Path, as_json: bool) -> None:
    """Raw material: the report on standard output, the first problem as the command's one line of error."""
    from legal_rl.data.readers.inspect import inspect_file
    from legal_rl.data.readers.lines import DataError

    report = inspect_file(file)
    if as_json:
        print_json(
            {
                "format": report.format, "n": report.records, "kinds": report.kinds, "characters": report.characters,
                "samples": [sample.to_dict() for sample in report.samples], "problems": report.problems,
                "num_problems": report.num_problems,
            }
        )  # fmt: skip
    elif report.records:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(report.kinds.items()))
        average = report.characters / report.records
        console.print(
            f"{file}: {report.format}, {report.records} records ({kinds}), {average:.0f} characters on average"
        )
        for sample in report.samples:
            console.print(f"  {sample.id}: {sample.text[:80]!r}", highlight=False, markup=False)
    if report.problems:
        more = report.num_problems - 1
        raise DataError(report.problems[0] + (f" (and {more} more lines with problems)" if more else ""))


def _count(file: Path) -> tuple[str, dict[str, int]]:
    from envs.records import read_questions, read_rollouts

    if _looks_like(file, "turns"):
        return "rollouts", dict(sorted(Counter(r.question.family for r in read_rollouts(file)).items()))
    return "questions", dict(sorted(Counter(q.family for q in read_questions(file)).items()))


def _looks_like(file: Path, *fields: str) -> bool:
    """By the first line; a line that cannot be read is left to the reader, which names it."""
    import json

    if file.suffix == ".gz":
        return False
    with file.open("rb") as lines:
        try:
            first = json.loads(lines.readline(1 << 25) or b"{}")
        except ValueError:
            return False
    return isinstance(first, dict) and any(name in first for name in fields)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="cail2018, disc-law-sft, crimekgassitant, lecardv2 or jec-qa.")],
    folder: Annotated[Path, typer.Option("--out", help="Where the file goes.")] = Path("data"),
    given: Annotated[Path | None, typer.Option("--from", help="A file that is already here: no network.")] = None,
    sha256: Annotated[str, typer.Option(help="Checksum that the file must have.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Download a public source, check it and say under which licence it stands.

    Examples:

      legal-rl data fetch crimekgassitant --out data

      legal-rl data fetch jec-qa --from ~/jecqa/train.json
    """
    from rich.progress import Progress

    from legal_rl.commands.shared import errors
    from legal_rl.data.readers.fetch import fetch as fetch_source
    from legal_rl.data.readers.fetch import registry

    with Progress(console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        path, digest = fetch_source(
            name, folder, given, sha256, lambda done, total: bar.update(task, completed=done, total=total or None)
        )
    source = registry()[name]
    if as_json:
        print_json({"path": str(path), "sha256": digest, "licence": source.licence, "home": source.home})
        return
    console.print(f"{path}\n  SHA-256 {digest}\n  licence: {source.licence}\n  home: {source.home}", highlight=False)
