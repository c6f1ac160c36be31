"""An unmodified NATS client that knows one node hears of the others, and goes there when its own is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

from tests.integration.cluster.nodes import running


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_client_moves_to_another_node(how: str, tmp_path: Path) -> None:
    with running(tmp_path, 3) as nodes:
        first = nodes[0]
        moved = asyncio.Event()

        async def reconnected() -> None:
            moved.set()

        client = await nats.connect(
            f"nats://{first.host}:{first.port}",
            reconnect_time_wait=0.05,
            max_reconnect_attempts=50,
            reconnected_cb=reconnected,
        )
        other = await nats.connect(f"nats://{nodes[2].host}:{nodes[2].port}")
        subscription = await client.subscribe("volcanoes.>")
        await client.flush()
        assert len(client.discovered_servers) == 2
        if how == "killed":
            first.kill()
        else:
            await asyncio.to_thread(first.stop)
        await asyncio.wait_for(moved.wait(), 10)
        await client.flush()
        await other.publish("volcanoes.usa.atka", b"21.5")
        assert (await subscription.next_msg(5)).data == b"21.5"
        await client.close()
        await other.close()
