"""A local vLLM engine inside this process: ids in, ids out, every waiting rollout in one batch.

vLLM's synchronous engine lives on a thread of its own; coroutines hand it requests and await futures. Between two
engine steps the event loop runs, so that rollouts whose turn is finished search and come back while others generate.

    async with LocalEngine(model_dir, EngineSettings()) as engine:
        sample = await engine.generate(prompt_ids, max_tokens=64, stop_ids=(im_end,))
        sample.token_ids, sample.logprobs, sample.finish_reason
    async for piece in engine.stream(prompt_ids, max_tokens=64, stop_ids=(im_end,)): ...
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envs.errors import PolicyError
from legal_rl.errors import ModelError

_GIB = 2**30
_FIRST_PIECE_S = 0.1
_WARM_UP_LOOP_TURNS = 3
"""Event-loop turns given to rollouts after a step: resume, search in process, ask again."""


class EngineSettings(BaseModel):
    """How the evaluation's vLLM engine runs; the defaults suit a policy of a few million parameters on two cores."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_model_len: int = Field(default=1024, ge=16)
    max_num_seqs: int = Field(default=128, ge=1)
    """Sequences that advance together."""
    max_num_batched_tokens: int = Field(default=8192, ge=64)
    kv_cache_gib: float = Field(default=1.0, gt=0)
    """KV cache on a CPU, in GiB; given explicitly, so that other processes' memory does not stop the start."""
    gpu_memory_utilization: float = Field(default=0.8, gt=0, le=1)
    """Share of a GPU's memory; unused on a CPU."""
    dtype: str = ""
    """Empty = float32 on a CPU, the checkpoint's own type on a GPU."""
    threads: int | None = Field(default=None, ge=1)
    """OpenMP threads on a CPU; None = all cores this process may use."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled turn; `token_ids` and `logprobs` have one length."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    """`stop`, `length`, or empty for a piece of a stream that goes on."""


@dataclass(slots=True)
class _Request:
    prompt_ids: list[int]
    params: dict[str, Any]
    future: asyncio.Future[Sample] = field(repr=False)
    parts: list[Sample] | None = None
    """For a stream: what has been sampled so far, step by step; None = only the whole counts."""


def prepare_process(settings: EngineSettings) -> None:
    """Set the environment that vLLM and torch read when they are imported; call it before either is.

    The sampler of vLLM's CPU build is a `torch.compile` function even when eager mode is asked for: compiling it takes
    25 s and a C++ compiler on every start, so dynamo is switched off on a CPU.
    """
    from legal_rl.platform.activation import cpu_platform_active

    defaults = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    defaults |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    threads = str(settings.threads or len(os.sched_getaffinity(0)))
    # OpenMP reads its variables when torch is imported; `cpu_platform_active` may be what imports it.
    defaults |= {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    if cpu_platform_active():
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")


def check_model_dir(model_dir: Path) -> None:
    """Refuse a folder that is not a Hugging Face model, before the engine's half minute of imports.

    Raises:
        ModelError: the folder or one of its parts is missing.
    """
    if not model_dir.is_dir():
        raise ModelError(f"model folder {model_dir} does not exist; train or export the model first")
    if not (model_dir / "config.json").is_file():
        raise ModelError(f"model folder {model_dir} has no config.json; export the checkpoint as a Hugging Face folder")
    if not any(model_dir.glob("*.safetensors")) and not any(model_dir.glob("*.bin")):
        raise ModelError(f"model folder {model_dir} holds no weights (*.safetensors)")


class LocalEngine:
    """One model in vLLM, in this process; use it as an async context manager.

    Args:
        model_dir: Hugging Face folder.
        settings: see `EngineSettings`.

    Raises:
        ModelError: on entering, when vLLM cannot load the model.
    """

    def __init__(self, model_dir: Path, settings: EngineSettings) -> None:
        check_model_dir(model_dir)
        self.model_dir, self.settings = model_dir, settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vllm")
        self._engine: Any = None
        self._inbox: list[_Request] = []
        self._running: dict[str, _Request] = {}
        self._pump: asyncio.Task[None] | None = None
        self._count = 0
        self.failed = ""
        """Why the engine no longer works; empty while it does."""

    async def __aenter__(self) -> LocalEngine:
        prepare_process(self.settings)
        try:
            self._engine = await self._on_thread(self._start)
        except Exception as error:
            self._thread.shutdown(wait=False)
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(f"vLLM cannot load {self.model_dir}: {first}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pump is not None:
            self._pump.cancel()
        await self._on_thread(self._stop)
        self._thread.shutdown()

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop_ids: Sequence[int],
        temperature: float = 0.0,
        **more: Any,
    ) -> Sample:
        """Sample one continuation.

        Args:
            prompt_ids: the whole dialogue so far.
            max_tokens: length limit; it is cut to what the model's context leaves.
            stop_ids: ids that end the turn; the one that was sampled is part of the result.
            temperature: 0 = greedy.
            more: further fields of vLLM's SamplingParams (`seed`, `top_p`, …).

        Raises:
            PolicyError: the prompt fills the context, or the engine failed.
        """
        params = {"max_tokens": max_tokens, "stop_token_ids": list(stop_ids), "temperature": temperature}
        return await self._submit(prompt_ids, params | more).future

    async def stream(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop_ids: Sequence[int],
        temperature: float = 0.0,
        chunk_s: float = 0.05,
        **more: Any,
    ) -> AsyncIterator[Sample]:
        """As `generate`, in pieces: what was sampled in the last `chunk_s` seconds; the last one has a finish reason.

        The first piece comes early, so that a reader sees something; later ones save messages.

        Leaving the iterator early, or cancelling it, aborts the generation.
        """
        params = {"max_tokens": max_tokens, "stop_token_ids": list(stop_ids), "temperature": temperature}
        parts: list[Sample] = []
        request = self._submit(prompt_ids, params | more, parts)
        sent, wait_s = 0, min(chunk_s, _FIRST_PIECE_S)
        try:
            while True:
                await asyncio.wait([request.future], timeout=wait_s)
                done, fresh = request.future.done(), parts[sent:]
                sent += len(fresh)
                if fresh:
                    yield _joined(fresh)
                    wait_s = chunk_s
                if done:
                    request.future.result()  # raises where the engine failed
                    return
        finally:
            request.future.cancel()

    @property
    def in_work(self) -> int:
        """Requests that wait or generate."""
        return len(self._inbox) + len(self._running)

    def _submit(self, prompt_ids: Sequence[int], params: dict[str, Any], parts: list[Sample] | None = None) -> _Request:
        room = self.settings.max_model_len - len(prompt_ids)
        if room < 1:
            raise PolicyError(f"{len(prompt_ids)} tokens fill the context of {self.settings.max_model_len}")
        params["max_tokens"] = min(params["max_tokens"], room)
        request = _Request(list(prompt_ids), params, asyncio.get_running_loop().create_future(), parts)
        self._inbox.append(request)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return request

    async def _on_thread(self, function: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    async def _run(self) -> None:
        """Step the engine while anything waits; a failure of the engine fails every waiting request."""
        arrivals: list[_Request] = []
        try:
            while self._inbox or self._running:
                arrivals, self._inbox = self._inbox, []
                cancelled = [name for name, request in self._running.items() if request.future.cancelled()]
                for name, sample in await self._on_thread(self._step, arrivals, cancelled):
                    self._resolve(name, sample)
                for _ in range(_WARM_UP_LOOP_TURNS):
                    await asyncio.sleep(0)
        except Exception as error:
            self.failed = f"vLLM engine failed: {error}"
            self._fail_all(PolicyError(f"vLLM engine failed: {error}"), arrivals)

    def _resolve(self, name: str, sample: Sample | PolicyError) -> None:
        future = self._running.pop(name).future
        if future.done():
            return
        if isinstance(sample, PolicyError):
            future.set_exception(sample)
        else:
            future.set_result(sample)

    def _fail_all(self, error: PolicyError, arrivals: Sequence[_Request]) -> None:
        """`arrivals`: those of the step that failed, which may not run yet."""
        for request in [*self._running.values(), *arrivals, *self._inbox]:
            if not request.future.done():
                request.future.set_exception(error)
        self._running.clear()
        self._inbox.clear()

    # The methods below run on the engine's thread only.

    def _start(self) -> Any:
        from vllm import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        from legal_rl.platform.activation import cpu_platform_active

        s = self.settings
        on_cpu = cpu_platform_active()
        memory: dict[str, Any] = (
            {"kv_cache_memory_bytes": int(s.kv_cache_gib * _GIB)}
            if on_cpu
            else {"gpu_memory_utilization": s.gpu_memory_utilization}
        )
        args = EngineArgs(
            model=str(self.model_dir),
            dtype=s.dtype or ("float32" if on_cpu else "auto"),  # type: ignore[arg-type]
            enforce_eager=on_cpu,
            max_model_len=s.max_model_len,
            max_num_seqs=s.max_num_seqs,
            max_num_batched_tokens=s.max_num_batched_tokens,
            enable_prefix_caching=True,
            disable_log_stats=True,
            seed=s.seed,
            **memory,
        )
        return LLMEngine.from_engine_args(args)

    def _step(self, arrivals: list[_Request], cancelled: list[str]) -> list[tuple[str, Sample | PolicyError]]:
        results: list[tuple[str, Sample | PolicyError]] = []
        for request in arrivals:
            name = str(self._count)
            self._count += 1
            self._running[name] = request
            try:
                sampling = self._sampling(request.params, request.parts is not None)
                self._engine.add_request(name, {"prompt_token_ids": request.prompt_ids}, sampling)
            except ValueError as error:
                results.append((name, PolicyError(f"vLLM refused a request: {error}")))
        if cancelled:
            self._engine.abort_request(cancelled)
            for name in cancelled:
                self._running.pop(name, None)
        for output in self._engine.step():
            request = self._running.get(output.request_id)
            if request is None:
                continue
            sample = _sample(output.outputs[0])
            if request.parts is not None:
                request.parts.append(sample)
            if output.finished:
                results.append((output.request_id, sample))
        return results

    @staticmethod
    def _sampling(params: dict[str, Any], streamed: bool) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        # logprobs=0 asks for the sampled token's own; detokenising is ours, once per turn.
        kind = RequestOutputKind.DELTA if streamed else RequestOutputKind.FINAL_ONLY
        return SamplingParams(logprobs=0, detokenize=False, output_kind=kind, **params)

    def _stop(self) -> None:
        """Free the model and its distributed group, so that the next model can be loaded in this process."""
        if self._engine is None:
            return
        from vllm.distributed import cleanup_dist_env_and_memory

        self._engine.engine_core.shutdown()
        self._engine = None
        cleanup_dist_env_and_memory()
        gc.collect()


def _sample(output: Any) -> Sample:
    ids = tuple(output.token_ids)
    logprobs = tuple(float(step[token].logprob) for step, token in zip(output.logprobs, ids, strict=True))
    finish = "length" if output.finish_reason == "length" else "stop" if output.finish_reason else ""
    return Sample(ids, logprobs, finish)


def _joined(parts: Sequence[Sample]) -> Sample:
    ids = tuple(token for part in parts for token in part.token_ids)
    logprobs = tuple(value for part in parts for value in part.logprobs)
    return Sample(ids, logprobs, parts[-1].finish_reason)
