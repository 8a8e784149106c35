"""Gates, synthesis and quality control as stages on records, for `data map` here or as Ray Data maps.

Rows are (place, record) pairs as in `ray_map`. A row that a stage drops keeps its place and carries the reason under
`stages`; later stages leave it alone. `TeachStage` turns a source into a training record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from legal_rl.data.pipeline.assemble import principle_broken
from legal_rl.data.pipeline.gates import Decision, gate1
from legal_rl.data.pipeline.leakage import find_leak
from legal_rl.data.pipeline.profiles import TaskProfile
from legal_rl.data.pipeline.records import record_from_dict
from legal_rl.data.pipeline.synthesis import Teacher, make_one
from legal_rl.data.readers.lines import DataError
from legal_rl.data.readers.sources import SourceText, source_from_dict

Row = tuple[int, dict[str, Any]]


def mark(record: dict[str, Any], stage: str, reason: str) -> dict[str, Any]:
    """The record with what a stage made of it; an empty reason = it stays."""
    return {**record, "stages": {**record.get("stages", {}), stage: reason}}


def dropped_because(record: dict[str, Any]) -> str:
    """The first stage that dropped the record, with its reason; empty when none did."""
    return next((f"{stage}: {reason}" for stage, reason in record.get("stages", {}).items() if reason), "")


class Gate1Stage:
    """Gate 1 on sources: kind, metadata and length against the task."""

    def __init__(self, profile: TaskProfile) -> None:
        self.profile = profile

    def __call__(self, rows: list[Row]) -> list[Row]:
        return [(place, self._judged(place, record)) for place, record in rows]

    def _judged(self, place: int, record: dict[str, Any]) -> dict[str, Any]:
        if dropped_because(record):
            return record
        return mark(record, "gate1", gate1(_source(place, record), self.profile).reason)


class TeachStage:
    """Gate 2 and synthesis: sources become training records.

    On a cluster a model's teacher lives in one actor (`remote_teacher`), which owns the cache of paid answers.
    """

    def __init__(self, profile: TaskProfile, teacher: Teacher) -> None:
        self.profile, self.teacher = profile, teacher

    def __call__(self, rows: list[Row]) -> list[Row]:
        return asyncio.run(self._all(rows))

    async def _all(self, rows: Sequence[Row]) -> list[Row]:
        return list(await asyncio.gather(*(self._one(place, record) for place, record in rows)))

    async def _one(self, place: int, record: dict[str, Any]) -> Row:
        if dropped_because(record):
            return place, record
        outcome = await make_one((_source(place, record), self.profile), self.teacher)
        if outcome.record is None:
            return place, mark(record, outcome.stage, outcome.reason)
        made = outcome.record.model_dump(mode="json")
        return place, made | {"stages": {**record.get("stages", {}), "gate2": "", "synthesis": ""}}


class QualityStage:
    """Leakage (where the task is checked for it) and the three principles, on training records without options."""

    def __init__(self, profiles: Sequence[TaskProfile]) -> None:
        self.profiles = {profile.id: profile for profile in profiles}

    def __call__(self, rows: list[Row]) -> list[Row]:
        return [(place, self._judged(place, record)) for place, record in rows]

    def _judged(self, place: int, data: dict[str, Any]) -> dict[str, Any]:
        if dropped_because(data):
            return data
        record = record_from_dict({k: v for k, v in data.items() if k != "stages"}, f"record {place + 1}")
        profile = self.profiles.get(record.profile)
        if profile is None:
            raise DataError(f"record {place + 1}: unknown profile {record.profile!r}; name its file with --profile")
        leak = find_leak(record.question, record.answer, record.choices) if profile.leakage else None
        if leak:
            return mark(data, "quality", f"leakage: {leak.kind} {leak.text}")
        if profile.choice and not record.choices:  # options come with the assembly: its letters are checked there
            return mark(data, "quality", "")
        return mark(data, "quality", principle_broken(record, profile))


def remote_teacher(make: Any) -> Teacher:
    """A teacher in an actor of the running Ray cluster, used by every worker: one cache, one budget, one lock.

    Args:
        make: called in the actor; returns the teacher.
    """
    import ray

    class TeacherActor:
        def __init__(self) -> None:
            self.teacher: Teacher = make()

        async def feasible(self, source: SourceText, profile: TaskProfile) -> Decision:
            return await self.teacher.feasible(source, profile)

        async def write(self, source: SourceText, profile: TaskProfile) -> tuple[dict[str, Any] | None, str]:
            return await self.teacher.write(source, profile)

        def facts(self) -> tuple[str, frozenset[str] | None]:
            return self.teacher.name, self.teacher.tasks

    made: Any = ray.remote(TeacherActor)
    actor = made.options(num_cpus=0, max_concurrency=1_000).remote()
    name, tasks = ray.get(actor.facts.remote())
    return RemoteTeacher(actor, name, tasks)


class RemoteTeacher:
    """The workers' side of `remote_teacher`."""

    def __init__(self, actor: Any, name: str, tasks: frozenset[str] | None) -> None:
        self.actor, self.name, self.tasks = actor, name, tasks

    async def feasible(self, source: SourceText, profile: TaskProfile) -> Decision:
        """Gate 2, in the actor."""
        return await self.actor.feasible.remote(source, profile)

    async def write(self, source: SourceText, profile: TaskProfile) -> tuple[dict[str, Any] | None, str]:
        """One question, from the actor."""
        return await self.actor.write.remote(source, profile)


def _source(place: int, record: dict[str, Any]) -> SourceText:
    try:
        return source_from_dict({name: value for name, value in record.items() if name != "stages"})
    except TypeError as error:
        raise DataError(
            f"record {place + 1}: no source text ({error}); `legal-rl data map` reads what `data sources` writes"
        ) from None
