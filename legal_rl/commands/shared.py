"""What the commands share: option types, the console, JSON output, and opening an index."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from legal_rl.errors import ConfigError

if TYPE_CHECKING:
    from legal_rl.config import RunConfig

console = Console()
errors = Console(stderr=True)

ConfigArgument = Annotated[str, typer.Argument(help="Name of a file in configs/, or a path to a YAML file.")]
OverridesArgument = Annotated[list[str] | None, typer.Argument(help="Overrides: section.key=value …")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON only, for scripts.")]
IndexOption = Annotated[Path, typer.Option("--index", help="Index folder, as built by `legal-rl index build`.")]


class Ranking(StrEnum):
    """`retrieval_server.config.AssistantConfig.ranking`, without its imports."""

    LEARNED = "learned"
    FUSED = "fused"


RankingOption = Annotated[
    Ranking, typer.Option("--ranking", help="Order of statutes no citation names: the fitted model, or BM25 and dense.")
]

DEFAULT_INDEX = Path("runs/quickstart/index")


def load(config: str, overrides: list[str] | None) -> RunConfig:
    """The configuration of a command."""
    from legal_rl.config import load_config

    return load_config(config, overrides or ())


def print_json(value: Any) -> None:
    """One JSON document on standard output, Chinese readable."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def require_file(path: Path, what: str) -> Path:
    """The path, when a file is there.

    Raises:
        ConfigError: none is; the text says what was expected there.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file ({what})")
    return path
