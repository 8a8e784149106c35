"""Speed and memory of the contamination filter on one core.

    python benchmarks/bench_decontamination.py --benchmark ../shared/data/lawbench --benchmark ../shared/data/lexeval

Sources are generated judgments mixed with random ideographs; the megabytes are those of their UTF-8 text. Seconds are
CPU seconds of this process, so other work on the machine does not count. The result is also written to
benchmarks/results/decontamination.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def sources(megabytes: int) -> list[str]:
    """About this many megabytes of judgment-like texts, no two alike."""
    from retrieval_server.generated_cases import iter_generated_cases

    facts = [case.facts + case.reason + case.result for case in iter_generated_cases(seed=5, count=300)]
    rng = random.Random(5)
    texts, size = [], 0
    while size < megabytes * 1_000_000:
        noise = "".join(chr(0x4E00 + rng.randrange(20_000)) for _ in range(40))
        texts.append(f"{noise}{rng.choice(facts)}{rng.choice(facts)}")
        size += len(texts[-1].encode())
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", type=Path, action="append", help="default: both of the data folder")
    parser.add_argument("--megabytes", type=int, default=40)
    options = parser.parse_args()
    data = Path(os.environ.get("LEGAL_RL_DATA", ROOT.parent / "shared" / "data"))
    benchmarks = options.benchmark or [data / "lawbench", data / "lexeval"]
    if absent := [folder for folder in benchmarks if not folder.exists()]:
        raise SystemExit(f"skipped: {absent[0]} is absent; name a folder with --benchmark")
    from legal_rl.data.pipeline.contamination import scan
    from legal_rl.data.pipeline.library import build_library

    texts = sources(options.megabytes)
    size = sum(len(text.encode()) for text in texts) / 1e6
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.process_time()
    library = build_library(benchmarks)
    built = time.process_time()
    touched = sum(overlap.shared > 0 for overlap in scan(library, texts))
    scanned = time.process_time()
    result = {
        "benchmarks": library.summary(),
        "library_mb": library.nbytes / 1e6,
        "build_s": built - started,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rss_before_library_mb": before,
        "texts": len(texts),
        "texts_with_a_shared_gram": touched,
        "megabytes": size,
        "scan_s": scanned - built,
        "mb_per_s_and_core": size / (scanned - built),
    }
    out = ROOT / "benchmarks" / "results" / "decontamination.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
