"""aiomqtt against a broker: `talk_aiomqtt.py PORT VERSION [PART]`; the parts are those of talk_paho.py."""

import asyncio
import json
import os
import socket
import sys

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PORT = int(sys.argv[1])
VERSION = {"4": aiomqtt.ProtocolVersion.V311, "5": aiomqtt.ProtocolVersion.V5}[sys.argv[2]]
IS_5 = VERSION == aiomqtt.ProtocolVersion.V5


def client(name, **options):
    return aiomqtt.Client("127.0.0.1", PORT, identifier=name, protocol=VERSION, **options)


def given(packet, **values):
    made = Properties(packet)
    for name, value in values.items():
        setattr(made, name, value)
    return made


async def heard(of, count):
    found = []
    async for message in of.messages:
        found.append(message)
        if len(found) == count:
            break
    return [(str(each.topic), each.payload.decode(), each.qos, bool(each.retain)) for each in found], found


async def qualities():
    async with client("aio-one") as one, client("aio-two") as two:
        for granted in range(3):
            await two.subscribe(f"aio/{granted}", qos=granted)
            for qos in range(3):
                await one.publish(f"aio/{granted}", f"{qos}", qos=qos)
            found, _ = await heard(two, 3)
            assert found == [(f"aio/{granted}", f"{qos}", min(qos, granted), False) for qos in range(3)], found


async def retained():
    async with client("aio-one") as one, client("aio-two") as two:
        await one.publish("aio-r/a", "kept", qos=1, retain=True)
        await two.subscribe("aio-r/#", qos=1)
        found, _ = await heard(two, 1)
        assert found == [("aio-r/a", "kept", 1, True)], found
        await one.publish("aio-r/a", "", qos=1, retain=True)


async def wills():
    async with client("aio-watcher") as watcher:
        await watcher.subscribe("aio-gone", qos=1)
        dying = client("aio-dying", will=aiomqtt.Will("aio-gone", b"bye", qos=1))
        await dying.__aenter__()
        dying._client.socket().shutdown(socket.SHUT_RDWR)
        found, _ = await heard(watcher, 1)
        assert found == [("aio-gone", "bye", 1, False)], found


async def groups():
    async with client("aio-one") as one, client("aio-two") as two, client("aio-three") as three:
        for member in (two, three):
            await member.subscribe("$share/aio/aio-s/#", qos=1)
        for number in range(20):
            await one.publish("aio-s/a", f"{number}", qos=1)
        first, second = await heard(two, 10), await heard(three, 10)
        numbers = [int(payload) for _, payload, _, _ in first[0] + second[0]]
        assert sorted(numbers) == list(range(20)), numbers


async def taking_over():
    async with client("aio-watcher") as watcher:
        older = client("aio-same")
        await older.__aenter__()
        async with client("aio-same"):
            try:
                async for _ in older.messages:
                    raise AssertionError("a message came")
            except aiomqtt.MqttError:
                pass
        await watcher.publish("aio", "x", qos=1)


async def version_5():
    said = given(PacketTypes.CONNECT, UserProperty=[("Kind", "so2")])
    async with client("aio-one", properties=said) as one, client("aio-two") as two:
        await two.subscribe("aio-v", qos=1)
        await one.subscribe("aio-answer", qos=1)
        how = given(
            PacketTypes.PUBLISH,
            TopicAlias=2,
            UserProperty=[("k", "v"), ("k", "w")],
            ResponseTopic="aio-answer",
            CorrelationData=b"7",
        )
        await one.publish("aio-v", "?", qos=1, properties=how)
        await one.publish("", "!", qos=1, properties=given(PacketTypes.PUBLISH, TopicAlias=2))
        found, (question, _) = await heard(two, 2)
        assert found == [("aio-v", "?", 1, False), ("aio-v", "!", 1, False)], found
        assert question.properties.UserProperty[:2] == [("k", "v"), ("k", "w")]
        answer = given(PacketTypes.PUBLISH, CorrelationData=question.properties.CorrelationData)
        await two.publish(question.properties.ResponseTopic, "21.5", qos=1, properties=answer)
        found, (answer,) = await heard(one, 1)
        assert (found, answer.properties.CorrelationData) == ([("aio-answer", "21.5", 1, False)], b"7")


async def secured():
    files = json.loads(os.environ["MQTT_FILES"])
    tls = aiomqtt.TLSParameters(ca_certs=files["authority"], certfile=files["certificate"], keyfile=files["key"])
    try:
        async with client(f"aio-wrong-{sys.argv[2]}", username="ann", password="wrong", tls_params=tls):
            raise AssertionError("a wrong password was taken")
    except aiomqtt.MqttError:
        pass
    async with client(f"aio-right-{sys.argv[2]}", username="ann", password=files["password"], tls_params=tls) as right:
        (reason,) = await right.subscribe("elsewhere/#", qos=1)
        assert getattr(reason, "value", reason) == 0x80, reason
        await right.publish("elsewhere/aio", "dropped", qos=1)
        await right.subscribe("allowed/aio", qos=1)
        await right.publish("allowed/aio", "x", qos=1)
        found, _ = await heard(right, 1)
        assert found == [("allowed/aio", "x", 1, False)], found


async def restarted():
    async with client(f"aio-again-{sys.argv[2]}") as before:
        await before.subscribe("again/aio", qos=1)
        print("ready", flush=True)
        try:
            async for _ in before.messages:
                pass
        except aiomqtt.MqttError:
            pass
    while True:
        try:
            async with client(f"aio-again-{sys.argv[2]}") as after:
                await after.subscribe("again/aio", qos=1)
                await after.publish("again/aio", "x", qos=1)
                found, _ = await heard(after, 1)
                assert found == [("again/aio", "x", 1, False)], found
                return
        except aiomqtt.MqttError:
            await asyncio.sleep(0.1)


async def main():
    parts = [qualities, retained, wills, groups, taking_over, *([version_5] if IS_5 else [])]
    for part in [globals()[sys.argv[3]]] if sys.argv[3:] else parts:
        await part()
        print(part.__name__, flush=True)


asyncio.run(asyncio.wait_for(main(), 40))
