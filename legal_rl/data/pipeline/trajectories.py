"""Stage 7 (paper, section 3.3): a Lawyer plays a data set's questions through the real Assistant; right answers stay.

Files in the output folder::

    attempt-0.rollouts.jsonl …   every finished trajectory, one file per attempt (best-of-n); a killed run goes on here
    sft.rollouts.jsonl           the best accepted trajectory of each training question
    sft.messages.jsonl           the same as chat messages with their provenance
    {train,dev,test}.questions.jsonl    all questions; those with an accepted trajectory carry it as reference
    grpo.parquet                 training questions with a reference, in verl's columns
    dropped.jsonl                questions without an accepted trajectory, and why
    manifest.json                counts and acceptance rate per task, hashes; written last

A question is dropped when no attempt gives an answer that its grader accepts: wholly, or from `OPEN_FROM` on where the
answer is free text (ROUGE-L, spans, the reward judge). An outage is no attempt: it is asked again by the next run.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envs.env import EnvConfig, LegalEnv
from envs.policy import Policy
from envs.records import RolloutWriter, read_questions, rollout_to_dict, write_questions
from envs.rollout import run_rollout
from envs.types import Question, Reference, Rollout
from legal_rl.data.pipeline.assemble import sha256_of
from legal_rl.data.pipeline.records import TrainingRecord, record_from_dict
from legal_rl.data.readers.lines import DataError, read_lines, write_lines
from legal_rl.data.splits import SPLITS
from legal_rl.data.synthesize import CORRECT, ROOM, finished
from legal_rl.errors import StageError
from retrieval_server.types import Retriever
from rewards import JudgeVerdict, compute_reward
from rewards.graders import grade
from rewards.judge import Judge, judge_rollout

OPEN_GRADERS = ("rouge_l", "span_f1", "judge")
OPEN_FROM = 0.6
"""Lowest score of a free-text answer that counts as right."""
GIVE_UP_AFTER = 50
"""Outages in a row after which a run stops: the endpoint or the Assistant is down."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Lawyer:
    """Who plays: `policy(question, attempt)` gives the policy of one rollout, None where it has no play for the task.

    Example: Lawyer("scripted", lambda question, attempt: RecordTeacher(question))
    """

    name: str
    policy: Callable[[Question, int], Policy | None]
    concurrency: int = 64
    own_limits: bool = True
    """False for a scripted teacher, whose text is not bounded by a model's tokens."""


def scripted_lawyer() -> Lawyer:
    """The rule-based teacher; attempts are all alike."""
    from legal_rl.data.pipeline.record_teacher import PLAYS, RecordTeacher

    def policy(question: Question, attempt: int) -> Policy | None:
        return RecordTeacher(question) if question.family in PLAYS else None

    return Lawyer("scripted", policy, own_limits=False)


def model_lawyer(base_url: str, model: str, *, temperature: float, concurrency: int, max_retries: int = 5) -> Lawyer:
    """A model behind an OpenAI-compatible endpoint (vLLM or remote); the key is in LEGAL_RL_TEACHER_KEY."""
    from envs.policy import ChatEndpoint, OpenAIPolicy

    endpoint = ChatEndpoint(
        base_url=base_url, model=model, api_key_env="LEGAL_RL_TEACHER_KEY", temperature=temperature,
        max_retries=max_retries,
    )  # fmt: skip
    policy = OpenAIPolicy(endpoint)
    return Lawyer(model, lambda question, attempt: policy, concurrency)


def make_trajectories(
    set_dir: Path,
    retriever: Retriever,
    environment: EnvConfig,
    out_dir: Path,
    lawyer: Lawyer,
    *,
    best_of: int = 1,
    limit: int = 0,
    open_from: float = OPEN_FROM,
    judge: Judge | None = None,
    on_ray: Callable[[], Retriever] | None = None,
    progress: Progress = lambda name, done, total: None,
) -> dict[str, Any]:
    """Play a finished data set and write the files above.

    Args:
        set_dir: folder of `data build`.
        best_of: attempts per question; the accepted one with the highest reward stays.
        limit: only the first so many questions of each task; 0 = all.
        open_from: see `OPEN_FROM`.
        on_ray: opens the Assistant in a worker: the questions are played on the connected Ray cluster (`ray_play`).
        judge: scores open answers (grader `judge`); without one ROUGE-L does.

    Returns:
        The manifest.

    Raises:
        DataError: the folder is no finished set. StageError: an outage; what was played is kept, the same call goes on.
    """
    records, questions = read_set(set_dir, limit)
    out_dir.mkdir(parents=True, exist_ok=True)
    (out_dir / "manifest.json").unlink(missing_ok=True)
    room = {"max_response_tokens": ROOM["max_response_tokens"]}  # of a text: characters, evidence included
    env = environment.model_copy(update=room if lawyer.own_limits else ROOM)
    playable = [question for question in questions if lawyer.policy(question, 0) is not None]
    if on_ray is not None:
        from legal_rl.data.pipeline.ray_play import play_on_ray

        for number in range(best_of):
            path = out_dir / f"attempt-{number}.rollouts.jsonl"
            play_on_ray(playable, on_ray, env, lawyer, number, path, progress)
    attempts = [
        play(playable, retriever, env, lawyer, number, out_dir / f"attempt-{number}.rollouts.jsonl", progress)
        for number in range(best_of)
    ]
    verdicts = asyncio.run(_verdicts(attempts, judge)) if judge else [{} for _ in attempts]
    chosen, dropped = choose(questions, attempts, verdicts, open_from)
    facts = _facts(set_dir, lawyer, env, best_of, limit) | {"open_from": open_from, "judged": judge is not None}
    return _write(out_dir, records, questions, chosen, dropped, facts)


def read_set(set_dir: Path, limit: int = 0) -> tuple[dict[str, TrainingRecord], list[Question]]:
    """Records by id, and their questions in the order of the file.

    Raises:
        DataError: no manifest (the build was interrupted), or a line that is no record.
    """
    if not (set_dir / "manifest.json").is_file():
        raise DataError(f"{set_dir}: no finished data set (manifest.json is missing); run legal-rl data build first")
    path = set_dir / "records.jsonl"
    records = [record_from_dict(data, f"{path}, line {number}") for number, data in read_lines(path)]
    by_id = {question.id: question for split in SPLITS for question in read_questions(_questions_file(set_dir, split))}
    taken: Counter[str] = Counter()
    kept = []
    for record in records:
        taken[record.profile] += 1
        if not limit or taken[record.profile] <= limit:
            kept.append(record)
    absent = next((record.id for record in kept if record.id not in by_id), None)
    if absent is not None:
        raise DataError(f"{set_dir}: record {absent} has no question; build the set again")
    return {record.id: record for record in kept}, [by_id[record.id] for record in kept]


def play(
    questions: Sequence[Question],
    retriever: Retriever,
    env: EnvConfig,
    lawyer: Lawyer,
    attempt: int,
    path: Path,
    progress: Progress = lambda name, done, total: None,
) -> dict[str, Rollout]:
    """One trajectory per question, at most `lawyer.concurrency` at a time; those in `path` are not played again.

    Raises:
        StageError: some could not be played because a model or the Assistant was away; the others are in `path`.
    """
    done = finished(path, questions)
    missing = [question for question in questions if question.id not in done]
    failures: list[str] = []
    in_a_row = 0

    async def work(writer: RolloutWriter) -> None:
        nonlocal in_a_row
        gate = asyncio.Semaphore(lawyer.concurrency)

        async def one(question: Question) -> Rollout | None:
            async with gate:
                policy = lawyer.policy(question, attempt)
                if policy is None or in_a_row >= GIVE_UP_AFTER:
                    return None
                return await run_rollout(question, policy, LegalEnv(retriever, env))

        for next_one in asyncio.as_completed([one(question) for question in missing]):
            rollout = await next_one
            if rollout is None:
                continue
            if rollout.stop_reason.invalid:
                failures.append(f"{rollout.question.id}: {rollout.stop_reason}: {rollout.error}")
                in_a_row += 1
                continue
            in_a_row = 0
            writer.write(rollout)
            done[rollout.question.id] = rollout
            progress(f"attempt {attempt}", len(done), len(questions))

    with RolloutWriter(path) as writer:
        asyncio.run(work(writer))
    if len(done) < len(questions):
        first = failures[0] if failures else "stopped"
        raise StageError(
            f"{len(questions) - len(done)} of {len(questions)} questions could not be played ({first}); what was "
            "played is kept, run the same command again"
        )
    return done


async def _verdicts(attempts: Sequence[dict[str, Rollout]], judge: Judge) -> list[dict[str, JudgeVerdict]]:
    """Attempt -> question id -> verdict on the open answers.

    Raises:
        StageError: the judge is away: an answer that nobody judged is neither right nor wrong.
    """
    found: list[dict[str, JudgeVerdict]] = []
    for played in attempts:
        open_ones = [rollout for rollout in played.values() if rollout.question.grader == "judge" and rollout.answer]
        said = await asyncio.gather(*(judge_rollout(r, r.question.reference, judge) for r in open_ones))
        failed = next((verdict.acc_error for verdict in said if verdict.acc_error), "")
        if failed:
            raise StageError(f"{failed}; the trajectories are kept, run the same command again")
        found.append({r.question.id: verdict for r, verdict in zip(open_ones, said, strict=True)})
    return found


def choose(
    questions: Sequence[Question],
    attempts: Sequence[dict[str, Rollout]],
    verdicts: Sequence[dict[str, JudgeVerdict]] = (),
    open_from: float = OPEN_FROM,
) -> tuple[dict[str, tuple[Rollout, float, int]], list[dict[str, Any]]]:
    """Question id -> (best accepted rollout, its reward, its attempt), and the rows of `dropped.jsonl`."""
    verdicts = verdicts or [{} for _ in attempts]
    chosen: dict[str, tuple[Rollout, float, int]] = {}
    dropped = []
    for question in questions:
        played = [
            (number, found[question.id], verdicts[number].get(question.id))
            for number, found in enumerate(attempts)
            if question.id in found
        ]
        reasons = [reason_to_drop(rollout, verdict, open_from) for _, rollout, verdict in played]
        right = [item for item, reason in zip(played, reasons, strict=True) if not reason]
        if right:
            # The first attempt wins a tie, so that more attempts change nothing without a reason.
            number, rollout, verdict = max(right, key=lambda item: (_reward(item[1], item[2]), -item[0]))
            chosen[question.id] = (rollout, _reward(rollout, verdict), number)
        else:
            reason = reasons[-1] if reasons else "the Lawyer has no play for this task"
            dropped.append({"id": question.id, "profile": question.family, "attempts": len(played), "reason": reason})
    return chosen, dropped


def reason_to_drop(rollout: Rollout, verdict: JudgeVerdict | None = None, open_from: float = OPEN_FROM) -> str:
    """Why a trajectory may not be learnt from; empty when it may."""
    question = rollout.question
    if not rollout.answer:
        return f"no answer: {rollout.stop_reason}"
    if verdict is not None and verdict.acc is not None:
        score = verdict.acc
    else:
        score = grade(question.grader, rollout.answer, question.answer)
    wanted = open_from if question.grader in OPEN_GRADERS else CORRECT
    return "" if score >= wanted else f"wrong answer ({question.grader} {score:.2f})"


def _reward(rollout: Rollout, verdict: JudgeVerdict | None) -> float:
    """Total of the default preset for an accepted rollout: only outages are invalid, and those are not accepted."""
    return float(compute_reward(rollout, rollout.question.reference, judge=verdict).total)


def _write(
    out_dir: Path,
    records: dict[str, TrainingRecord],
    questions: Sequence[Question],
    chosen: dict[str, tuple[Rollout, float, int]],
    dropped: list[dict[str, Any]],
    facts: dict[str, Any],
) -> dict[str, Any]:
    from legal_rl.training.rows import write_grpo_rows

    referenced = [_referenced(question, chosen) for question in questions]
    train = [question.id for question in questions if question.split == "train" and question.id in chosen]
    write_lines(out_dir / "sft.rollouts.jsonl", (rollout_to_dict(chosen[name][0]) for name in train))
    write_lines(
        out_dir / "sft.messages.jsonl",
        (messages_row(records[name], *chosen[name], lawyer=facts["lawyer"]) for name in train),
    )
    write_lines(out_dir / "dropped.jsonl", dropped)
    for split in SPLITS:
        write_questions(_questions_file(out_dir, split), [q for q in referenced if q.split == split])
    (out_dir / "grpo.parquet").unlink(missing_ok=True)
    if train:
        write_grpo_rows([q for q in referenced if q.split == "train" and q.id in chosen], out_dir / "grpo.parquet")
    manifest = facts | {
        "questions": len(questions),
        "accepted": len(chosen),
        "sft": len(train),
        "tasks": acceptance(questions, chosen, dropped),
        "files": {path.name: sha256_of(path) for path in sorted(out_dir.iterdir()) if _published(path)},
    }
    temporary = out_dir / f"manifest.json.tmp{os.getpid()}"
    temporary.write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")
    os.replace(temporary, out_dir / "manifest.json")
    return manifest


def _referenced(question: Question, chosen: dict[str, tuple[Rollout, float, int]]) -> Question:
    """The question with the actions and queries of its accepted trajectory as reference (R_align)."""
    if question.id not in chosen:
        return question
    rollout = chosen[question.id][0]
    queries = tuple(search.query for search in rollout.searches)
    gold = question.reference or Reference()
    return replace(question, reference=replace(gold, actions=rollout.action_kinds, queries=queries))


def messages_row(record: TrainingRecord, rollout: Rollout, reward: float, attempt: int, lawyer: str) -> dict[str, Any]:
    """One line of `sft.messages.jsonl`; `learn` marks the Lawyer's own turns: nothing else is a target."""
    return {
        "id": record.id,
        "messages": [
            {"role": m["role"], "content": m["content"], "learn": m["role"] == "assistant"} for m in rollout.messages
        ],
        "profile": record.profile,
        "source": record.source,
        "source_id": record.source_id,
        "licence": record.licence,
        "lawyer": lawyer,
        "attempt": attempt,
        "reward": round(reward, 6),
        "searches": len(rollout.searches),
        "evidence": [unit.id for unit in rollout.evidence],
        "stop_reason": rollout.stop_reason.value,
    }


def acceptance(
    questions: Iterable[Question], chosen: dict[str, Any], dropped: Iterable[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Task -> questions, accepted, rate, and the reasons of the others with their counts."""
    asked = Counter(question.family for question in questions)
    right = Counter(question.family for question in questions if question.id in chosen)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for row in dropped:
        reasons[row["profile"]][row["reason"].split(" (")[0].split(":")[0]] += 1
    return {
        task: {
            "questions": asked[task], "accepted": right[task], "rate": round(right[task] / asked[task], 4),
            "dropped": dict(reasons[task].most_common()),
        }
        for task in sorted(asked)
    }  # fmt: skip


def _facts(set_dir: Path, lawyer: Lawyer, env: EnvConfig, best_of: int, limit: int) -> dict[str, Any]:
    return {
        "set": sha256_of(set_dir / "manifest.json"),
        "lawyer": lawyer.name,
        "best_of": best_of,
        "limit": limit,
        "environment": env.model_dump(mode="json"),
    }


def _questions_file(folder: Path, split: str) -> Path:
    return folder / f"{split}.questions.jsonl"


def _published(path: Path) -> bool:
    return path.suffix in (".jsonl", ".parquet") and not path.name.startswith("attempt-")
