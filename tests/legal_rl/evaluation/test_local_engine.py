"""The queue in front of the engine, with a toy engine on its thread; the real one is in `test_lawyer`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from envs.errors import PolicyError
from legal_rl.errors import ModelError
from legal_rl.evaluation.local_engine import EngineSettings, LocalEngine, Sample, check_model_dir


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    return tmp_path


class EchoEngine(LocalEngine):
    """Needs one step per prompt token, then says the prompt backwards; keeps how many ran in each step."""

    def __init__(self, model_dir: Path) -> None:
        super().__init__(model_dir, EngineSettings(max_model_len=16))
        self.left: dict[str, int] = {}
        self.widths: list[int] = []
        self.limits: list[int] = []

    def _step(self, arrivals: Any, cancelled: list[str]) -> list[tuple[str, Sample | PolicyError]]:
        for name in cancelled:
            self._running.pop(name, None)
            self.left.pop(name, None)
        for request in arrivals:
            self._count += 1
            name = str(self._count)
            self._running[name], self.left[name] = request, len(request.prompt_ids)
            self.limits.append(request.params["max_tokens"])
        self.widths.append(len(self.left))
        self.left = {name: left - 1 for name, left in self.left.items()}
        done = [name for name, left in self.left.items() if left == 0]
        results: list[tuple[str, Sample | PolicyError]] = []
        for name in done:
            ids = tuple(reversed(self._running[name].prompt_ids))
            results.append((name, Sample(ids, (0.0,) * len(ids), "stop")))
            del self.left[name]
        return results


class BrokenEngine(LocalEngine):
    def _step(self, arrivals: Any, cancelled: list[str]) -> list[tuple[str, Sample | PolicyError]]:
        raise RuntimeError("out of memory")


async def ask(engine: LocalEngine, *prompts: list[int]) -> list[Any]:
    asked = [engine.generate(prompt, max_tokens=9, stop_ids=(2,)) for prompt in prompts]
    async with asyncio.timeout(5):
        return await asyncio.gather(*asked, return_exceptions=True)


async def test_waiting_requests_run_together_and_each_gets_its_own_answer(model_dir: Path) -> None:
    engine = EchoEngine(model_dir)
    answers = await ask(engine, [1], [1, 2], [1, 2, 3])
    assert [answer.token_ids for answer in answers] == [(1,), (2, 1), (3, 2, 1)]
    assert engine.widths == [3, 2, 1]


async def test_a_second_turn_joins_the_batch_that_still_runs(model_dir: Path) -> None:
    engine = EchoEngine(model_dir)

    async def two_turns() -> None:
        await engine.generate([1], max_tokens=1, stop_ids=())
        await engine.generate([1], max_tokens=1, stop_ids=())

    await asyncio.gather(two_turns(), engine.generate([1, 2, 3], max_tokens=1, stop_ids=()))
    assert engine.widths == [2, 2, 1]


async def test_the_context_limits_a_turn(model_dir: Path) -> None:
    engine = EchoEngine(model_dir)
    answers = await ask(engine, list(range(12)), list(range(16)))
    assert engine.limits == [4]  # 16 - 12
    assert isinstance(answers[1], PolicyError) and "fill the context" in str(answers[1])


async def test_a_cancelled_request_leaves_the_batch(model_dir: Path) -> None:
    engine = EchoEngine(model_dir)
    long = asyncio.create_task(engine.generate([1] * 8, max_tokens=1, stop_ids=()))
    short = asyncio.create_task(engine.generate([1, 2], max_tokens=1, stop_ids=()))
    await short
    long.cancel()
    assert (await ask(engine, [5, 6]))[0].token_ids == (6, 5)
    assert engine.widths[-1] == 1


async def test_a_failing_engine_fails_every_request_at_once(model_dir: Path) -> None:
    answers = await ask(BrokenEngine(model_dir, EngineSettings()), [1], [2])
    assert [str(answer) for answer in answers] == ["vLLM engine failed: out of memory"] * 2
    assert all(isinstance(answer, PolicyError) for answer in answers)


def test_folders_that_are_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        check_model_dir(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"no config\.json"):
        check_model_dir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="no weights"):
        check_model_dir(tmp_path)
