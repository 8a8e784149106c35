"""The whole application on Ray Serve with real vLLM engines: answers, faults, disconnects, a rolling update."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from legal_rl.serving.client import AnswerClient
from legal_rl.serving.events import EventType
from legal_rl.serving.settings import ServeConfig

pytestmark = pytest.mark.slow
ENDED = (EventType.DONE, EventType.ERROR)


@pytest.fixture(scope="module")
def config(parts: Any, rambler: Path) -> ServeConfig:
    """Two Lawyers, and a Judge that knows nothing of judging and writes until its limit."""
    settings = parts.settings(limits={"deadline_s": 60, "requests_per_minute": 100_000})
    settings["lawyer"] |= {"replicas": 2}
    engine = settings["lawyer"]["engine"] | {"max_model_len": 8192}
    model = {"path": str(rambler), "engine": engine, "num_cpus": 0.1, "chunk_ms": 20}
    settings["judges"] = {"tiny": {"model": model, "max_tokens": 7000, "evidence_chars": 40}}
    return ServeConfig.model_validate(settings)


@pytest.fixture(scope="module")
def url(config: ServeConfig) -> Iterator[str]:
    ray = pytest.importorskip("ray")
    from ray import serve

    from legal_rl.serving.deployment import deploy

    with tempfile.TemporaryDirectory(prefix="lrl-", ignore_cleanup_errors=True) as folder:
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        try:
            yield deploy(config)
        finally:
            serve.shutdown()
            ray.shutdown()


def states(name: str, count: int) -> set[int]:
    """Process ids of a deployment's replicas, found by asking with many sessions."""
    from ray import serve

    handle = serve.get_deployment_handle(name, "legal-rl")
    found: set[int] = set()
    for number in range(200):
        found.add(handle.options(session_id=f"s{number}").state.remote().result(timeout_s=60)["pid"])
        if len(found) == count:
            break
    return found


def in_work(name: str) -> int:
    from ray import serve

    return serve.get_deployment_handle(name, "legal-rl").state.remote().result(timeout_s=60)["in_work"]


def test_answers_through_openais_client(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=openai.DefaultHttpxClient(trust_env=False))
    messages: Any = [{"role": "user", "content": "盗窃四千元怎么量刑？"}]
    whole = client.chat.completions.create(model="legal-r1", messages=messages)
    assert (whole.choices[0].message.content or "").startswith("依据《刑法》第二百六十四条")
    kinds = []
    for chunk in client.chat.completions.create(model="legal-r1", messages=messages, stream=True):
        kinds.append((chunk.model_extra or {})["legal_rl"]["type"])
    assert kinds[0] == "start" and kinds[-1] == "done" and {"thought", "search", "evidence", "answer"} <= set(kinds)


def test_the_record_is_what_the_engine_sampled(url: str) -> None:
    body = AnswerClient(url).answer("盗窃四千元怎么量刑？")
    assert body["usage"]["completion_tokens"] > 20 and body["usage"]["retrieval_tokens"] > 20
    assert body["citations"][0]["status"] == "verified" and body["timings"]["lawyer_s"] > 0


def test_the_turns_of_a_session_go_to_one_replica(url: str) -> None:
    from ray import serve

    assert len(states("Lawyer", 2)) == 2
    sticky = serve.get_deployment_handle("Lawyer", "legal-rl").options(session_id="one rollout")
    assert len({sticky.state.remote().result(timeout_s=60)["pid"] for _ in range(12)}) == 1


def test_a_judge_of_ours_writes_until_the_client_leaves(url: str) -> None:
    """Closing the connection stops the generation itself within two seconds."""
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{url}/v1/answers", json={"question": "盗窃？", "judge": "tiny"}, timeout=httpx.Timeout(30, read=1.5),
            trust_env=False,
        )  # fmt: skip
    left = time.monotonic()
    while in_work("Judge-tiny"):
        assert time.monotonic() - left < 2.0, "the engine went on generating"
    events = AnswerClient(url).events("盗窃？", judge="tiny")
    next(event for event in events if event.type is EventType.ANSWER_DELTA)
    assert in_work("Judge-tiny") == 1
    events.close()
    left = time.monotonic()
    while in_work("Judge-tiny"):
        assert time.monotonic() - left < 2.0, "the engine went on generating for a closed stream"


def test_a_judge_killed_in_mid_stream_is_an_error_event_and_comes_back(url: str) -> None:
    (pid,) = states("Judge-tiny", 1)
    kinds, killed = [], 0.0
    for event in AnswerClient(url, timeout_s=60).events("盗窃？", judge="tiny"):
        kinds.append(event.type)
        if event.type is EventType.ANSWER_DELTA and not killed:
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
    assert kinds[-1] is EventType.ERROR and EventType.ANSWER not in kinds
    assert time.monotonic() - killed < 20
    assert states("Judge-tiny", 1) != {pid}  # Serve has started another one


def test_lawyers_killed_in_mid_rollout_end_it_or_are_replaced(url: str) -> None:
    """Never a hang: the turn goes to the other replica, waits for a new one, or the stream ends with an error."""
    before = states("Lawyer", 2)
    kinds: list[EventType] = []
    for event in AnswerClient(url, timeout_s=60).events("盗窃？"):
        kinds.append(event.type)
        if event.type is EventType.SEARCH:
            for pid in before:
                os.kill(pid, signal.SIGKILL)
    assert kinds[-1] in ENDED and (EventType.ANSWER in kinds) == (kinds[-1] is EventType.DONE)
    deadline = time.monotonic() + 90
    while True:
        answer = httpx.post(f"{url}/v1/answers", json={"question": "盗窃？"}, timeout=70, trust_env=False)
        if answer.status_code == 200:
            break
        assert answer.status_code in (503, 504) and time.monotonic() < deadline, answer.text
    assert not states("Lawyer", 2) & before


def test_a_rolling_update_under_load_loses_no_request(url: str, config: ServeConfig) -> None:
    from legal_rl.serving.deployment import deploy

    lawyers = states("Lawyer", 2)
    stop, codes, texts = threading.Event(), [], []

    def load() -> None:
        with httpx.Client(base_url=url, timeout=90, trust_env=False) as http:
            while not stop.is_set():
                answer = http.post("/v1/answers", json={"question": "盗窃？", "trajectory": False})
                codes.append(answer.status_code)
                texts.append(answer.json().get("disclaimer", ""))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(load)
        while len(codes) < 8:
            time.sleep(0.1)
        changed = config.model_copy(update={"texts": config.texts.model_copy(update={"disclaimer_zh": "新的声明"})})
        assert deploy(changed) == url
        seen = len(codes)
        while len(codes) < seen + 8:
            time.sleep(0.1)
        stop.set()
    assert set(codes) == {200} and texts[-1] == "新的声明" and texts[0] != "新的声明"
    assert states("Lawyer", 2) == lawyers  # models that did not change were not loaded again


def test_a_knowledge_base_that_dies_is_never_an_answer_without_it(url: str) -> None:
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        if " ".join(process.info["cmdline"] or ()).startswith("ray::ServeReplica:legal-rl:Knowledge"):
            process.kill()
    answer = httpx.post(f"{url}/v1/answers", json={"question": "盗窃？"}, timeout=70, trust_env=False)
    if answer.status_code == 200:  # the new replica came in time
        assert answer.json()["evidence"]
    else:
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "retrieval_unavailable"
    deadline = time.monotonic() + 60
    while httpx.get(f"{url}/readyz", timeout=30, trust_env=False).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.5)
