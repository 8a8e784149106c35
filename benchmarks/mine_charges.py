"""Writes `retrieval_server/ranking/charges.txt`: the charge table of a corpus that holds the interpretations on 罪名.

python benchmarks/mine_charges.py --corpus norms.jsonl.gz
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "retrieval_server" / "ranking" / "charges.txt"
HEAD = "# charge<TAB>Criminal Law articles; mined from the interpretations on names of charges, former names too.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    from retrieval_server.corpus import load_articles
    from retrieval_server.ranking.charges import mine_charges

    table = mine_charges(load_articles(options.corpus))
    lines = [
        f"{name}\t{' '.join(f'{no}-{sub}' if sub else str(no) for no, sub in sorted(refs))}\n"
        for name, refs in sorted(table.items(), key=lambda item: (min(item[1], default=(0, 0)), item[0]))
        if refs
    ]
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text(HEAD + "".join(lines), encoding="utf-8")
    os.replace(temporary, options.out)
    print(f"{options.out.name}: {len(lines)} charges")


if __name__ == "__main__":
    main()
