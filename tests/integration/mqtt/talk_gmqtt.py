"""gmqtt against a broker: `talk_gmqtt.py PORT VERSION [PART]`; the parts are those of talk_paho.py."""

import asyncio
import contextlib
import json
import os
import ssl
import sys

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

PORT, VERSION = int(sys.argv[1]), {"4": MQTTv311, "5": MQTTv50}[sys.argv[2]]
IS_5 = MQTTv50 == VERSION


class Client:
    def __init__(self, name, **options):
        self.client = gmqtt.Client(name, **options)
        self.messages, self.acknowledged, self.gone = asyncio.Queue(), asyncio.Queue(), asyncio.Event()
        self.client.on_message = self.take
        self.client.on_subscribe = lambda _client, _id, reasons, _given: self.acknowledged.put_nowait(reasons)
        self.client.on_disconnect = lambda *_: self.gone.set()

    async def take(self, _client, topic, payload, qos, properties):
        self.messages.put_nowait((topic, payload, qos, properties))
        return 0

    async def connect(self, **options):
        await self.client.connect("127.0.0.1", PORT, version=VERSION, **options)
        return self

    async def subscribe(self, topic, qos=0):
        self.client.subscribe(topic, qos=qos)
        return (await self.acknowledged.get())[0]

    async def gets(self, topic, payload, qos):
        found = await self.messages.get()
        assert found[:3] == (topic, payload, qos), found
        return found[3]

    async def end(self):
        self.client.set_config({"reconnect_retries": 0})
        with contextlib.suppress(ssl.SSLError):  # asyncio's, when a PUBACK crosses the end of TLS
            await self.client.disconnect()


async def qualities():
    one, two = await Client("g-one").connect(), await Client("g-two").connect()
    for granted in range(3):
        assert await two.subscribe(f"g/{granted}", granted) == granted
        for qos in range(3):
            one.client.publish(f"g/{granted}", b"21.5", qos=qos)
            await two.gets(f"g/{granted}", b"21.5", min(qos, granted))
    return one, two


async def retained():
    one, two = await Client("g-one").connect(), await Client("g-two").connect()
    await one.subscribe("g-r/a", 1)
    one.client.publish("g-r/a", b"kept", qos=1, retain=True)
    await one.gets("g-r/a", b"kept", 1)
    await two.subscribe("g-r/+", 1)
    assert (await two.gets("g-r/a", b"kept", 1))["retain"]
    one.client.publish("g-r/a", b"", qos=1, retain=True)
    await two.gets("g-r/a", b"", 1)
    return one, two


async def wills():
    watcher = await Client("g-watcher").connect()
    await watcher.subscribe("g-gone", 1)
    dying = await Client("g-dying", will_message=gmqtt.Message("g-gone", b"bye", qos=1)).connect()
    dying.client.set_config({"reconnect_retries": 0})
    dying.client._connection._transport.abort()  # as a broken network does
    await watcher.gets("g-gone", b"bye", 1)
    return (watcher,)


async def groups():
    one, two, three = [await Client(name).connect() for name in ("g-one", "g-two", "g-three")]
    for member in (two, three):
        await member.subscribe("$share/g/g-s/#", 1)
    for number in range(20):
        one.client.publish("g-s/a", b"%d" % number, qos=1)
    numbers = [int((await member.messages.get())[1]) for member in (two, three) for _ in range(10)]
    assert sorted(numbers) == list(range(20)), numbers
    return one, two, three


async def taking_over():
    older = await Client("g-same").connect()
    older.client.set_config({"reconnect_retries": 0})
    newer = await Client("g-same").connect()
    await older.gone.wait()
    return (newer,)


async def version_5():
    one = await Client("g-one", user_property=[("Kind", "so2")]).connect()
    two = await Client("g-two").connect()
    await two.subscribe("g-v", 1)
    await one.subscribe("g-answer", 1)
    users = [("k", "v"), ("k", "w")]
    one.client.publish(
        "g-v", b"?", qos=1, user_property=users, response_topic="g-answer", correlation_data=b"7", topic_alias=2
    )
    question = await two.gets("g-v", b"?", 1)
    assert question["user_property"][:2] == users, question
    one.client.publish("", b"!", qos=1, topic_alias=2)
    await two.gets("g-v", b"!", 1)
    two.client.publish(question["response_topic"][0], b"21.5", qos=1, correlation_data=question["correlation_data"][0])
    answer = await one.gets("g-answer", b"21.5", 1)
    assert answer["correlation_data"] == [b"7"], answer
    return one, two


async def secured():
    files = json.loads(os.environ["MQTT_FILES"])
    tls = ssl.create_default_context(cafile=files["authority"])
    tls.load_cert_chain(files["certificate"], files["key"])
    wrong = Client(f"g-wrong-{VERSION}")
    wrong.client.set_auth_credentials("ann", "wrong")
    wrong.client.set_config({"reconnect_retries": 0})
    with contextlib.suppress(gmqtt.mqtt.handler.MQTTConnectError):
        await wrong.connect(ssl=tls)
        raise AssertionError("a wrong password was taken")
    right = Client(f"g-right-{VERSION}")
    right.client.set_auth_credentials("ann", files["password"])
    await right.connect(ssl=tls)
    assert await right.subscribe("elsewhere/#", 1) >= 0x80
    right.client.publish("elsewhere/g", b"dropped", qos=1)
    assert await right.subscribe("allowed/g", 1) == 1
    right.client.publish("allowed/g", b"x", qos=1)
    await right.gets("allowed/g", b"x", 1)
    return (right,)


async def restarted():
    again = Client(f"g-again-{VERSION}")
    topic = f"again/g/{VERSION}"
    again.client.on_connect = lambda *_: again.client.subscribe(topic, qos=1)
    again.client.set_config({"reconnect_retries": -1, "reconnect_delay": 0.2})
    await again.connect()
    await again.acknowledged.get()
    print("ready", flush=True)
    await again.acknowledged.get()
    again.client.publish(topic, b"x", qos=1)
    await again.gets(topic, b"x", 1)
    return (again,)


async def main():
    parts = [qualities, retained, wills, groups, taking_over, *([version_5] if IS_5 else [])]
    for part in [globals()[sys.argv[3]]] if sys.argv[3:] else parts:
        for client in await part():
            await client.end()
        print(part.__name__, flush=True)


asyncio.run(asyncio.wait_for(main(), 40))
