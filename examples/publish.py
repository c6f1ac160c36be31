"""Publishes messages, one by one and as a stream."""

import asyncio
import os

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")


async def main() -> None:
    async with fumarole.connect(SERVERS) as client:
        await client.publish("volcanoes.usa.atka", "21.5", headers={"Unit": "celsius"})

        # Many messages leave in large writes.
        count = await client.publish_many((f"volcanoes.italy.etna.{hour}", b"84.0") for hour in range(24))

        # When `flush` returns, the broker has all of them.
        await client.flush()
        print(f"published {count + 1} messages")


asyncio.run(main())
