"""R_query: are the searches good questions to their source (paper, section 3.3; weight w4).

Read from the structured actions and results, never from rendered text. Each search earns a quarter for each of:
readable and within length, the right kind of thing for its source, no repeat, at least one new evidence unit above the
score floor.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from envs.types import Precedent, Reference, Rollout, Statute
from retrieval_server.citations import resolve_citations
from rewards.text import normalise
from rewards.types import RewardTerm

MAX_QUERY_CHARS = 300
_NORM_WORDS = re.compile(
    r"法|条例|规定|解释|办法|规则|罪|刑|责任|义务|权利|合同|赔偿|处罚|期限|条件|标准|效力|程序|管辖|量刑|构成|要件|条文"
)
_MIN_FACT_CHARS = 6


def query(rollout: Rollout, reference: Reference | None, score_floor: float = 0.0) -> RewardTerm:
    """Mean quality of the searches; without any, 1 where the reference needs none and 0 otherwise."""
    scores = [sum(parts) / len(parts) for parts in search_parts(rollout, score_floor)]
    if scores:
        return RewardTerm("query", sum(scores) / len(scores), reason=f"{len(scores)} searches")
    needless = reference is not None and bool(reference.actions) and not reference.num_searches
    return RewardTerm("query", float(needless), reason="no search needed" if needless else "no search")


def search_parts(rollout: Rollout, score_floor: float = 0.0) -> Iterator[tuple[bool, bool, bool, bool]]:
    """(readable, right kind, no repeat, new evidence) for each search in order."""
    asked: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for turn in rollout.turns:
        if not isinstance(turn.action, Statute | Precedent):
            continue
        key = search_key(turn.action)
        new = {unit.id for unit in turn.result.evidence if unit.score >= score_floor} if turn.result else set()
        yield _readable(turn.action), _right_kind(turn.action), key not in asked, bool(new - seen)
        asked.add(key)
        seen |= new


def repeated_searches(rollout: Rollout) -> int:
    """Number of searches that repeat an earlier one, spelling differences aside."""
    keys = [search_key(action) for action in rollout.searches]
    return len(keys) - len(set(keys))


def search_key(action: Statute | Precedent) -> tuple[str, str]:
    """What makes two searches the same: the source and everything that is asked of it."""
    details = action.intent if isinstance(action, Statute) else f"{action.circumstances}{action.charge}"
    return action.kind, f"{normalise(action.query)}|{normalise(details)}"


def _readable(action: Statute | Precedent) -> bool:
    letters = sum(unicodedata.category(ch)[0] in "LN" for ch in action.query)
    return letters >= 2 and 2 * letters >= len(action.query) and len(action.query) <= MAX_QUERY_CHARS


def _right_kind(action: Statute | Precedent) -> bool:
    """A statute query names a law, an article or a legal notion; a precedent query tells facts or names a charge."""
    if isinstance(action, Statute):
        return bool(_NORM_WORDS.search(action.query)) or bool(resolve_citations(action.query))
    facts = normalise(action.query + action.circumstances)
    cites_only = bool(resolve_citations(action.query)) and len(facts) < 2 * _MIN_FACT_CHARS
    return not cites_only and (bool(action.charge.strip()) or len(facts) >= _MIN_FACT_CHARS or "罪" in facts)
