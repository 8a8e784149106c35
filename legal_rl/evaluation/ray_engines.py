"""Several replicas of one model on a Ray cluster behind the local engine's interface.

    async with RayEngines(model_dir, EngineSettings(), replicas=4) as engines:
        sample = await engines.generate(prompt_ids, max_tokens=64, stop_ids=(im_end,))

Each replica is an actor with a `LocalEngine` of its own; a request goes to the one with the fewest in work. A replica
that dies takes no answer with it: its requests are asked again at another one, and the run ends only without any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.errors import PolicyError
from legal_rl.errors import ModelError
from legal_rl.evaluation.local_engine import EngineSettings, LocalEngine, Sample, check_model_dir

START_DEADLINE_S = 600.0
"""For loading the replicas, a large model from a network disk included."""
_IN_WORK = 1_000
"""Requests that one actor may hold; its engine batches them."""


class Replica:
    """The actor's class: one engine."""

    async def start(self, model_dir: str, settings: EngineSettings) -> int:
        """Load the model; returns the process id."""
        import os

        self.engine = LocalEngine(Path(model_dir), settings)
        await self.engine.__aenter__()
        return os.getpid()

    async def generate(self, prompt_ids: Sequence[int], options: dict[str, Any]) -> Sample:
        return await self.engine.generate(prompt_ids, **options)


class RayEngines:
    """A pool of replicas; use it as an async context manager.

    Args:
        replicas: number of actors.
        gpus_per_replica: GPUs of each; None = one where the cluster has any, else none.

    Raises:
        ModelError: on entering, when a replica cannot load the model or the cluster has no room for it.
    """

    def __init__(
        self,
        model_dir: Path,
        settings: EngineSettings,
        replicas: int,
        gpus_per_replica: float | None = None,
        replica_class: type = Replica,
    ) -> None:
        check_model_dir(model_dir)
        self.model_dir, self.settings, self.replicas = model_dir.resolve(), settings, replicas
        self.gpus_per_replica, self.replica_class = gpus_per_replica, replica_class
        self.pids: list[int] = []
        self._actors: list[Any] = []
        self._in_work: dict[int, int] = {}
        self._started_ray = False

    async def __aenter__(self) -> RayEngines:
        import ray

        if not ray.is_initialized():
            ray.init(log_to_driver=False)  # RAY_ADDRESS joins a cluster
            self._started_ray = True
        gpus = self.gpus_per_replica
        if gpus is None:
            gpus = 1.0 if ray.cluster_resources().get("GPU", 0) else 0.0
        made: Any = ray.remote(self.replica_class)
        actor = made.options(num_cpus=1 if gpus else 0, num_gpus=gpus, max_concurrency=_IN_WORK)
        self._actors = [actor.remote() for _ in range(self.replicas)]
        try:
            async with asyncio.timeout(START_DEADLINE_S):
                starting = [a.start.remote(str(self.model_dir), self.settings) for a in self._actors]
                self.pids = list(await asyncio.gather(*starting))
        except Exception as error:
            await self.__aexit__()
            reason = str(getattr(error, "cause", None) or error).strip().splitlines()
            said = reason[-1] if reason else f"no replica within {START_DEADLINE_S:g} s"
            raise ModelError(f"{self.replicas} replicas of {self.model_dir} do not start: {said}") from error
        self._in_work = dict.fromkeys(range(self.replicas), 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        import ray

        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        if self._started_ray:
            ray.shutdown()

    async def generate(self, prompt_ids: Sequence[int], **options: Any) -> Sample:
        """As `LocalEngine.generate`; raises `PolicyError` also when no replica is left."""
        from ray.exceptions import RayActorError, RayTaskError

        while self._in_work:
            place = min(self._in_work, key=self._in_work.__getitem__)
            self._in_work[place] += 1
            try:
                return await self._actors[place].generate.remote(list(prompt_ids), options)
            except RayActorError:
                self._in_work.pop(place, None)
            except RayTaskError as error:
                raise PolicyError(str(error.cause)) from error
            finally:
                if place in self._in_work:
                    self._in_work[place] -= 1
        raise PolicyError(f"all {self.replicas} replicas of {self.model_dir.name} have died")
