"""aiomqtt against a broker: `talk_aiomqtt.py PORT`."""

import asyncio
import sys

import aiomqtt

PORT = int(sys.argv[1])


async def main():
    async with aiomqtt.Client("127.0.0.1", PORT, protocol=aiomqtt.ProtocolVersion.V5) as client:
        await client.subscribe("a/#", qos=2)
        for qos in range(3):
            await client.publish("a/b", f"{qos}", qos=qos)
        await client.publish("a/r", "kept", qos=1, retain=True)
        found = []
        async for message in client.messages:
            found.append((str(message.topic), message.payload.decode(), message.qos))
            if len(found) == 4:
                break
        assert found == [("a/b", "0", 0), ("a/b", "1", 1), ("a/b", "2", 2), ("a/r", "kept", 1)], found
    will = aiomqtt.Will("gone", b"bye", qos=1)
    async with aiomqtt.Client("127.0.0.1", PORT) as watcher:
        await watcher.subscribe("a/r")
        await watcher.subscribe("gone", qos=1)
        dying = aiomqtt.Client("127.0.0.1", PORT, will=will)
        await dying.__aenter__()
        dying._client.socket().close()
        found = []
        async for message in watcher.messages:
            found.append((str(message.topic), message.payload.decode(), message.retain))
            if len(found) == 2:
                break
        assert found == [("a/r", "kept", True), ("gone", "bye", False)], found


asyncio.run(asyncio.wait_for(main(), 20))
