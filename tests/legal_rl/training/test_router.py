"""Sticky, least-busy routing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from legal_rl.training.router import StickyRouter


def test_conversations_stick_and_new_ones_go_to_the_least_busy():
    router = StickyRouter({"a": "A", "b": "B"})
    first, _ = router.acquire_server("r1")
    second, _ = router.acquire_server("r2")
    assert {first, second} == {"a", "b"}
    assert router.acquire_server("r1") == (first, first.upper())
    assert router.get_status()["servers"] == {first: 2, second: 1}
    router.release_server(first)
    router.release_server(first)
    assert router.acquire_server("r3")[0] == first


def test_a_removed_replica_loses_its_conversations():
    router = StickyRouter({"a": "A", "b": "B"})
    address, _ = router.acquire_server("r1")
    router.remove_servers([address])
    assert router.acquire_server("r1")[0] != address
    router.remove_servers(router.get_all_servers())
    with pytest.raises(RuntimeError, match="No available servers"):
        router.acquire_server("r1")


def test_serves_verls_whole_protocol():
    names = (
        "acquire_server release_server add_servers remove_servers get_all_servers get_status clear_sticky_cache "
        "get_total_inflight require_acquire_fields require_release_fields"
    )
    assert all(callable(getattr(StickyRouter, name)) for name in names.split())


def test_imports_nothing_heavy():
    heavy = "('torch', 'verl', 'vllm', 'ray')"
    code = f"import sys, legal_rl.training.router; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
