"""`legal-rl eval …`: measured quality of retrieval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from legal_rl.commands.shared import JsonOption, console, print_json, require_file

app = typer.Typer(help="Evaluate.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command("retrieval")
def retrieval(
    corpus: Annotated[list[str], typer.Option("--corpus", help="Corpus spec; may be given several times.")],
    queries: Annotated[Path, typer.Option("--queries", help="Queries with gold article ids, JSON Lines.")],
    k: Annotated[int, typer.Option("--k", help="Cut-off of the metrics.")] = 10,
    encoder: Annotated[str, typer.Option(help="fuse, none, or a sentence-transformers name or folder.")] = "none",
    index: Annotated[Path | None, typer.Option("--index", help="Keep the index here and use it again.")] = None,
    limit: Annotated[int, typer.Option(help="Only the first so many queries; 0 = all.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """nDCG, recall, MRR and hit rate of statute retrieval, overall and by query type.

    Example: legal-rl eval retrieval --corpus norms.jsonl.gz --queries statute_queries.jsonl.gz --k 10 --json
    """
    from legal_rl.evaluation.retrieval import evaluate_retrieval

    require_file(queries, "queries with gold article ids")
    result = evaluate_retrieval(corpus, queries, k=k, encoder=encoder, index_dir=index, limit=limit or None)
    if as_json:
        print_json(result)
        return
    table = Table("type", "n", "nDCG", "recall", "MRR", "hit", title=f"k = {k}", title_justify="left")
    for name, row in {**result["by_type"], "all": result["overall"]}.items():
        table.add_row(name, str(row.get("n", "")), *(f"{row[m]:.3f}" for m in ("ndcg", "recall", "mrr", "hit")))
    console.print(table)
    console.print(f"latency ms: {result['latency_ms']}", highlight=False)
