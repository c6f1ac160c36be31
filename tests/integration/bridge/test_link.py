"""`--exchange`: AMQP's topic exchange and a namespace of a fumarole broker hear each other, once, and nothing loops."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import aio_pika
import msgpack
import pytest

import fumarole
from fumarole.server.credentials import new_token
from tests.integration.bridge.bridges import RunningBridge, dealers, pack
from tests.integration.bridge.conftest import StartBridge
from tests.integration.conftest import Brokers
from tests.integration.running import RunningBroker
from tests.ports import free_port

Channel = aio_pika.abc.AbstractChannel


@pytest.fixture(scope="module")
def broker(brokers: Brokers) -> RunningBroker:
    return brokers.share('doors.msgpack = ["127.0.0.1:0"]\nmsgpack.namespace = "linked"\n')


async def linked(bridge: RunningBridge) -> None:
    await asyncio.to_thread(bridge.says, "linked with the namespace")


async def publish(channel: Channel, key: str, body: bytes, **properties: Any) -> None:
    exchange = await channel.get_exchange("amq.topic")
    await exchange.publish(aio_pika.Message(body, **properties), key, mandatory=False)


async def test_amqp_zeromq_and_nats_hear_each_other(
    start_bridge: StartBridge, broker: RunningBroker, channel: Channel
) -> None:
    bridge = start_bridge("--exchange", "linked", "--servers", broker.url)
    await linked(bridge)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind("amq.topic", "#")
    with dealers(bridge.endpoint) as (dealer,):
        dealer.bind("", "volcanoes.#")
        async with fumarole.connect(broker.url, user="linked") as client, client.subscribe("volcanoes.>") as heard:
            await publish(channel, "volcanoes.a", b"1", headers={"unit": "celsius", "n": 5}, content_type="text/plain")
            message = await anext(heard)
            assert (message.topic, message.payload) == ("volcanoes.a", b"1")
            assert message.headers["Amqp-Content-Type"] == "text/plain"
            assert (message.headers["unit"], message.headers["n"]) == ("celsius", "5")
            headers = {"Unit": "kelvin", "Amqp-Priority": "3", "Amqp-Message-Id": "m"}
            await client.publish("volcanoes.b", b"2", headers=headers)
            assert (await anext(heard)).payload == b"2"
            dealer.say(b"send", b"amq.topic", b"volcanoes.c", pack(b"3"))
            assert (await anext(heard)).payload == b"3"
            # Nothing comes twice, and nothing private crosses.
            await client.publish("$SYS.private", b"no")
            private = ("_INBOX.private", "_WHERE.private", "_FORGOTTEN")
            for topic in private:
                await client.publish(topic, b"no")
                await publish(channel, topic, b"stays")
            await publish(channel, "$FUM.stats", b"no")
            await publish(channel, "not a topic", b"no")
            await publish(channel, "volcanoes.last", b"4")
            assert (await anext(heard)).payload == b"4"
            await asyncio.sleep(0.3)
            assert heard.buffered == 0
        # Of different publishers, so in any order.
        keys = [key for key, _ in dealer.messages(4)]
        assert sorted(keys) == ["volcanoes.a", "volcanoes.b", "volcanoes.c", "volcanoes.last"]
        assert dealer.silent(0.2)
    link = bridge.status()["link"]
    assert {**link, "not_taken": 0} == {
        "namespace": "linked",
        "state": "connected",
        "to_namespace": 3,
        "to_amqp": 1,
        "not_taken": 0,
    }
    assert link["not_taken"] == 1  # the key that is no topic
    seen: list[tuple[str, bytes]] = []
    async for message in _all(queue):
        seen.append((message.routing_key or "", message.body))
        if message.routing_key == "volcanoes.b":
            assert (message.priority, message.message_id, message.headers["Unit"]) == (3, "m", "kelvin")
    assert sorted(seen) == sorted([
        ("volcanoes.a", b"1"), ("volcanoes.b", b"2"), ("volcanoes.c", b"3"),
        ("$FUM.stats", b"no"), ("not a topic", b"no"), ("volcanoes.last", b"4"), *[(topic, b"stays") for topic in private],
    ])  # fmt: skip


async def _all(queue: aio_pika.abc.AbstractQueue) -> Any:
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        yield message


async def test_readings_of_the_msgpack_door_reach_amqp(
    start_bridge: StartBridge, broker: RunningBroker, channel: Channel
) -> None:
    bridge = start_bridge("--exchange", "linked", "--servers", broker.url, "--topics", "readings.#")
    await linked(bridge)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind("amq.topic", "readings.#")
    (port,) = {int(line.rpartition(":")[2]) for line in broker.log if "MsgPack door open" in line}
    identity = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
    with socket.create_connection(("127.0.0.1", port)) as sensor:
        sensor.sendall(msgpack.packb([identity, {"Room": "410"}, 21.5]))
        async with queue.iterator(no_ack=True, timeout=10) as messages:
            message = await anext(messages)
    assert (message.routing_key, message.body) == (f"readings.{identity}", b"21.5")


async def test_two_bridges_between_the_same_two_do_not_loop(
    start_bridge: StartBridge, broker: RunningBroker, channel: Channel
) -> None:
    """Each carries a message over once, so it is there twice; without the mark it would never end."""
    for name in ("left", "right"):
        await linked(
            start_bridge(
                "--name", name, "--exchange", "linked", "--servers", broker.url, "--topics", "loop.#", "--topics", "*.a"
            )
        )
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind("amq.topic", "loop.#")
    async with fumarole.connect(broker.url, user="linked") as client, client.subscribe("loop.>") as heard:
        await client.publish("loop.a", b"from NATS")
        await publish(channel, "loop.b", b"from AMQP")
        await asyncio.sleep(1.0)
        assert sorted((each.topic, each.payload) for each in [await anext(heard) for _ in range(heard.buffered)]) == [
            ("loop.a", b"from NATS"),
            ("loop.b", b"from AMQP"),
            ("loop.b", b"from AMQP"),
        ]
    assert sorted([message.body async for message in _all(queue)]) == [b"from AMQP", b"from NATS", b"from NATS"]


async def test_a_bridge_that_starts_before_the_fumarole_broker(start_bridge: StartBridge, brokers: Brokers) -> None:
    port = free_port()
    bridge = start_bridge("--exchange", "linked", "--servers", f"nats://127.0.0.1:{port}")
    await asyncio.to_thread(bridge.says, "no link with the namespace")
    late = brokers.start("", port=port)
    try:
        await linked(bridge)
    finally:
        late.stop()


def test_a_link_that_is_refused_ends_nothing_else(start_bridge: StartBridge, brokers: Brokers) -> None:
    """B5: the broker is back, and lets the link's user no longer to one of its topics. The ROUTER stays."""
    token, digest = new_token()
    port = free_port()
    allowed = f'[[users]]\nname = "link"\ntoken = "{digest}"\nnamespace = "linked"\n'
    refused = allowed + 'subscribe.deny = ["b", "b.>"]\n'
    first = brokers.start(allowed, port=port)
    bridge = start_bridge(
        "--exchange", "linked", "--servers", f"nats://{token}@127.0.0.1:{port}", "--topics", "a.#", "--topics", "b.#"
    )
    bridge.wait_for(lambda status: status["link"]["state"] == "connected")
    first.stop()
    with dealers(bridge.endpoint) as (dealer,):
        dealer.bind("", "a.#")
        second = brokers.start(refused, port=port)
        bridge.wait_for(lambda status: status["link"]["state"] == "away")
        bridge.says("no link with the namespace linked: ")
        dealer.say(b"send", b"amq.topic", b"a.b", pack(b"1"))
        assert [key for key, _ in dealer.messages(1)] == ["a.b"]
        time.sleep(2.5)  # two attempts more
        second.stop()
        third = brokers.start(allowed, port=port)
        bridge.wait_for(lambda status: status["link"]["state"] == "connected")
        third.stop()
    assert len([line for line in bridge.log if "no link with the namespace linked: " in line]) <= 3, bridge.tail()


async def test_what_the_namespace_refuses_has_not_crossed(
    start_bridge: StartBridge, broker: RunningBroker, channel: Channel
) -> None:
    """It is counted, and told of now and then: a publisher can be very wrong."""
    bridge = start_bridge("--exchange", "linked", "--servers", broker.url)
    await linked(bridge)
    before = bridge.status()["link"]
    for _ in range(100):
        await publish(channel, "plant/line1", b"x")
    await publish(channel, "plant.line1", b"x")
    counts = {"to_namespace": before["to_namespace"] + 1, "not_taken": before["not_taken"] + 100}
    await asyncio.to_thread(bridge.wait_for, lambda status: counts.items() <= status["link"].items())
    assert len([line for line in bridge.log if "the server refused" in line]) == 1
