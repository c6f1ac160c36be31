"""A program for a device, where only the client is installed. It uses each part of the client once.

device.py URL       prints what it received, then the packages it loaded beyond the standard library
"""

import asyncio
import sys

import fumarole
from fumarole.client import Client


async def main(url: str) -> None:
    async with fumarole.connect(url) as client, client.subscribe("volcanoes.>") as messages:
        await client.flush()
        await client.publish("volcanoes.usa.atka", b"21.5", headers={"Unit": "celsius"})
        message = await anext(messages)
        print(message.topic, message.payload.decode(), message.headers["Unit"])
        await answer(client)
        await watch(client)
    print(sorted({module.partition(".")[0] for module in sys.modules} - OURS - sys.stdlib_module_names))


async def answer(client: Client) -> None:
    async with client.subscribe("time.utc") as requests:
        await client.flush()
        asked = asyncio.create_task(client.request("time.utc", b"?"))
        await (await anext(requests)).respond(b"12:00")
        print((await asked).payload.decode())


async def watch(client: Client) -> None:
    sensor = client.producer({"Kind": "temperature", "Room": "410"})
    async with client.where("Kind = 'temperature' and Room like '4%'") as readings:
        await sensor.publish(21.5)
        async for reading in readings:
            if isinstance(reading, fumarole.Reading):
                print(reading.value, reading.metadata["Room"])
                break


OURS = {"fumarole", "__main__"}
asyncio.run(main(sys.argv[1]))
