"""The router as seen through an actor handle's interface."""

from __future__ import annotations

import asyncio

from legal_rl.training.local_agents import LocalRouter


async def test_calls_look_like_those_of_a_ray_actor():
    router = LocalRouter({"a": "A"})
    fields = await asyncio.gather(router.require_acquire_fields.remote(), router.require_release_fields.remote())
    assert fields == [[], []]
    assert await router.acquire_server.remote(request_id="r") == ("a", "A")
    router.release_server.remote(server_id="a")
    assert await router.get_total_inflight.remote() == 0
