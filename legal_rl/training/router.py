"""Routes requests to rollout replicas: a conversation stays on its replica, a new one goes to the least busy.

verl's own router does the same in a Ray process of its own, which imports all of vLLM (a quarter of a minute of one
core) before it can answer the first request. This one lives in the trainer's process, beside the agent loops.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

STICKY_CONVERSATIONS = 10_000


class StickyRouter:
    """verl's `RequestLoadBalancer` protocol."""

    def __init__(self, servers: dict[str, Any], config: dict[str, Any] | None = None) -> None:
        self._servers = dict(servers)
        self._busy = dict.fromkeys(self._servers, 0)
        self._sticky: OrderedDict[str, str] = OrderedDict()

    def require_acquire_fields(self) -> list[str]:
        return []

    def require_release_fields(self) -> list[str]:
        return []

    def acquire_server(self, request_id: str, **_extra: Any) -> tuple[str, Any]:
        """(address, handle) of the replica for this conversation; counts one request there."""
        address = self._sticky.get(request_id)
        if address not in self._busy:
            if not self._busy:
                raise RuntimeError("No available servers in load balancer")
            address = min(self._busy, key=self._busy.__getitem__)
            self._sticky[request_id] = address
            if len(self._sticky) > STICKY_CONVERSATIONS:
                self._sticky.popitem(last=False)
        self._busy[address] += 1
        return address, self._servers[address]

    def release_server(self, server_id: str, request_id: str | None = None) -> None:
        self._busy[server_id] = max(0, self._busy.get(server_id, 0) - 1)

    def add_servers(self, servers: dict[str, Any]) -> None:
        self._servers |= servers
        self._busy |= dict.fromkeys(servers, 0)

    def remove_servers(self, server_ids: list[str]) -> None:
        for server_id in server_ids:
            self._servers.pop(server_id, None)
            self._busy.pop(server_id, None)

    def get_all_servers(self) -> list[str]:
        return list(self._servers)

    def get_inflight_count(self, server_id: str) -> int:
        return self._busy.get(server_id, 0)

    def get_total_inflight(self) -> int:
        return sum(self._busy.values())

    def get_status(self) -> dict[str, Any]:
        return {
            "servers": dict(self._busy),
            "total_inflight": self.get_total_inflight(),
            "active_servers": len(self._busy),
        }

    def clear_sticky_cache(self) -> dict[str, Any]:
        cleared = len(self._sticky)
        self._sticky.clear()
        return {"cleared_entries": cleared, "server_loads": dict(self._busy)}
