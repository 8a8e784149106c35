"""For every test: what a library has changed for the whole process is undone first."""

import os
import sys

import pytest

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
