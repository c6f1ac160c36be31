"""Prints the messages of a pattern as they are published: python subscribe.py [PATTERN [COUNT]]"""

import asyncio
import os
import sys

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")


async def main(pattern: str = "volcanoes.>", count: str = "") -> None:
    async with (
        fumarole.connect(SERVERS, name="subscribe.py") as client,
        client.subscribe(pattern, limit=int(count) if count else None) as messages,
    ):
        # The broker has confirmed the subscription. What is published from here on arrives.
        async for message in messages:
            print(message.topic, message.text, message.headers, flush=True)


asyncio.run(main(*sys.argv[1:]))
