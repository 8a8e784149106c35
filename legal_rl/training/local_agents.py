"""Runs the agent loops in a thread of the trainer's process instead of in Ray processes of their own.

The trainer only waits while rollouts run, so a small machine loses nothing by the thread and saves one process with
all its imports. With `agent_workers` >= 1 verl's own manager is used.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any


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

        return AgentLoopWorkerTQ.__ray_metadata__.modified_class(*args)

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def generate_sequences(self, prompts: Any) -> None:
        """Starts the agent loops of a batch and returns; their outputs arrive in the TransferQueue."""
        self._call(self._worker.generate_sequences(prompts))
