"""`legal-rl eval …`: measured quality of retrieval and of trained Lawyers; `benchmarks` adds the paper's benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from legal_rl.commands import benchmarks
from legal_rl.commands.shared import JsonOption, Ranking, RankingOption, console, print_json, require_file

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
    ranking: RankingOption = Ranking.LEARNED,
    index: Annotated[Path | None, typer.Option("--index", help="Keep the index here and use it again.")] = None,
    limit: Annotated[int, typer.Option(help="Only the first so many queries; 0 = all.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """nDCG, recall, MRR and hit rate of statute retrieval, overall and by query type.

    Example: legal-rl eval retrieval --corpus norms.jsonl.gz --queries statute_queries.jsonl.gz --k 10 --json
    """
    from legal_rl.evaluation.retrieval import evaluate_retrieval

    require_file(queries, "queries with gold article ids")
    result = evaluate_retrieval(
        corpus, queries, k=k, encoder=encoder, index_dir=index, limit=limit or None, ranking=ranking.value
    )
    if as_json:
        print_json(result)
        return
    heads = ("type", "n", "nDCG (95 %)", "hit@1", f"R@{result['deep']['k']}", "recall", "MRR")
    table = Table(*heads, title=f"k = {k}", title_justify="left")
    bounds = {**result["ci95"]["by_type"], "all": result["ci95"]["overall"]}
    for name, row in {**result["by_type"], "all": result["overall"]}.items():
        low, high = bounds[name]["ndcg"]
        far = result["deep"]["overall"] if name == "all" else result["deep"]["by_type"][name]
        numbers = (far["hit1"], far["recall"], row["recall"], row["mrr"])
        shown = (f"{row['ndcg']:.3f} ({low:.3f} to {high:.3f})", *(f"{number:.3f}" for number in numbers))
        table.add_row(name, str(row.get("n", "")), *shown)
    console.print(table)
    console.print(f"latency ms: {result['latency_ms']}", highlight=False)


@app.command("seeds")
def seeds(
    runs: Annotated[list[Path], typer.Argument(help="Finished run folders, one per seed.")],
    greedy: Annotated[bool, typer.Option("--greedy", help="Compare the greedy evaluations instead.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the JSON there.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The gain of GRPO over SFT with all seeds taken together.

    Example: legal-rl eval seeds runs/quickstart runs/seed1 runs/seed2
    """
    from legal_rl.evaluation.seeds import compare_seeds
    from legal_rl.quickstart.stages import write_json

    result = compare_seeds(runs, part="greedy" if greedy else "")
    if out is not None:
        write_json(out, result)
    if as_json:
        print_json(result)
        return
    table = Table("seed", "model", "reward", "correct", "searches", "malformed", title_justify="left")
    for row in result["seeds"]:
        for name in ("untrained", result["before"], result["after"]):
            values = row[name]
            shown = (values["reward"], values["correct"], values["searches"], values["malformed_share"])
            table.add_row(str(row["seed"]), name, *(f"{value:.3f}" for value in shown))
    console.print(table)
    for metric in ("reward", "correct", "searches"):
        gain = result["difference"][metric]
        console.print(
            f"{metric}: {result['after']} - {result['before']} = {gain['mean']:+.3f} "
            f"(95 % {gain['low']:+.3f} to {gain['high']:+.3f}; "
            f"over seeds {gain['t_low']:+.3f} to {gain['t_high']:+.3f})",
            highlight=False,
        )


benchmarks.register(app)
