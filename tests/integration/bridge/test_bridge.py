"""B1–B4 against a real RabbitMQ: what goes where, what survives, what is bound when."""

from __future__ import annotations

import asyncio
import random
import struct
from decimal import Decimal
from typing import Any

import aio_pika
import msgpack
import pytest

from fumarole.bridge.amqp import GONE
from fumarole.bridge.xmq_routes import TOPIC, Routes
from tests.conformance.tables import AMQP_BINDINGS, AMQP_KEYS
from tests.integration.bridge.bridges import Dealer, RunningBridge, dealers, pack
from tests.integration.bridge.conftest import StartBridge
from tests.integration.bridge.rabbitmq import RabbitMq

Channel = aio_pika.abc.AbstractChannel


async def publish(channel: Channel, exchange: str, key: str, body: bytes = b"x", **properties: Any) -> None:
    target = await channel.get_exchange(exchange)
    await target.publish(aio_pika.Message(body, **properties), key, mandatory=False)


async def test_a_topic_reaches_each_client_once(bridge: RunningBridge, channel: Channel) -> None:
    """However many of its routes match (B4)."""
    with dealers(bridge.endpoint, 3) as (both, one, other):
        both.bind("", "b4.#", "b4.a.*", "b4.a.b")
        one.bind("", "b4.*.b")
        other.bind("", "b4.c")
        await publish(channel, "amq.topic", "b4.a.b", b"1")
        await publish(channel, "amq.topic", "b4.c", b"2")
        assert [(key, each["payload"]) for key, each in both.messages(2)] == [("b4.a.b", b"1"), ("b4.c", b"2")]
        assert [(key, each["payload"]) for key, each in one.messages(1)] == [("b4.a.b", b"1")]
        assert [(key, each["payload"]) for key, each in other.messages(1)] == [("b4.c", b"2")]
        assert both.silent()
        assert one.silent()
        assert other.silent()


async def test_a_direct_name_reaches_those_who_hold_it(bridge: RunningBridge, channel: Channel) -> None:
    with dealers(bridge.endpoint, 3) as (one, two, other):
        one.bind("my-direct-queue")
        two.bind("my-direct-queue", "unrelated")
        other.bind("my-direct-queue-2")
        await publish(channel, "amq.direct", "my-direct-queue", b"1")
        for holder in (one, two):
            assert [(key, each["payload"]) for key, each in holder.messages(1)] == [("my-direct-queue", b"1")]
        assert other.silent()


async def test_no_route_is_counted(start_bridge: StartBridge, channel: Channel) -> None:
    bridge = start_bridge("--topics", "counted.#")
    await publish(channel, "amq.topic", "counted.a")
    status = bridge.wait_for(lambda status: status["received"] == 1)
    assert (status["dropped"]["no route"], status["delivered"]) == (1, 0)


async def test_sends_arrive_in_order_with_the_first_of_an_exchange(bridge: RunningBridge, channel: Channel) -> None:
    """The careful way and the quick one are one way for a client."""
    exchange = await channel.declare_exchange("order", "fanout", auto_delete=True)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange)
    with dealers(bridge.endpoint) as (dealer,):
        for number in range(500):
            dealer.say(b"send", b"order", b"k", pack(b"%d" % number))
        assert dealer.flush() == []
        bodies: list[bytes] = []
        async with queue.iterator(no_ack=True, timeout=10) as messages:
            async for message in messages:
                bodies.append(message.body)
                if len(bodies) == 500:
                    break
    assert bodies == [b"%d" % number for number in range(500)]


PROPERTIES = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": msgpack.Timestamp(1_700_000_000, 0),
    "type": "reading",
    "user_id": "guest",
    "app_id": "test",
    "cluster_id": "here",
}
HEADERS = {
    "nothing": None,
    "yes": True,
    "small": -5,
    "large": 2**62,
    "exact": 0.1,
    "text": "žluťoučký",
    "bytes": b"\x00\xff",
    "list": [1, "two", [3.0, None], {"deep": {"deeper": [b"x"]}}],
    "table": {"when": msgpack.Timestamp(4_300_000_000, 0), "price": msgpack.ExtType(1, struct.pack(">Bi", 2, -1999))},
}


@pytest.mark.parametrize("exchange", ["amq.topic", "amq.direct"])
def test_all_properties_and_headers_survive(dealer: Dealer, exchange: str) -> None:
    """ZeroMQ → AMQP → ZeroMQ: all 14, headers being one."""
    dealer.bind("survive", "survive")
    dealer.say(b"send", exchange.encode(), b"survive", pack(b"\x00payload", PROPERTIES, HEADERS))
    ((key, message),) = dealer.messages(1)
    assert key == "survive"
    assert message == {"payload": b"\x00payload", "properties": PROPERTIES, "headers": HEADERS}
    assert len(PROPERTIES) + 1 == 14


async def test_what_a_plain_amqp_client_sees_and_sends(dealer: Dealer, channel: Channel) -> None:
    """Its types, not ours: decimals, times and tables both ways."""
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind("amq.topic", "types")
    dealer.bind("", "types")
    dealer.say(b"send", b"amq.topic", b"types", pack(b"", {"priority": 3, "app_id": "me"}, HEADERS))
    async with queue.iterator(no_ack=True, timeout=10) as messages:
        message = await anext(messages)
    assert (message.priority, message.app_id) == (3, "me")
    headers: Any = message.headers
    assert headers["table"]["price"] == Decimal("-19.99")
    assert headers["exact"] == 0.1
    assert headers["list"][3] == {"deep": {"deeper": [b"x"]}}
    dealer.messages(1)
    await publish(channel, "amq.topic", "types", headers={"price": Decimal("12.5"), "n": 3, "in": {"a": [True]}})
    ((_, heard),) = dealer.messages(1)
    assert heard["headers"] == {"price": msgpack.ExtType(1, struct.pack(">Bi", 1, 125)), "n": 3, "in": {"a": [True]}}


def test_a_large_payload_goes_both_ways(dealer: Dealer) -> None:
    """More than one frame of AMQP."""
    payload = random.Random(1).randbytes(1_000_000)
    dealer.bind("", "large")
    dealer.say(b"send", b"amq.topic", b"large", pack(payload))
    ((_, message),) = dealer.messages(1)
    assert message["payload"] == payload


def test_bindings_come_with_the_first_route_and_go_with_the_last(start_bridge: StartBridge, rabbitmq: RabbitMq) -> None:
    """B3: and the direct queue is there only while a client has a direct name."""
    bridge = start_bridge("--topics", "b3.#", "--direct-queue", "b3-queue")
    assert "b3.#" in rabbitmq.bindings("amq.topic")
    assert "b3-queue" not in rabbitmq.queues()
    with dealers(bridge.endpoint, 2) as (one, two):
        one.bind("b3-direct", "b3.a", "b3.#")
        two.bind("b3-direct", "b3.a")
        assert rabbitmq.bindings("amq.topic").count("b3.a") == 1
        assert rabbitmq.bindings("amq.direct").count("b3-direct") == 1
        assert "b3-queue" in rabbitmq.queues()
        one.say(b"unbind", b"b3-direct", b"b3.a", b"b3.#")
        one.flush()
        assert rabbitmq.bindings("amq.topic").count("b3.a") == 1
        two.say(b"unbind", b"b3-direct", b"b3.a")
        two.flush()
        assert "b3.a" not in rabbitmq.bindings("amq.topic")
        assert "b3.#" in rabbitmq.bindings("amq.topic")
        assert "b3-direct" not in rabbitmq.bindings("amq.direct")
        assert "b3-queue" not in rabbitmq.queues()


def test_configured_topics_bound_what_clients_may_ask_for(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--topics", "in.#", "--topics", "*.also")
    with dealers(bridge.endpoint) as (dealer,):
        dealer.bind("", "in.a.#", "in", "x.also", "in.*.c")
        for topic in (b"out", b"#", b"in*", b"x.y.also"):
            kind, text = dealer.ask(b"bind", b"", b"in.b", topic)
            assert kind == b"error"
            assert b"is not within what this bridge offers: in.#, *.also" in text
        assert bridge.status()["routes"]["count"] == 4


async def test_the_seeds_table_through_routes_and_through_rabbitmq(
    bridge: RunningBridge, channel: Channel, rabbitmq: RabbitMq
) -> None:
    """T7: five bindings, seven keys; the table, RabbitMQ's own queues and the bridge's clients agree."""
    routes = Routes(lambda: 0.0)
    queues = {}
    with dealers(bridge.endpoint, len(AMQP_BINDINGS)) as clients:
        for client, (name, pattern) in zip(clients, AMQP_BINDINGS.items(), strict=True):
            routes.add_topic(pattern, name, 1.0)
            queues[name] = await channel.declare_queue(exclusive=True)
            await queues[name].bind("amq.topic", pattern)
            client.bind("", pattern)
        for key, expected in AMQP_KEYS.items():
            await publish(channel, "amq.topic", key, key.encode())
            assert sorted(routes.get_topic(key)) == expected.split()
        heard: dict[str, list[str]] = {key: [] for key in AMQP_KEYS}
        theirs: dict[str, list[str]] = {key: [] for key in AMQP_KEYS}
        for client, name in zip(clients, AMQP_BINDINGS, strict=True):
            for key, _ in client.messages(sum(name in names.split() for names in AMQP_KEYS.values())):
                heard[key].append(name)
            assert client.silent(0.05)
            while (message := await queues[name].get(no_ack=True, fail=False)) is not None:
                theirs[message.routing_key or ""].append(name)
    assert heard == theirs == {key: names.split() for key, names in AMQP_KEYS.items()}


async def test_random_patterns_and_keys_as_rabbitmqs_own_topic_exchange(channel: Channel) -> None:
    """T8: our answer equals RabbitMQ's."""
    chance = random.Random(7)
    exchange = await channel.declare_exchange("random-topics", "topic", auto_delete=True)

    def word() -> str:
        return chance.choice(["a", "b", "c", "*", "#", "", "a*", "#b"])

    patterns = sorted({".".join(word() for _ in range(chance.randint(1, 5))) for _ in range(150)} | {""})
    keys = sorted(
        {
            ".".join(chance.choice(["a", "b", "c", "", "*", "#"]) for _ in range(chance.randint(1, 5)))
            for _ in range(150)
        }
        | {""}
    )
    routes = Routes(lambda: 0.0)
    queues = []
    for pattern in patterns:
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, pattern)
        queues.append(queue)
        routes.add_topic(pattern, pattern, 1.0)
    for key in keys:
        await exchange.publish(aio_pika.Message(b""), key, mandatory=False)
    found: dict[str, set[str]] = {key: set() for key in keys}
    for queue, pattern in zip(queues, patterns, strict=True):
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            found[message.routing_key or ""].add(pattern)
    assert {key: set(routes.get_topic(key)) for key in keys} == found
    assert len(routes.keys(TOPIC)) == len(patterns)


async def test_expiry_in_real_time(start_bridge: StartBridge, rabbitmq: RabbitMq, channel: Channel) -> None:
    """B2 with --ttl 2: the silent one gets nothing after it, one that renews misses nothing over 50 renewals."""
    bridge = start_bridge("--ttl", "2", "--direct-queue", "expiring")
    with dealers(bridge.endpoint, 2) as (silent, renewing):
        silent.bind("silent", "ttl.#", "ttl.silent")
        renewing.bind("", "ttl.#")
        for number in range(50):
            renewing.say(b"bind", b"", b"ttl.#")
            await publish(channel, "amq.topic", "ttl.a", b"%d" % number)
            await asyncio.sleep(0.06)
        assert [each["payload"] for _, each in renewing.messages(50)] == [b"%d" % number for number in range(50)]
        heard = 0
        while not silent.silent(0):
            heard += len(silent.messages(1))
        assert 0 < heard < 50  # three seconds have passed, two of them were its own
        bridge.wait_for(lambda status: status["routes"]["count"] == 1, 2.0)
        bridge.wait_for(lambda status: status["bindings"]["topic"] == ["ttl.#"], 2.0)
        assert "ttl.silent" not in rabbitmq.bindings("amq.topic")
        assert "silent" not in rabbitmq.bindings("amq.direct")
        assert "expiring" not in rabbitmq.queues()


def test_calls_gather_replies(bridge: RunningBridge) -> None:
    """R1, with clients of the bridge that answer by reply-to and correlation-id."""
    with dealers(bridge.endpoint, 3) as (caller, one, two):
        one.bind("", "echo.#")
        two.bind("", "echo.#")
        caller.say(b"call", b"id-1", b"amq.topic", b"echo.a", pack(b"hello"), msgpack.packb({"replies": 2}))
        for number, each in enumerate((one, two)):
            ((_, question),) = each.messages(1)
            properties = question["properties"]
            answer = pack(b"%d" % number, {"correlation_id": properties["correlation_id"]})
            each.say(b"send", b"", properties["reply_to"].encode(), answer)
            each.flush()
        answers = [caller.hear(), caller.hear()]
        assert {(kind, identity, msgpack.unpackb(message)["payload"]) for kind, identity, message in answers} == {
            (b"reply", b"id-1", b"0"),
            (b"reply", b"id-1", b"1"),
        }
        assert caller.hear() == [b"done", b"id-1"]
        options = msgpack.packb({"timeout": 0.2})
        assert caller.ask(b"call", b"id-2", b"amq.topic", b"echo.b", pack(), options) == [b"done", b"id-2"]
        kind, text, identity = caller.ask(b"call", b"id-3", b"amq.topic", b"nobody.there", pack(), b"")
        assert (kind, identity) == (b"error", b"id-3")
        assert text.startswith(b"no receiver")
    assert bridge.status()["calls"] == 0


def heard_until(dealer: Dealer, identity: bytes) -> list[list[bytes]]:
    heard = [dealer.hear()]
    while heard[-1][-1] != identity:
        heard.append(dealer.hear())
    return heard


def test_an_exchange_that_is_gone_costs_nobody_else_anything(bridge: RunningBridge, rabbitmq: RabbitMq) -> None:
    """It was published to before, so its messages take the quick way; then it is deleted."""
    rabbitmq.ask("exchanges/%2F/short-lived", "PUT", {"type": "fanout"})
    with dealers(bridge.endpoint, 2) as (careless, other):
        other.bind("", "still.here")
        careless.say(b"send", b"short-lived", b"", pack())
        assert careless.flush() == []
        rabbitmq.ask("exchanges/%2F/short-lived", "DELETE")
        refused: list[list[bytes]] = []
        while not refused:
            careless.say(b"send", b"short-lived", b"", pack())
            careless.say(b"flush", b"f")
            *refused, ended = heard_until(careless, b"f")
            # What was on its way when the exchange went is lost, and the flush says so.
            assert ended in ([b"done", b"f"], [b"error", GONE.encode(), b"f"])
        assert refused == [[b"error", b"there is no exchange 'short-lived'"]]
        other.say(b"send", b"amq.topic", b"still.here", pack(b"1"))
        assert [each["payload"] for _, each in other.messages(1)] == [b"1"]
