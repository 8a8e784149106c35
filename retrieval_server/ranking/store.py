"""What the learned ranking computes once per corpus, kept in the index folder: seconds of every start saved.

Files in the index folder, all of them hashed in its manifest::

    ranking/bigrams-{codes,rows,weights,starts}.npy     BM25 over character bigrams of the indexed texts
    ranking/bodies-{codes,rows,weights,starts}.npy      the same of the bare texts
    ranking/priors.npz                                  how often laws and articles are cited
    ranking/charges.json                                charge -> [[article, 之, weight], …]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retrieval_server.postings import Postings
from retrieval_server.ranking.bigrams import BigramIndex
from retrieval_server.ranking.charges import Ref, charge_entries
from retrieval_server.ranking.priors import citation_priors
from retrieval_server.types import Article

VERSION = "1"
"""Part of the index's recipe: another way of computing these makes old indexes unusable."""
FOLDER = "ranking"
_PARTS = ("codes", "rows", "weights", "starts")


@dataclass(frozen=True, slots=True)
class RankingParts:
    """Everything of one corpus that does not depend on the query. N is the axis of articles."""

    bigrams: BigramIndex
    bodies: BigramIndex
    law_prior: np.ndarray
    """By law, in the order of their first articles."""
    article_prior_N: np.ndarray
    charges: Mapping[str, Mapping[Ref, float]]

    @classmethod
    def build(cls, articles: Sequence[Article], texts: Sequence[str]) -> RankingParts:
        """Compute all parts; `texts` are the indexed texts, in the order of the articles."""
        law_prior, article_prior_N = citation_priors(articles, numbered_laws(articles))
        bodies = BigramIndex.build([article.text for article in articles])
        return cls(BigramIndex.build(texts), bodies, law_prior, article_prior_N, charge_entries(articles))

    def save(self, index_folder: Path) -> None:
        """Write the files above."""
        folder = index_folder / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        for name, index in (("bigrams", self.bigrams), ("bodies", self.bodies)):
            postings = index.postings
            arrays = (index.codes_T, postings.rows_P, postings.weights_P, postings.starts_T)
            for part, array in zip(_PARTS, arrays, strict=True):
                np.save(folder / f"{name}-{part}.npy", array)
        np.savez(folder / "priors.npz", law=self.law_prior, article=self.article_prior_N)
        entries = {name: [[*ref, weight] for ref, weight in refs.items()] for name, refs in self.charges.items()}
        (folder / "charges.json").write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, index_folder: Path, documents: int) -> RankingParts | None:
        """Open what `save` wrote, the postings mapped from disk; None where an older index has no such files."""
        folder = index_folder / FOLDER
        if not (folder / "charges.json").is_file():
            return None
        bigrams, bodies = (_load_bigrams(folder, name, documents) for name in ("bigrams", "bodies"))
        with np.load(folder / "priors.npz", allow_pickle=False) as priors:
            law_prior, article_prior_N = priors["law"], priors["article"]
        entries = json.loads((folder / "charges.json").read_text(encoding="utf-8"))
        charges = {name: {(no, sub): weight for no, sub, weight in refs} for name, refs in entries.items()}
        return cls(bigrams, bodies, law_prior, article_prior_N, charges)


def _load_bigrams(folder: Path, name: str, documents: int) -> BigramIndex:
    codes, rows, weights, starts = (
        np.load(folder / f"{name}-{part}.npy", mmap_mode="r", allow_pickle=False) for part in _PARTS
    )
    return BigramIndex(np.asarray(codes), Postings(rows, weights, np.asarray(starts), documents))


def numbered_laws(articles: Sequence[Article]) -> dict[str, int]:
    """Law key -> number, in order of appearance."""
    return {key: number for number, key in enumerate(dict.fromkeys(article.law_key for article in articles))}
