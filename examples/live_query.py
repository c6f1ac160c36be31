"""Follows the producers that a query selects: their readings, and which producers come into the set or leave it."""

import asyncio
import os

import fumarole

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")
QUERY = "Kind = 'temperature' and Room like '4%'"


async def main() -> None:
    async with fumarole.connect(SERVERS) as client, client.where(QUERY) as readings:
        sensor = client.producer({"Kind": "temperature", "Room": "420"})
        await sensor.publish(21.5)
        sensor.update(Room="520")  # leaves the fourth floor
        await sensor.publish(21.6)

        async for each in readings:
            match each:
                case fumarole.Change(new, gone):
                    print("+" if sensor.id in new else " ", "-" if sensor.id in gone else " ")
                    if sensor.id in gone:
                        break
                case fumarole.Reading(producer, metadata, value) if producer == sensor.id:
                    print(value, metadata)
        await sensor.forget()


asyncio.run(main())
