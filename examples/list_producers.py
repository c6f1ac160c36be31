"""What the broker knows of its producers: python list_producers.py [QUERY]"""

import asyncio
import os
import sys

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")


async def main(query: str = "") -> None:
    async with fumarole.connect(SERVERS) as client:
        try:
            producers = await client.producers(query)
        except fumarole.QueryRefusedError as error:
            sys.exit(error.caret())
        for producer in producers:
            print(producer.id, producer.metadata, producer.value)


asyncio.run(main(*sys.argv[1:]))
