"""Trajectories as a Ray Data map: every worker opens the Assistant itself and plays its share of the questions.

What comes back goes into the same attempt file as in one process, so `make_trajectories` finds it played: the choice of
trajectories, the files and their order are those of one process; only clock readings differ.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envs.env import EnvConfig, LegalEnv
from envs.records import RolloutWriter, question_from_dict, question_to_dict, rollout_from_dict, rollout_to_dict
from envs.rollout import run_rollout
from envs.types import Question, Rollout
from legal_rl.data.pipeline.trajectories import Lawyer, Progress
from legal_rl.data.synthesize import finished
from legal_rl.errors import StageError
from retrieval_server.types import Retriever

BATCH = 32
"""Questions that a worker plays at a time: their searches travel together."""


class PlayWorker:
    """One actor of the map: the Assistant is opened once.

    Args:
        open_retriever: called in the worker.
    """

    def __init__(
        self, open_retriever: Callable[[], Retriever], environment: EnvConfig, lawyer: Lawyer, attempt: int
    ) -> None:
        self.retriever, self.environment, self.lawyer, self.attempt = open_retriever(), environment, lawyer, attempt

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        questions = [question_from_dict(json.loads(line)) for line in batch["question"]]
        rollouts = asyncio.run(self._play(questions))
        return {"rollout": [json.dumps(rollout_to_dict(rollout), ensure_ascii=False) for rollout in rollouts]}

    async def _play(self, questions: Sequence[Question]) -> list[Rollout]:
        async def one(question: Question) -> Rollout:
            policy = self.lawyer.policy(question, self.attempt)
            assert policy is not None
            return await run_rollout(question, policy, LegalEnv(self.retriever, self.environment))

        return list(await asyncio.gather(*(one(question) for question in questions)))


def play_on_ray(
    questions: Sequence[Question],
    open_retriever: Callable[[], Retriever],
    environment: EnvConfig,
    lawyer: Lawyer,
    attempt: int,
    path: Path,
    progress: Progress = lambda name, done, total: None,
) -> None:
    """Play on the Ray cluster that is connected what `path` does not hold yet.

    Raises:
        StageError: an outage; what was played is in `path`, the same call goes on.
    """
    import ray
    import ray.data

    done = finished(path, questions)
    missing = [q for q in questions if q.id not in done and lawyer.policy(q, attempt) is not None]
    if not missing:
        return
    items = [{"question": json.dumps(question_to_dict(question), ensure_ascii=False)} for question in missing]
    workers = max(1, min(len(missing) // BATCH + 1, int(ray.cluster_resources().get("CPU", 1))))
    worker: Any = PlayWorker
    arguments = (open_retriever, environment, lawyer, attempt)
    data = ray.data.from_items(items, override_num_blocks=max(1, len(items) // BATCH))
    played = data.map_batches(worker, fn_constructor_args=arguments, concurrency=workers, batch_size=BATCH)
    failures: list[str] = []
    with RolloutWriter(path) as writer:
        for count, row in enumerate(played.iter_rows(), start=len(done) + 1):
            rollout = rollout_from_dict(json.loads(row["rollout"]))
            if rollout.stop_reason.invalid:
                failures.append(f"{rollout.question.id}: {rollout.stop_reason}: {rollout.error}")
            else:
                writer.write(rollout)
            progress(f"attempt {attempt} (Ray)", count, len(questions))
    if failures:
        raise StageError(
            f"{len(failures)} of {len(questions)} questions could not be played ({failures[0]}); what was played is "
            "kept, run the same command again"
        )
