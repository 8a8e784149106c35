"""`legal-rl serve retrieval`: the Legal Assistant over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from legal_rl.commands.shared import DEFAULT_INDEX, IndexOption, Ranking, RankingOption
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
