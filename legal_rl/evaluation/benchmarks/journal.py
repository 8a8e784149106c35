"""The journal of a run: one line per sample as it ends, so that a killed run goes on with what is missing.

{"id": "3-4/17", "task": "3-4", "idx": 17, "status": "ok", "prediction": "12个月", "usage": {…}, "queries": […], …}
{"id": "3-4/18", "task": "3-4", "idx": 18, "status": "failed", "reason": "model … failed after 5 retries: …"}
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from envs.records import rollout_to_dict
from envs.types import Provenance, Rollout
from legal_rl.evaluation.benchmarks.endpoints import Meter
from legal_rl.evaluation.benchmarks.predictions import read_lines, write_lines
from legal_rl.evaluation.benchmarks.records import BenchmarkError
from legal_rl.evaluation.benchmarks.samples import Sample
from legal_rl.evaluation.benchmarks.systems import Answered

CHARS_PER_TOKEN = 1.5
"""Of Chinese legal text, for the tokens of evidence where the endpoint alone knows the tokenizer."""

Entry = dict[str, Any]


class LineJournal:
    """Appends entries with an `id` to a JSON Lines file; the last entry of an id counts.

    Raises:
        BenchmarkError: the file holds a line that is no entry, or another process writes to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path.with_name(f".{path.name}.lock"))
        if path.exists():
            _drop_torn_end(path)
            for number, entry in enumerate(read_lines(path), start=1):
                if not isinstance(entry.get("id"), str) or not isinstance(entry.get("status"), str):
                    raise BenchmarkError(f"{path}: line {number}: fields 'id' and 'status' are needed")
                self.entries[entry["id"]] = entry
        self._file = path.open("a", encoding="utf-8")

    def add(self, entry: Entry) -> None:
        """Append one entry and flush it; half a surrogate pair, which no file can hold, becomes `?`."""
        line = json.dumps(entry, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode("utf-8")
        self._file.write(line + "\n")
        self._file.flush()
        self.entries[entry["id"]] = json.loads(line)

    def close(self, ids: Iterable[str]) -> list[Entry]:
        """Write the journal anew in the order of the ids, one entry each, and return those entries.

        Entries of other ids, such as verdicts on other tasks, stay behind them.
        """
        self._file.close()
        ordered = [self.entries[name] for name in ids if name in self.entries]
        kept = {entry["id"] for entry in ordered}
        write_lines(self.path, [*ordered, *(entry for name, entry in self.entries.items() if name not in kept)])
        self._lock.close()
        return ordered


class Journal(LineJournal):
    """A run's samples; only a failed one is asked again."""

    def done(self, sample: Sample) -> bool:
        """The sample was answered, or the mode does not apply to it; failed ones are tried again."""
        return self.entries.get(sample.id, {}).get("status") in ("ok", "not_applicable")

    @property
    def wall_s(self) -> float:
        """Seconds of the run when its last entry was written, all starts together."""
        return max((entry.get("wall_s", 0.0) for entry in self.entries.values()), default=0.0)


def answered_entry(sample: Sample, answered: Answered, meter: Meter, seconds: float) -> Entry:
    """What a sample page needs: question, trajectory, evidence, answer, reference, and what it cost."""
    rollout, usage = answered.rollout, meter.as_dict()
    exact = _rollout_usage(rollout) if rollout is not None and rollout.tokens else {}
    usage |= {name: usage.get(name, 0) + count for name, count in exact.items()}  # the meter has the Judge's part
    counted = {unit.id for unit in rollout.evidence} if rollout is not None and exact else set()
    chars = sum(len(unit.text) for unit in answered.evidence if unit.id not in counted)
    usage["retrieval_tokens"] = usage.get("retrieval_tokens", 0) + round(chars / CHARS_PER_TOKEN)
    usage["retrieval_estimated"] = int(chars > 0)
    return _head(sample) | {
        "status": "ok",
        "prediction": answered.text,
        "reference": sample.reference,
        "question": sample.prompt,
        "queries": list(answered.queries),
        "evidence": [unit.model_dump(mode="json", exclude_defaults=True) for unit in answered.evidence],
        "lawyer_answer": rollout.answer if rollout else "",
        "stop_reason": rollout.stop_reason.value if rollout else "",
        "turns": _turns(rollout) if rollout else [],
        "usage": usage,
        "seconds": round(seconds, 4),
        "tool_s": round(answered.tool_s, 4),
        "degraded": answered.degraded,
        "made_up": answered.made_up,
        "short": answered.short,
    }


def failed_entry(sample: Sample, reason: str, meter: Meter, seconds: float) -> Entry:
    """An outage: counted and asked again by the next run, never scored."""
    head = _head(sample) | {"status": "failed", "reason": reason, "question": sample.prompt}
    return head | {"reference": sample.reference, "usage": meter.as_dict(), "seconds": round(seconds, 4)}


def skipped_entry(sample: Sample, reason: str) -> Entry:
    """The mode has nothing to do with this sample: not asked again, and neither scored nor a failure."""
    head = _head(sample) | {"status": "not_applicable", "reason": reason, "question": sample.prompt}
    return head | {"reference": sample.reference, "usage": {}, "seconds": 0.0}


def _head(sample: Sample) -> Entry:
    return {"id": sample.id, "task": sample.task.id, "idx": sample.index}


def _turns(rollout: Rollout) -> list[Entry]:
    turns = rollout_to_dict(rollout)["turns"]
    return [
        {"text": turn["completion"]["text"], "action": turn["action"]["kind"], "observation": turn["observation"]}
        for turn in turns
    ]


def _rollout_usage(rollout: Rollout) -> dict[str, int]:
    """Tokens of a token-in, token-out rollout, exactly: each turn reads everything before its first own token."""
    record = rollout.tokens
    assert record is not None
    first: dict[int, int] = {}
    for position, (who, turn) in enumerate(zip(record.provenance, record.turn, strict=True)):
        if who == Provenance.POLICY:
            first.setdefault(turn, position)
    return {
        "calls": len(first),
        "input_tokens": sum(first.values()),
        "output_tokens": sum(record.policy_mask),
        "retrieval_tokens": sum(record.evidence),
    }


def _locked(path: Path) -> IO[str]:
    """The file, locked as long as it is open: two runs in one folder would mix their answers."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise BenchmarkError(f"{path.parent}: another process is working here") from None
    return file


def _drop_torn_end(path: Path) -> None:
    """A line without its end was being written when its writer was killed."""
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        with path.open("rb+") as file:
            file.truncate(content.rfind(b"\n") + 1)
