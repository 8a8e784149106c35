"""`legal-rl serve`: the Legal Assistant over HTTP, the whole application, and API keys for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from legal_rl.commands.shared import (
    DEFAULT_INDEX,
    IndexOption,
    JsonOption,
    OverridesArgument,
    Ranking,
    RankingOption,
    console,
    print_json,
)
from legal_rl.errors import ConfigError

app = typer.Typer(help="Run services.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command("retrieval")
def retrieval(
    index: IndexOption = DEFAULT_INDEX,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    config: Annotated[str, typer.Option("--config", help="Take the `assistant` section of this configuration.")] = "",
    ranking: RankingOption = Ranking.LEARNED,
    dense_gpus: Annotated[int, typer.Option("--dense-gpus", min=0, help="GPUs to search the vectors on.")] = 0,
    replicas: Annotated[int, typer.Option(help="More than 0: Ray Serve with so many replicas.")] = 0,
) -> None:
    """Serve statutes and precedents: POST /v1/search, POST /retrieve (Search-R1), GET /v1/articles/…, /metrics.

    `--ranking` counts where no `--config` says it.

    Examples:

      legal-rl serve retrieval --index runs/quickstart/index

      legal-rl serve retrieval --replicas 2 --port 9000
    """
    from legal_rl.config import load_config
    from retrieval_server.config import AssistantConfig

    if replicas and dense_gpus:
        raise ConfigError("--dense-gpus is for one process; Ray Serve replicas search in memory")
    assistant = load_config(config).assistant if config else AssistantConfig(ranking=ranking.value)
    if replicas > 0:
        from retrieval_server.deployment import serve_replicas

        serve_replicas(index, host=host, port=port, config=assistant, replicas=replicas)
    else:
        from retrieval_server.server import run_server

        run_server(index, host=host, port=port, config=assistant, dense_gpus=dense_gpus)


@app.command("app")
def application(
    config: Annotated[
        str, typer.Option("--config", help="Name of a file in configs/serve/, or a path to a YAML file.")
    ] = "serve_cpu",
    overrides: OverridesArgument = None,
    check: Annotated[bool, typer.Option("--check", help="Only check settings, models, index and keys.")] = False,
) -> None:
    """Serve the trained Lawyer: OpenAI's chat completions, typed answers with citations, and a page for people.

    Examples:

      legal-rl serve app --config serve_cpu

      legal-rl serve app --config serve_cpu run=runs/mine port=9000 limits.keys_file=keys.yaml

      legal-rl serve app --config serve_single_gpu lawyer.path=exported/legal-r1 --check
    """
    from legal_rl.serving.deployment import check_parts, serve_app
    from legal_rl.serving.settings import load_serve_config

    settings = load_serve_config(config, overrides or ())
    if check:
        check_parts(settings)
        console.print(f"[green]ok:[/] {settings.name}: settings, models and index are there")
        return
    serve_app(settings)


@app.command("key")
def key(
    name: Annotated[str, typer.Argument(help="Whose key it is; shown in logs.")],
    file: Annotated[Path, typer.Option("--file", help="Keys file, named by limits.keys_file.")] = Path("keys.yaml"),
    requests_per_minute: Annotated[int | None, typer.Option(help="This key's own rate.", min=1)] = None,
    concurrency: Annotated[int | None, typer.Option(help="Questions at once for this key.", min=1)] = None,
    as_json: JsonOption = False,
) -> None:
    """Make an API key. Its hash goes into the keys file; the key itself is shown once and kept nowhere.

    Example: legal-rl serve key alice --file keys.yaml --requests-per-minute 60
    """
    from legal_rl.serving.access import add_key

    made = add_key(file, name, requests_per_minute, concurrency)
    if as_json:
        print_json({"name": name, "key": made, "file": str(file)})
    else:
        console.print(f"{made}", highlight=False)
        console.print(f"[dim]the key of {name}; its hash is in {file}. A running application reads the file anew.[/]")
