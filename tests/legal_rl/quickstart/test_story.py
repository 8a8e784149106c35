"""The story in real processes: a killed stage, resumption, failures of a stage, the GPUs a stage sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from legal_rl.cluster.layout import Layout
from legal_rl.config import RunConfig, load_config
from legal_rl.errors import ConfigError, ModelError, StageError
from legal_rl.quickstart.children import how_it_ended
from legal_rl.quickstart.story import STAGES, platform_choice, run_story, trainer_devices
from retrieval_server.index import open_index


def test_a_stage_killed_from_outside_is_told_and_the_same_command_goes_on(overrides, config, processes):
    children_of, eventually = processes
    command = [sys.executable, "-m", "legal_rl", "quickstart", "--until", "knowledge", *overrides]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    (stage,) = eventually(lambda: children_of(run.pid))
    os.kill(stage, signal.SIGKILL)
    _, errors = run.communicate(timeout=60)
    told = "stage knowledge was killed by SIGKILL (out of memory, or by hand); the same command goes on from there"
    assert (run.returncode, errors) == (1, f"error: {told}\n")

    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "articles 1" in again.stdout
    assert len(open_index(config.index_path).articles) == 1
    third = subprocess.run(command, capture_output=True, text=True)
    assert "1/1 Index statutes and precedents: finished before" in third.stdout


def test_killing_the_command_ends_its_stage_too(overrides, processes):
    children_of, eventually = processes
    command = [sys.executable, "-m", "legal_rl", "quickstart", "--until", "knowledge", *overrides]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    (stage,) = eventually(lambda: children_of(run.pid))
    run.kill()
    run.wait()
    eventually(lambda: not _alive(stage))


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_stage_that_fails_says_why_and_leaves_the_facts_of_a_run_that_works(config, tmp_path):
    broken = config.model_copy(update={"knowledge": config.knowledge.model_copy(update={"articles": ("nonsense",)})})
    with pytest.raises(StageError, match="stage knowledge: corpus 'nonsense' does not exist"):
        run_story(broken, last="knowledge", console=Console(file=StringIO()))
    said = StringIO()
    assert run_story(config, last="knowledge", console=Console(file=said, width=120)) == config.run_path
    assert "articles 1" in said.getvalue()
    facts = json.loads((config.run_path / "run.json").read_text(encoding="utf-8"))
    assert [(s["name"], s["skipped"]) for s in facts["stages"]] == [("knowledge", False)]
    assert facts["versions"]["python"] == sys.version.split()[0] and facts["machine"]["cores"] >= 1
    assert load_config(str(config.run_path / "config.yaml")) == config


def _told(config: RunConfig) -> str:
    said = StringIO()
    run_story(config, last="knowledge", console=Console(file=said, width=120))
    return said.getvalue()


def test_a_changed_corpus_and_a_damaged_index_are_built_again(config, corpus, tmp_path):
    copy = tmp_path / "norms.jsonl"
    copy.write_bytes(corpus.read_bytes())
    config = config.model_copy(update={"knowledge": config.knowledge.model_copy(update={"articles": (str(copy),)})})
    assert "done in" in _told(config) and "finished before" in _told(config)
    copy.write_text(copy.read_text(encoding="utf-8").replace("数额较大", "数额巨大"), encoding="utf-8")
    assert "done in" in _told(config)
    assert "数额巨大" in open_index(config.index_path).articles[0].text
    damaged = config.index_path / "articles.jsonl"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    assert "done in" in _told(config)
    assert len(open_index(config.index_path).articles) == 1


def test_a_model_that_is_nowhere_stops_the_run_before_it_begins(config, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="model 'nobody/nothing': no such folder, and the model hub did not give it"):
        run_story(config.model_copy(update={"model": "nobody/nothing"}), console=Console(file=StringIO()))
    assert not config.run_path.exists()


def test_a_layout_of_gpus_does_not_run_on_a_cpu(config):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match=r"layout\.device is cuda, but no GPU is usable here"):
        run_story(config.model_copy(update={"layout": Layout(device="cuda")}), console=Console(file=StringIO()))
    assert platform_choice(Layout(device="cpu")) == {"VERL_PLATFORM": "cpu"} and platform_choice(Layout()) == {}


def test_how_a_process_ended():
    assert [how_it_ended(code) for code in (2, -15)] == ["ended with exit code 2", "was killed by SIGTERM"]


@pytest.mark.parametrize(
    ("visible", "shown"), [("", "0,1,2"), ("4,5,6,7", "4,5,6"), ("GPU-a, GPU-b, GPU-c, GPU-d", "GPU-a,GPU-b,GPU-c")]
)
def test_stages_see_the_trainers_gpus_only(visible, shown):
    layout = load_config("h20_4gpu").layout
    assert trainer_devices(layout, visible) == {"CUDA_VISIBLE_DEVICES": shown}


def test_gpus_that_are_not_there_are_refused_and_a_cpu_needs_none():
    with pytest.raises(ConfigError, match=r"names GPU 2, but CUDA_VISIBLE_DEVICES=0,1 shows fewer"):
        trainer_devices(load_config("h20_4gpu").layout, "0,1")
    assert trainer_devices(Layout(device="cpu"), "") == {}


def test_every_stage_has_work():
    from legal_rl.quickstart.work import STAGE_WORK

    assert list(STAGE_WORK) == list(STAGES)
