"""Case briefs made at index time; a request only adds the line that depends on its query.

`briefs.jsonl` in the index folder, one line per case::

    {"id": "gen-0-0001", "head": "云州市中级人民法院（中级） 盗窃罪", "tail": "｜判决：有期徒刑八个月｜PSI 240.0",
     "compact": "云州市中级人民法院 盗窃罪 有期徒刑八个月", "told": "", "model": ""}

`told` is an LLM's brief (`legal-rl index briefs`), empty where only rules have worked.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from retrieval_server.briefs import brief_parts, compact_brief, join_brief, key_facts
from retrieval_server.config import AssistantConfig
from retrieval_server.errors import AssistantError, IndexStateError
from retrieval_server.llm import ChatModel
from retrieval_server.summariser import summarise_case
from retrieval_server.types import Case, SearchQuery, Source

FILE = "briefs.jsonl"
GENERAL = "不针对具体案件：写一份供各类案件对照的通用摘要"
"""Stands in the prompt where the case to compare with would."""
LINE_CHARS = 60
"""Longest query-dependent line behind an LLM's brief."""


class StoredBrief(BaseModel):
    """What of a case's brief does not depend on the query."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str
    head: str
    tail: str
    compact: str
    told: str = ""
    model: str = ""


def extract(case: Case) -> StoredBrief:
    """The extractive backend: court, charges, outcome and PSI from the record alone."""
    head, tail = brief_parts(case)
    return StoredBrief(id=case.id, head=head, tail=tail, compact=compact_brief(case, max_chars=10_000))


def show(brief: StoredBrief, case: Case, max_chars: int, query: str = "", compact: bool = False) -> str:
    """The evidence text: the stored brief and, where there is room, the facts closest to the query."""
    if compact:
        return compact_brief(case, max_chars) if len(brief.compact) > max_chars else brief.compact
    if not brief.told:
        return join_brief(brief.head, brief.tail, case.facts, max_chars, query)
    near = key_facts(case.facts, LINE_CHARS, query) if query.strip() else ""
    return f"{brief.told}\n与检索相关：{near}" if near else brief.told


def write_briefs(briefs: Iterable[StoredBrief], folder: Path) -> None:
    """Write the file, whole or not at all."""
    temporary = folder / f"{FILE}.tmp{os.getpid()}"
    with temporary.open("w", encoding="utf-8") as out:
        out.writelines(brief.model_dump_json() + "\n" for brief in briefs)
    os.replace(temporary, folder / FILE)


def read_briefs(path: Path) -> dict[str, StoredBrief]:
    """Id -> brief; empty where an older index has no such file.

    Raises:
        IndexStateError: names file and line.
    """
    if not path.is_file():
        return {}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            brief = StoredBrief.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]["msg"]
            raise IndexStateError(f"{path}: line {number}: {first}; build the index again") from None
        found[brief.id] = brief
    return found


def tell_all(
    cases: Sequence[Case],
    stored: Mapping[str, StoredBrief],
    config: AssistantConfig,
    journal: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[StoredBrief], dict[str, str]]:
    """The LLM backend: a brief of every case; what was told is in the journal, so a killed run pays nothing twice.

    Returns:
        All briefs in the order of the cases, and case id -> reason for those that keep their extractive one.

    Raises:
        AssistantError: no LLM is configured.
    """
    if config.llm is None:
        raise AssistantError("briefs by an LLM need its endpoint")
    told = _told(journal, config.llm.model)
    failed: dict[str, str] = {}
    missing = [case for case in cases if case.id not in told]
    before = len(cases) - len(missing)
    asyncio.run(_ask(missing, told, failed, config, journal, lambda done: progress(before + done, len(cases))))
    made = []
    for case in cases:
        brief = stored.get(case.id) or extract(case)
        text = told.get(case.id, "")
        made.append(brief.model_copy(update={"told": text, "model": config.llm.model if text else ""}))
    return made, failed


async def _ask(
    missing: Sequence[Case],
    told: dict[str, str],
    failed: dict[str, str],
    config: AssistantConfig,
    journal: Path,
    progress: Callable[[int], None],
) -> None:
    assert config.llm is not None
    llm, query = ChatModel(config.llm), SearchQuery(source=Source.PRECEDENT, query=GENERAL)

    gate = asyncio.Semaphore(config.llm.max_concurrency)  # waiting in line is not part of a brief's deadline

    async def one(case: Case) -> tuple[Case, str | AssistantError]:
        try:
            async with gate:
                return case, await summarise_case(llm, query, case, config)
        except AssistantError as error:
            return case, error

    try:
        with journal.open("a", encoding="utf-8") as out:
            for done, next_one in enumerate(asyncio.as_completed([one(case) for case in missing]), start=1):
                case, said = await next_one
                if isinstance(said, AssistantError):
                    failed[case.id] = str(said)
                else:
                    told[case.id] = said
                    row = {"id": case.id, "model": config.llm.model, "told": said}
                    out.write(json.dumps(row, ensure_ascii=True) + "\n")
                    out.flush()
                progress(done)
    finally:
        await llm.aclose()


def _told(journal: Path, model: str) -> dict[str, str]:
    """Briefs of this model in the journal; a line torn by a kill is asked again."""
    found: dict[str, str] = {}
    if not journal.is_file():
        return found
    content = journal.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        journal.write_bytes(whole)
    for line in whole.splitlines():
        row = json.loads(line)
        if row["model"] == model:
            found[row["id"]] = row["told"]
    return found
