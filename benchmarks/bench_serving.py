"""Load on a running application: closed loop (clients that wait for their answer) and open loop (questions at a rate).

    legal-rl serve app --config serve_cpu                            # in another terminal
    python benchmarks/bench_serving.py --clients 32 --minutes 5      # -> benchmarks/results/serving.json

Every question is streamed from `POST /v1/answers`. Reported: time to the first event after `start`, time to the whole
answer, output tokens per second, errors by code, and the application's own overhead: what neither engines nor retrieval
spent, from the `timings` of every answer (per turn, Lawyer's turns and Judge's together).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx_sse

RESULTS = Path(__file__).parent / "results" / "serving.json"
QUESTIONS = [
    "《刑法》第{n}条的内容是什么？", "《民法典》第{n}条怎么规定？", "盗窃{n}元怎么量刑？",
    "请问刑法第{n}条适用于什么情形？", "劳动合同到期{n}天后被辞退怎么办？", "借款{n}元不还怎么办？",
]  # fmt: skip


@dataclass
class Seen:
    """What one loop has measured."""

    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    overhead_turn_ms: list[float] = field(default_factory=list)
    overhead_share: list[float] = field(default_factory=list)
    tokens: int = 0
    codes: Counter[str] = field(default_factory=Counter)

    def report(self, seconds: float) -> dict[str, Any]:
        return {
            "answers": len(self.whole_s), "seconds": round(seconds, 1), "codes": dict(self.codes),
            "answers_per_s": round(len(self.whole_s) / seconds, 2),
            "output_tokens_per_s": round(self.tokens / seconds, 1),
            "first_event_s": quantiles(self.first_s), "answer_s": quantiles(self.whole_s),
            "overhead_ms_per_turn": quantiles(self.overhead_turn_ms),
            "overhead_share": round(statistics.fmean(self.overhead_share), 4) if self.overhead_share else None,
        }  # fmt: skip


def quantiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    pick = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {name: round(ordered[min(int(q * len(ordered)), len(ordered) - 1)], 3) for name, q in pick.items()}
    return {**found, "mean": round(statistics.fmean(ordered), 3)}


async def one(http: httpx.AsyncClient, question: str, seen: Seen) -> None:
    started, first, turns = time.perf_counter(), 0.0, 0
    try:
        async with httpx_sse.aconnect_sse(
            http, "POST", "/v1/answers", json={"question": question, "stream": True}
        ) as source:
            if source.response.status_code != 200:
                seen.codes[str(source.response.status_code)] += 1
                await asyncio.sleep(float(source.response.headers.get("retry-after", 0.2)))
                return
            async for message in source.aiter_sse():
                if message.event != "start" and not first:
                    first = time.perf_counter() - started
                data = json.loads(message.data)
                turns = max(turns, data.get("turn", -1) + 1)
                if message.event == "error":
                    seen.codes[data["code"]] += 1
                if message.event == "done":
                    note(seen, data, started, first, turns)
    except httpx.HTTPError as error:
        seen.codes[type(error).__name__] += 1


def note(seen: Seen, done: dict[str, Any], started: float, first: float, turns: int) -> None:
    timings = done["timings"]
    seen.codes["200"] += 1
    seen.first_s.append(first)
    seen.whole_s.append(time.perf_counter() - started)
    seen.tokens += done["usage"]["completion_tokens"]
    seen.overhead_turn_ms.append(1000 * timings["overhead_s"] / max(turns + (timings["judge_s"] > 0), 1))
    seen.overhead_share.append(timings["overhead_s"] / timings["total_s"])


def client(url: str, timeout_s: float, connections: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=url, timeout=timeout_s, limits=limits, trust_env=False)


def question(draw: random.Random) -> str:
    return draw.choice(QUESTIONS).format(n=draw.randint(1, 400))


async def closed_loop(url: str, clients: int, seconds: float) -> dict[str, Any]:
    """`clients` that ask again as soon as they have their answer."""
    seen, started = Seen(), time.perf_counter()

    async def ask_on(number: int, http: httpx.AsyncClient) -> None:
        draw = random.Random(number)
        while time.perf_counter() - started < seconds:
            await one(http, question(draw), seen)

    async with client(url, 120, clients) as http:
        await asyncio.gather(*(ask_on(number, http) for number in range(clients)))
    return {"clients": clients, **seen.report(time.perf_counter() - started)}


async def open_loop(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """Questions at `rate` per second with exponential gaps, whether or not the earlier ones are answered."""
    seen, draw, tasks = Seen(), random.Random(1), []
    started = time.perf_counter()
    async with client(url, 120, 1024) as http:
        due = started
        while due - started < seconds:
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            tasks.append(asyncio.create_task(one(http, question(draw), seen)))
            due += draw.expovariate(rate)
        await asyncio.gather(*tasks)
    return {"rate_per_s": rate, **seen.report(time.perf_counter() - started)}


def machine() -> str:
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores" + (f", GPUs {gpus}" if gpus else "")


async def main(arguments: argparse.Namespace) -> None:
    try:
        httpx.get(f"{arguments.url}/readyz", timeout=5, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        line = f"nothing ready at {arguments.url} ({error}); start: legal-rl serve app --config serve_cpu"
        raise SystemExit(line) from None
    await closed_loop(arguments.url, min(4, arguments.clients), 5)  # warm-up, not reported
    closed = await closed_loop(arguments.url, arguments.clients, 60 * arguments.minutes)
    print(json.dumps({"closed": closed}, indent=1), flush=True)
    rate = arguments.rate or round(0.7 * closed["answers_per_s"], 2)
    opened = await open_loop(arguments.url, rate, 60 * arguments.open_minutes)
    result = {"machine": machine(), "url": arguments.url, "closed": closed, "open": opened}
    print(json.dumps({"open": opened}, indent=1))
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")
    os.replace(temporary, RESULTS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=5.0, help="of the closed loop")
    parser.add_argument("--open-minutes", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=0.0, help="questions a second; 0 = 70 %% of the closed loop's")
    asyncio.run(main(parser.parse_args()))
