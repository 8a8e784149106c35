"""Memory of a process tree."""

from __future__ import annotations

import subprocess
import sys
import time

from legal_rl.quickstart.memory import MemoryWatch, tree_memory

HOLD = "import time; x = bytearray(b'1') * {size}; print('ready', flush=True); time.sleep(60)"
MIB = 2**20


def test_a_grandchild_counts() -> None:
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {HOLD.format(size=200 * MIB)!r}])\nchild.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        held = tree_memory(process.pid) / MIB
        alone = tree_memory(_only_child(process.pid)) / MIB
        subprocess.run(["kill", str(_only_child(process.pid))], check=True)
    assert 200 < held < 280 and 200 < alone < held


def _only_child(pid: int) -> int:
    import psutil

    (child,) = psutil.Process(pid).children()
    return child.pid


def test_the_peak_stays_and_looks_are_rare() -> None:
    sizes = iter([3 * 2**30, 5 * 2**30])
    watch = MemoryWatch(0, interval_s=60, measure=lambda pid: next(sizes))
    watch.sample()
    watch.sample()
    assert watch.peak_gib == 3.0, "the second look comes too early"
    falling = iter([5 * 2**30, 3 * 2**30])
    watch = MemoryWatch(0, interval_s=0, measure=lambda pid: next(falling))
    watch.sample()
    watch.sample()
    assert watch.peak_gib == 5.0


def test_a_process_that_is_gone_holds_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    time.sleep(0.1)
    assert tree_memory(process.pid) == 0
