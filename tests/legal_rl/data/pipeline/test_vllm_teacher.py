"""A real vLLM server as the teacher and as the Lawyer: structured output, a cache that pays once, real failures."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from envs.env import EnvConfig
from legal_rl.data.pipeline.build import BuildPlan, build
from legal_rl.data.pipeline.endpoint import AnswerCache, EndpointTeacher, TeacherEndpoint, TeacherError
from legal_rl.data.pipeline.synthesis import ModelTeacher
from legal_rl.data.pipeline.trajectories import make_trajectories, model_lawyer
from legal_rl.data.readers.lines import read_lines
from retrieval_server.assistant import LegalAssistant

START_S = 300
GRAMMAR = '{"backend": "xgrammar", "disable_any_whitespace": true}'
PROFILE = """
id: short_answer
domain: Understanding
sub_category: Short Answer
description: 就材料提一个短问题
input_format: 材料
output_format: 短答案
instruction: 回答。
prompt: 提一个问题。
source_kinds: [judgment]
min_chars: 20
max_chars: 6000
grader: exact
leakage: false
max_question_chars: 16
max_answer_chars: 6
quota: 12
"""


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from legal_rl.policy_model.build import build_policy
    from legal_rl.policy_model.settings import PolicySettings

    folder = tmp_path_factory.mktemp("tiny") / "model"
    texts = [f"第{n}条 盗窃公私财物，处罚金{n}元，法律另有规定的除外。" for n in range(1, 40)]
    settings = PolicySettings(
        vocab_size=700, layers=2, hidden_size=64, heads=2, kv_heads=2, ffn_size=64, steps=2, minutes=0,
        tokens_per_step=1024, max_length=1024, warmup_steps=1, checkpoint_steps=2, log_steps=1, threads=1,
    )  # fmt: skip
    build_policy(settings, texts, texts, folder)
    return folder


class Server:
    """`vllm serve` on this machine's CPU."""

    def __init__(self, model: Path, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        environment = os.environ | {
            "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
            "TORCHDYNAMO_DISABLE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING",
        }  # fmt: skip
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name",
            "tiny", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager",
            "--max-model-len", "4096", "--generation-config", "vllm", "--structured-outputs-config", GRAMMAR,
            "--hf-overrides", '{"max_position_embeddings": 4096}',
        ]  # fmt: skip
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                pytest.fail(f"vLLM did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.5)

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.root}/health", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def answered(self) -> int:
        """Requests that the server has finished, by its own count."""
        text = httpx.get(f"{self.root}/metrics", timeout=10, trust_env=False).text
        return round(sum(map(float, re.findall(r"^vllm:request_success_total\{.*\} ([\d.e+]+)$", text, re.MULTILINE))))

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tiny_model, tmp_path_factory.mktemp("log") / "vllm.log")
    yield running
    running.stop()


@pytest.mark.slow
def test_a_served_model_teaches_plays_and_is_asked_once(
    server: Server, assistant: LegalAssistant, tmp_path: Path
) -> None:
    profile = tmp_path / "short_answer.yaml"
    profile.write_text(PROFILE, encoding="utf-8")
    folder = tmp_path / "set"
    plan = BuildPlan(out_dir=folder, sources=("generated:count=40",), profiles=(str(profile),), max_records=12)

    def run() -> dict:
        cache = AnswerCache(tmp_path / "answers.jsonl")
        endpoint = TeacherEndpoint(base_url=server.url, model="tiny", max_tokens=400, temperature=1.0, max_retries=1)
        try:
            return build(plan, ModelTeacher(EndpointTeacher(endpoint, cache)))
        finally:
            cache.close()

    manifest = run()
    paid = server.answered
    records = [row for _, row in read_lines(folder / "records.jsonl")]
    discarded = [row for _, row in read_lines(folder / "discarded.jsonl")]
    # The grammar makes even an untrained model keep to the form, unless its end token cuts the text off.
    assert records and len(records) == manifest["records"], discarded
    assert all(1 <= len(row["answer"]) <= 6 and 1 <= len(row["question"]) <= 16 for row in records)
    assert all(row["reason"] for row in discarded) and paid == sum(1 for _ in read_lines(tmp_path / "answers.jsonl"))
    before = (folder / "records.jsonl").read_bytes()
    assert run()["records"] == manifest["records"] and (folder / "records.jsonl").read_bytes() == before
    assert server.answered == paid

    lawyer = model_lawyer(server.url, "tiny", temperature=1.0, concurrency=8)
    env = EnvConfig(max_turns=2, evidence_chars=40, max_turn_tokens=48, forced_answer_tokens=48)
    played = make_trajectories(folder, assistant, env, tmp_path / "t", lawyer, best_of=2)
    assert played["questions"] == len(records) and played["best_of"] == 2
    assert sum(1 for _ in read_lines(tmp_path / "t" / "attempt-1.rollouts.jsonl")) == len(records)

    server.stop()
    other = BuildPlan(out_dir=tmp_path / "o", sources=("generated:seed=7,count=4",), profiles=(str(profile),))
    cache = AnswerCache(tmp_path / "other.jsonl")
    down = TeacherEndpoint(base_url=server.url, model="tiny", max_retries=1)
    with pytest.raises(TeacherError, match="failed after 1 retries: Connection error"):
        build(other, ModelTeacher(EndpointTeacher(down, cache)))
    cache.close()
