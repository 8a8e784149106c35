"""Precision and recall of the leakage and the distractor rules on the hand-labelled sets of the tests.

python benchmarks/labelled_sets.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
LABELLED = ROOT / "tests" / "legal_rl" / "data" / "pipeline" / "labelled"


def score(pairs: list[tuple[bool, bool]]) -> dict[str, float]:
    """Counts, precision and recall of (truth, said) pairs."""
    right = sum(truth and said for truth, said in pairs)
    said, true = sum(said for _, said in pairs), sum(truth for truth, _ in pairs)
    return {
        "cases": len(pairs),
        "positive": true,
        "precision": round(right / said, 4),
        "recall": round(right / true, 4),
    }


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (LABELLED / name).read_text(encoding="utf-8").splitlines()]


def main() -> None:
    from legal_rl.data.pipeline.distractors import reject
    from legal_rl.data.pipeline.leakage import find_leak

    result = {}
    for suffix in ("", "_held_out"):
        result[f"leakage{suffix} (positive: the question leaks)"] = score(
            [
                (label == "1", find_leak(question, answer) is not None)
                for label, question, answer in rows(f"leakage{suffix}.tsv")
            ]
        )
        result[f"distractors{suffix} (positive: the candidate may be used)"] = score(
            [
                (label == "1", not reject(candidate, answer, source))
                for label, source, answer, candidate in rows(f"distractors{suffix}.tsv")
            ]
        )
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
