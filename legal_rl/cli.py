"""The command line `legal-rl`. Exit codes: 0 done, 1 failed (one clear line), 2 wrong use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from legal_rl import __version__
from legal_rl.commands import ask, data, doctor, evaluate, index, quickstart, serve, trace, train
from legal_rl.errors import LegalRLError, explain_system_error

app = typer.Typer(
    name="legal-rl",
    help="Train, serve and evaluate agentic legal-retrieval policies (Legal-R1 on verl, Ray and vLLM).",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("quickstart")(quickstart.quickstart)
app.command("doctor")(doctor.doctor)
app.command("plan")(train.plan)
app.command("sft", context_settings={"ignore_unknown_options": False})(train.sft)
app.command("grpo")(train.grpo)
app.command("export")(train.export)
app.command("retrieve")(index.retrieve)
app.command("ask")(ask.ask)
app.add_typer(index.app, name="index")
app.add_typer(data.app, name="data")
app.add_typer(serve.app, name="serve")
app.add_typer(evaluate.app, name="eval")
app.add_typer(trace.app, name="trace")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"legal-rl {__version__} (Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: every expected failure is one line on standard error. `arguments` default to the command line's."""
    try:
        app(arguments)
    except LegalRLError as error:
        _fail(str(error))
    except OSError as error:
        text = explain_system_error(error)
        if text is None:
            raise
        _fail(text)
    except KeyboardInterrupt:
        typer.echo("interrupted; finished stages are kept, the same command goes on from there", err=True)
        sys.exit(130)


def _fail(text: str) -> None:
    typer.echo(f"error: {' '.join(text.split())}", err=True)
    sys.exit(1)
