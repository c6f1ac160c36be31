"""A sensor that describes itself by metadata, and changes its room half way."""

import asyncio
import os

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")
IDENTITY = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


async def main() -> None:
    async with fumarole.connect(SERVERS) as client:
        # A producer is a UUID. It is chosen once and kept, so that the broker knows the sensor again.
        sensor = client.producer({"Kind": "temperature", "Room": "410", "Floor": 4}, identity=IDENTITY)
        for value in (21.5, 21.6, 21.7):
            await sensor.publish(value)  # the metadata goes with the first reading only

        sensor.update(Room="510", Floor=5)
        await sensor.publish(19.0)  # this one brings what changed
        await client.flush()

        (known,) = await client.producers("Room = '510'")
        print(known.id == IDENTITY, known.metadata, known.value)


asyncio.run(main())
