"""Replicas on a real Ray: the answers of one engine, shared out, and a death that costs none of them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from envs.errors import PolicyError
from legal_rl.errors import ModelError
from legal_rl.evaluation.local_engine import EngineSettings, Sample
from legal_rl.evaluation.ray_engines import RayEngines


def echo_replica() -> type:
    """A class of this function, so that Ray sends its code and not this file's name."""

    class EchoReplica:
        """Says the prompt backwards after a moment; refuses an empty one."""

        async def start(self, model_dir: str, settings: EngineSettings) -> int:
            if settings.seed == 13:
                raise ModelError("vLLM cannot load it")
            return os.getpid()

        async def generate(self, prompt_ids: list[int], options: dict[str, Any]) -> Sample:
            await asyncio.sleep(0.3)
            if not prompt_ids:
                raise PolicyError("an empty prompt")
            return Sample(tuple(reversed(prompt_ids)), (0.0,) * len(prompt_ids), str(os.getpid()))

    return EchoReplica


@pytest.fixture(scope="module")
def ray_cluster():
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def toy_pool(ray_cluster, tmp_path: Path):
    """A pool whose actors hold a toy instead of vLLM; the real one is in `benchmarks/test_trained_lawyer`."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    return lambda **settings: RayEngines(tmp_path, EngineSettings(**settings), 2, replica_class=echo_replica())


async def test_requests_are_shared_out_and_a_death_costs_no_answer(toy_pool) -> None:
    async with toy_pool() as pool:
        asked = [asyncio.ensure_future(pool.generate([n, 0], max_tokens=2, stop_ids=())) for n in range(8)]
        await asyncio.sleep(0.1)
        os.kill(pool.pids[0], signal.SIGKILL)
        found = await asyncio.gather(*asked)
        assert [sample.token_ids for sample in found] == [(0, n) for n in range(8)]
        assert {sample.finish_reason for sample in found} == {str(pool.pids[1])}
        with pytest.raises(PolicyError, match="an empty prompt"):
            await pool.generate([], max_tokens=2, stop_ids=())
        os.kill(pool.pids[1], signal.SIGKILL)
        with pytest.raises(PolicyError, match="all 2 replicas"):
            await pool.generate([1], max_tokens=2, stop_ids=())


async def test_a_replica_that_does_not_start_is_one_line(toy_pool) -> None:
    with pytest.raises(ModelError, match=r"2 replicas of .* do not start: .*vLLM cannot load it"):
        async with toy_pool(seed=13):
            pass
