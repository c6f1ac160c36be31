"""gmqtt against a broker: `talk_gmqtt.py PORT VERSION`."""

import asyncio
import sys

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

PORT, VERSION = int(sys.argv[1]), {"4": MQTTv311, "5": MQTTv50}[sys.argv[2]]


async def main():
    messages = asyncio.Queue()
    receiver, sender = gmqtt.Client("receiver"), gmqtt.Client("sender")
    subscribed = asyncio.Event()

    async def on_message(_client, topic, payload, qos, properties):
        messages.put_nowait((topic, payload, qos, properties))
        return 0

    receiver.on_message = on_message
    receiver.on_subscribe = lambda *_: subscribed.set()
    for client in (receiver, sender):
        await client.connect("127.0.0.1", PORT, version=VERSION)
    receiver.subscribe("g/+", qos=2)
    await subscribed.wait()
    for qos in range(3):
        given = {"user_property": [("k", "v"), ("k", "w")]} if MQTTv50 == VERSION else {}
        sender.publish("g/a", b"21.5", qos=qos, **given)
        topic, payload, received, properties = await messages.get()
        assert (topic, payload, received) == ("g/a", b"21.5", qos), (topic, payload, received)
        if MQTTv50 == VERSION:
            assert properties["user_property"] == [("k", "v"), ("k", "w")], properties
    for client in (sender, receiver):
        await client.disconnect()


asyncio.run(asyncio.wait_for(main(), 20))
