"""Runs the agent loops in a thread of the trainer's process instead of in Ray processes of their own.

The trainer only waits while rollouts run, so a small machine loses nothing by the thread and saves one process with
all its imports. With `agent_workers` >= 1 verl's own manager is used.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

from legal_rl.training.router import StickyRouter


class LocalAgentManager:
    """Stands in for verl's `AgentLoopManagerTQ`: same `create` and `generate_sequences`."""

    def __init__(self, config: Any, llm_client: Any, teacher_client: Any, reward_loop_worker_handles: Any) -> None:
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="agent-loops", daemon=True)
        thread.start()
        handles = reward_loop_worker_handles
        self._worker = self._call(self._make_worker(config, llm_client, teacher_client, handles))

    @classmethod
    def create(cls, **kwargs: Any) -> LocalAgentManager:
        return cls(**kwargs)

    @staticmethod
    async def _make_worker(*args: Any) -> Any:
        """The class behind verl's Ray actor, made inside the loop that it will run in."""
        from verl.trainer.ppo.v1 import AgentLoopWorkerTQ

        actor: Any = AgentLoopWorkerTQ
        return actor.__ray_metadata__.modified_class(*args)

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def generate_sequences(self, prompts: Any) -> None:
        """Starts the agent loops of a batch and returns; their outputs arrive in the TransferQueue."""
        self._call(self._worker.generate_sequences(prompts))


class _LocalMethod:
    """A method that is called as a Ray actor's is: `.remote(…)` gives something to await."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        ready: concurrent.futures.Future[Any] = concurrent.futures.Future()
        ready.set_result(result)
        return _Ready(ready)


class _Ready:
    """Awaitable in any event loop."""

    def __init__(self, future: concurrent.futures.Future[Any]) -> None:
        self._future = future

    def __await__(self) -> Any:
        return self._future.result()
        yield  # makes this a generator: awaiting it takes no turn of the loop


class LocalRouter:
    """A `StickyRouter` of this process behind the interface of a Ray actor handle."""

    def __init__(self, servers: dict[str, Any]) -> None:
        self._router = StickyRouter(servers)

    def __getattr__(self, name: str) -> _LocalMethod:
        if name.startswith("_"):
            raise AttributeError(name)
        return _LocalMethod(getattr(self._router, name))


def route_in_this_process() -> None:
    """Makes verl create a `LocalRouter` where it would start a Ray actor; for agent loops of this process only."""
    from verl.workers.rollout import router

    def local_router(servers: dict[str, Any], **_options: Any) -> LocalRouter:
        return LocalRouter(servers)

    if not hasattr(router, "get_router_handle"):
        raise ImportError("verl.workers.rollout.router.get_router_handle is gone; adapt legal_rl.training.local_agents")
    router.get_router_handle = local_router  # type: ignore[assignment]
