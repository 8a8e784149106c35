"""Trajectory synthesis (paper, section 3.3): the scripted teacher plays every question through the real Assistant.

Files in the output folder, all JSON Lines of `envs.records`::

    train.questions.jsonl …       the four question sets; grpo, dev and test carry the perfect teacher as reference
    sft.rollouts.jsonl            correct trajectories of the (sometimes imperfect) teacher: the SFT data
    dropped.jsonl                 one line per trajectory that was left out, with the reason
    manifest.json                 counts, seeds, hashes, what was dropped and why

A killed synthesis goes on with the questions that have no trajectory yet.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.env import EnvConfig, LegalEnv
from envs.records import RolloutWriter, read_rollouts, rollout_to_dict, write_questions
from envs.rollout import run_rollout
from envs.types import Question, Reference, Rollout, Statute
from legal_rl.data.questions import QuestionSets
from legal_rl.data.settings import TeacherSettings
from legal_rl.data.teacher import TeacherPolicy
from legal_rl.errors import StageError
from retrieval_server.types import Retriever
from rewards.graders import grade

CONCURRENCY = 64
CORRECT = 0.999
ROOM = {"max_response_tokens": 100_000, "max_turn_tokens": 20_000}
"""The teacher writes text: limits in tokens, meant for a policy, do not apply to it."""

Progress = Callable[[str, int, int], None]


def synthesize(
    sets: QuestionSets,
    retriever: Retriever,
    env_config: EnvConfig,
    out_dir: Path,
    teacher: TeacherSettings | None = None,
    progress: Progress = lambda name, done, total: None,
) -> dict[str, Any]:
    """Play all sets and write the files above.

    Args:
        progress: told (set name, done, total) after every trajectory.

    Returns:
        The manifest.

    Raises:
        StageError: an outage made a trajectory invalid; what is finished stays, the same call goes on from there.
    """
    teacher = teacher or TeacherSettings()
    out_dir.mkdir(parents=True, exist_ok=True)
    env = env_config.model_copy(update=ROOM)
    manifest: dict[str, Any] = {"questions": sets.counts(), "teacher": teacher.model_dump(), "files": {}}
    imperfect = _play(sets.train, retriever, env, teacher, out_dir / "sft.all.jsonl", "train", progress)
    manifest["sft"] = _write_sft(imperfect, out_dir)
    for name, questions in (("grpo", sets.grpo), ("dev", sets.dev), ("test", sets.test)):
        perfect = _play(
            questions, retriever, env, TeacherSettings.perfect(), out_dir / f"{name}.teacher.jsonl", name, progress
        )
        manifest[name] = _write_referenced(name, questions, perfect, out_dir)
    write_questions(out_dir / "train.questions.jsonl", sets.train)
    manifest["files"] = {path.name: _sha256(path) for path in sorted(out_dir.glob("*.jsonl"))}
    _write_json(out_dir / "manifest.json", manifest)
    return manifest


def _play(
    questions: Sequence[Question],
    retriever: Retriever,
    env: EnvConfig,
    settings: TeacherSettings,
    path: Path,
    name: str,
    progress: Progress,
) -> list[Rollout]:
    """One trajectory per question, in the order of the questions; those in `path` already are not played again."""
    done = finished(path, [_marked(q, p) for q, p in _teachers(questions, settings)])
    missing = [q for q in questions if q.id not in done]
    with RolloutWriter(path) as writer:

        async def work() -> None:
            async for rollout in _rollouts(missing, retriever, env, settings):
                if rollout.stop_reason.invalid:
                    raise StageError(f"{rollout.question.id}: {rollout.stop_reason}: {rollout.error}")
                writer.write(rollout)
                done[rollout.question.id] = rollout
                progress(name, len(done), len(questions))

        asyncio.run(work())
    return [done[q.id] for q in questions]


def finished(path: Path, questions: Iterable[Question]) -> dict[str, Rollout]:
    """Id -> trajectory in `path` of exactly these questions; another question under the same id does not count."""
    if not path.exists():
        return {}
    wanted = {question.id: question for question in questions}
    rollouts = read_rollouts(path, allow_torn_end=True)
    return {r.question.id: r for r in rollouts if wanted.get(r.question.id) == r.question}


async def _rollouts(
    questions: Iterable[Question], retriever: Retriever, env: EnvConfig, settings: TeacherSettings
) -> AsyncIterator[Rollout]:
    """Trajectories as they finish in windows of `CONCURRENCY`, so that their searches travel in batches."""
    queue = list(questions)
    for start in range(0, len(queue), CONCURRENCY):
        window = queue[start : start + CONCURRENCY]
        plays = (run_rollout(_marked(q, p), p, LegalEnv(retriever, env)) for q, p in _teachers(window, settings))
        for rollout in await asyncio.gather(*plays):
            yield rollout


def _teachers(questions: Iterable[Question], settings: TeacherSettings) -> list[tuple[Question, TeacherPolicy]]:
    return [(question, TeacherPolicy(question, settings)) for question in questions]


def _marked(question: Question, policy: TeacherPolicy) -> Question:
    """The question with the kind of imperfection it is played with, for the record."""
    if not policy.imperfection:
        return question
    return replace(question, metadata={**question.metadata, "imperfection": policy.imperfection})


def reason_to_drop(rollout: Rollout) -> str:
    """Why a teacher's trajectory may not be learnt from; empty when it may."""
    if not rollout.answer:
        return f"no answer: {rollout.stop_reason}"
    score = grade(rollout.question.grader, rollout.answer, rollout.question.answer)
    return "" if score >= CORRECT else f"wrong answer ({rollout.question.grader} {score:.2f})"


def _write_sft(rollouts: Sequence[Rollout], out_dir: Path) -> dict[str, Any]:
    """Correct trajectories to `sft.rollouts.jsonl`, the others' reasons to `dropped.jsonl`; returns the counts."""
    reasons = [reason_to_drop(rollout) for rollout in rollouts]
    kept = [rollout for rollout, reason in zip(rollouts, reasons, strict=True) if not reason]
    _write_lines(out_dir / "sft.rollouts.jsonl", (rollout_to_dict(rollout) for rollout in kept))
    _write_lines(
        out_dir / "dropped.jsonl",
        (
            {"id": r.question.id, "family": r.question.family, "reason": reason, "answer": r.answer}
            for r, reason in zip(rollouts, reasons, strict=True)
            if reason
        ),
    )
    return {
        "kept": dict(sorted(Counter(r.question.family for r in kept).items())),
        "dropped": dict(
            sorted(Counter(r.question.family for r, why in zip(rollouts, reasons, strict=True) if why).items())
        ),
        "imperfect": dict(sorted(Counter(r.question.metadata.get("imperfection", "none") for r in kept).items())),
    }


def _write_referenced(
    name: str, questions: Sequence[Question], rollouts: Sequence[Rollout], out_dir: Path
) -> dict[str, Any]:
    """Questions with the perfect teacher as reference.

    GRPO leaves out what the teacher itself cannot answer from this knowledge base. The test set keeps every question;
    the teacher's accuracy on it is the manifest's `teacher_accuracy`.
    """
    pairs = list(zip(questions, rollouts, strict=True))
    right = [not reason_to_drop(rollout) for rollout in rollouts]
    chosen = [pair for pair, ok in zip(pairs, right, strict=True) if ok or name != "grpo"]
    write_questions(out_dir / f"{name}.questions.jsonl", [replace(q, reference=_reference(q, r)) for q, r in chosen])
    return {
        "questions": len(chosen),
        "dropped": len(pairs) - len(chosen),
        "teacher_accuracy": sum(right) / max(1, len(right)),
    }


def _reference(question: Question, rollout: Rollout) -> Reference:
    """The question's gold evidence and spans with the actions that the perfect teacher really took."""
    gold = question.reference or Reference()
    return replace(
        gold,
        actions=rollout.action_kinds,
        queries=tuple(search.query for search in rollout.searches if isinstance(search, Statute) or search.query),
    )


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    os.replace(temporary, path)


def _write_json(path: Path, value: Any) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    os.replace(temporary, path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
