"""Time to score one model's published predictions of both benchmarks, on all cores and for the slowest task alone.

    python benchmarks/bench_scoring.py ../shared/data/predictions/lawbench/GPT4 ../shared/data/predictions/lexeval/gpt4

Wall seconds, imports and process starts included. The upstream scorer of 2-1 needs resources (thesaurus, pinyin,
confusion set) that no package registry carries, so it is not run here: its time is the one that its files' README
gives. The result is also written to benchmarks/results/scoring.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UPSTREAM_CORRECTION_S = 3.5 * 60
"""LawBench 2-1, one model, by the published scorer (README of the prediction files)."""


def timed(arguments: list[str]) -> tuple[float, dict]:
    """Wall seconds of `legal-rl eval score …` in a process of its own, and what it printed."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "legal_rl", "eval", "score", *arguments, "--json"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return time.perf_counter() - started, json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("LEGAL_RL_DATA", ROOT.parent / "shared" / "data")) / "predictions"
    default = [data / "lawbench" / "GPT4", data / "lexeval" / "gpt4"]
    parser.add_argument("folders", type=Path, nargs="*", default=default, help="one model's predictions, per benchmark")
    folders = [folder.resolve() for folder in parser.parse_args().folders]
    if absent := [folder for folder in folders if not folder.is_dir()]:
        raise SystemExit(f"skipped: {absent[0]} is absent; name a folder of published predictions")
    rows = {}
    for folder in folders:
        seconds, found = timed([str(folder)])
        rows[f"{found['benchmark']}, all tasks"] = {"seconds": seconds, "tasks": len(found["tasks"]), "n": found["n"]}
        if found["benchmark"] == "lawbench":
            seconds, slow = timed([str(folder), "--task", "2-1", "--workers", "1"])
            rows["lawbench 2-1, one core"] = {"seconds": seconds, "tasks": 1, "n": slow["n"]}
            rows["lawbench 2-1, upstream as published"] = {"seconds": UPSTREAM_CORRECTION_S, "tasks": 1, "n": slow["n"]}
    for name, row in rows.items():
        print(f"{name:40s} {row['seconds']:8.1f} s   {row['tasks']:3d} tasks {row['n']:6d} predictions")
    out = ROOT / "benchmarks" / "results" / "scoring.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
