"""For every test: what a library has changed for the whole process is undone first."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from envs.env import EnvConfig

QUICKSTART = Path(__file__).parents[1] / "configs" / "quickstart.yaml"

LD_PRELOAD = os.environ.get("LD_PRELOAD")


@pytest.fixture(autouse=True)
def _process_state():
    """vLLM sets LD_PRELOAD for its children; training flushes denormal numbers, with which hypothesis cannot work."""
    if LD_PRELOAD is None:
        os.environ.pop("LD_PRELOAD", None)
    else:
        os.environ["LD_PRELOAD"] = LD_PRELOAD
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(scope="session")
def quickstart_environment() -> EnvConfig:
    """The environment section of configs/quickstart.yaml: short samples for a tiny policy."""
    return EnvConfig(**yaml.safe_load(QUICKSTART.read_text(encoding="utf-8"))["environment"])
