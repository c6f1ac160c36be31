"""The AMQP broker takes nothing for a while (B5): clients are told, memory has its bounds, what was taken arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import fumarole
from fumarole.bridge import amqp
from fumarole.bridge.amqp import FULL, MOST_OUT
from fumarole.bridge.bridge import MOST_FLUSHES, Bridge, BridgeOptions
from fumarole.bridge.exchange_link import ExchangeLink
from fumarole.bridge.operations import BEHIND, Send
from fumarole.bridge.zeromq import RouterOptions
from tests.integration.bridge.bridges import dealers, pack
from tests.integration.bridge.conftest import StartBridge
from tests.integration.bridge.rabbitmq import RabbitMq
from tests.integration.conftest import Brokers
from tests.integration.oracle import MIB
from tests.integration.running import RunningBroker

SECONDS = 30.0
PAYLOAD = bytes(64 * 1024)


@pytest.fixture(scope="module")
def broker(brokers: Brokers) -> RunningBroker:
    return brokers.share('limits.outbox = "64 MiB"\n')  # so that nothing is dropped on its way to the link


@pytest.mark.timeout(60)
def test_clients_wait_a_little_and_are_then_refused(rabbitmq: RabbitMq, start_bridge: StartBridge) -> None:
    """The ROUTER goes on serving meanwhile. What was not refused arrives."""
    bridge = start_bridge()
    with dealers(bridge.endpoint, 2, sndhwm=10, sndtimeo=int(SECONDS * 1000)) as (client, other):
        client.bind("", "behind.#")
        client.say(b"send", b"amq.topic", b"behind.first", pack())
        client.messages(1)  # the exchange is known
        with rabbitmq.frozen():
            sent = 0
            while client.silent(0):
                assert sent < 2_000, "taken without end"
                client.say(b"send", b"amq.topic", b"behind.a", pack(PAYLOAD))
                sent += 1
            assert client.hear() == [b"error", BEHIND.encode()]
            client.say(b"status", b"all heard")
            refused = 1
            while client.hear()[1] != b"all heard":
                refused += 1
            assert client.hear() == [b"done", b"all heard"]
            taken = sent - refused
            assert taken * len(PAYLOAD) < 32 * MIB
            for _ in range(100):
                assert client.ask(b"send", b"amq.topic", b"behind.a", pack()) == [b"error", BEHIND.encode()]
            assert other.ask(b"status", b"s")[0] == b"reply"
        assert [key for key, _ in client.messages(taken)] == ["behind.a"] * taken
        client.say(b"send", b"amq.topic", b"behind.last", pack())
        assert [key for key, _ in client.messages(1)] == ["behind.last"]


@pytest.mark.timeout(60)
def test_a_flush_waits_until_the_broker_has_taken_it(rabbitmq: RabbitMq, start_bridge: StartBridge) -> None:
    """Also what goes the quick way. Who sent nothing does not wait for it."""
    bridge = start_bridge()
    with dealers(bridge.endpoint, 2) as (client, other):
        client.bind("", "behind.#")
        other.bind()
        client.say(b"send", b"amq.topic", b"behind.first", pack())
        client.messages(1)  # the exchange is known
        with rabbitmq.frozen():
            for _ in range(200):
                client.say(b"send", b"amq.topic", b"behind.a", pack(PAYLOAD))
            client.say(b"flush", b"mine")
            assert client.silent(0.5)
            assert other.flush() == []
        heard = [client.hear() for _ in range(201)]
        assert [b"done", b"mine"] in heard


@pytest.mark.timeout(60)
def test_flushes_that_wait_have_a_number(rabbitmq: RabbitMq, start_bridge: StartBridge) -> None:
    bridge = start_bridge("--waiting", str(2 * MOST_FLUSHES))  # they end together, and so do their answers
    with dealers(bridge.endpoint, 2) as (client, other):
        other.bind()
        with rabbitmq.frozen():
            client.say(b"send", b"amq.topic", b"behind.a", pack())  # on the careful way: the exchange is not known
            for number in range(MOST_FLUSHES + 1):
                client.say(b"flush", b"%d" % number)
            refusal = b"%d flushes of yours are under way; wait for one to end" % MOST_FLUSHES
            assert client.hear() == [b"error", refusal, b"%d" % MOST_FLUSHES]
            other.say(b"flush", b"another's")
            assert other.hear() == [b"done", b"another's"]
        for number in range(MOST_FLUSHES):
            assert client.hear() == [b"done", b"%d" % number]
        assert client.flush() == []


@pytest.mark.timeout(60)
async def test_a_broker_that_hangs_is_given_up_and_found_again(
    rabbitmq: RabbitMq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp, "HEARTBEAT", 1)
    bridge = Bridge(BridgeOptions("hanging", rabbitmq.url, RouterOptions("tcp://127.0.0.1:*")))
    bridge.start()
    working = asyncio.create_task(bridge.work())
    try:
        await until(lambda: bridge.amqp.ready)
        with rabbitmq.frozen():
            await until(lambda: working.done() or not bridge.amqp.ready)
            assert not working.done()
        await until(lambda: bridge.amqp.ready)
    finally:
        await bridge.stop()


@asynccontextmanager
async def linked(rabbitmq: RabbitMq, broker: RunningBroker) -> AsyncIterator[tuple[Bridge, ExchangeLink]]:
    """A bridge in this process, and its link, over which one message has gone."""
    bridge = Bridge(BridgeOptions("behind", rabbitmq.url, RouterOptions("tcp://127.0.0.1:*")))
    bridge.start()
    link = ExchangeLink(bridge, "linked", broker.url)
    running = asyncio.create_task(link.run())
    try:
        await until(lambda: link.connected and bridge.amqp.ready)
        async with fumarole.connect(broker.url, user="linked") as client:
            await client.publish("behind.first", b"")
        await until(lambda: link.counts.to_amqp == 1)
        yield bridge, link
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bridge.stop()


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.timeout(60)
async def test_whoever_publishes_has_a_bound(rabbitmq: RabbitMq, broker: RunningBroker) -> None:
    """Who does not wait for room, as those behind a message on the careful way, is refused at last."""
    said: list[str | None] = []
    async with linked(rabbitmq, broker) as (bridge, _):
        with rabbitmq.frozen():
            while BEHIND not in said:
                assert len(said) < 2_000, "taken without end"
                bridge.amqp.publish("somebody", Send("amq.topic", "a", PAYLOAD, {}, {}), b"\x00\x00", said.append)
                await asyncio.sleep(0)
            assert MOST_OUT < bridge.amqp._out_size < MOST_OUT + len(PAYLOAD) + 1_000
            assert not any(said[:-1])
        await until(lambda: not bridge.amqp._out_size)
        bridge.amqp.publish("somebody", Send("amq.topic", "a", b"", {}, {}), b"\x00\x00", said.append)
        assert said[-1] is None


@pytest.mark.timeout(60)
async def test_a_burst_over_the_link_arrives_whole(rabbitmq: RabbitMq, broker: RunningBroker) -> None:
    async with linked(rabbitmq, broker) as (bridge, link):
        with rabbitmq.frozen():
            async with fumarole.connect(broker.url, user="linked") as client:
                for _ in range(400):
                    await client.publish("behind.a", PAYLOAD)
            await until(lambda: bridge.amqp.full)
        await until(lambda: link.counts.to_amqp == 401)
        assert link.report()["not_taken"] == 0


@pytest.mark.timeout(60)
async def test_more_than_the_link_can_hold_is_counted(rabbitmq: RabbitMq, broker: RunningBroker) -> None:
    payload = bytes(512 * 1024)
    async with linked(rabbitmq, broker) as (bridge, link):
        with rabbitmq.frozen():
            async with fumarole.connect(broker.url, user="linked") as client:
                for _ in range(200):
                    await client.publish("behind.a", payload)
                    await client.flush()  # so that nothing is dropped on its way to the link
            await until(lambda: link.report()["not_taken"] > 0)
            assert FULL < bridge.amqp._out_size < FULL + len(payload) + 1_000
        await until(lambda: link.counts.to_amqp + link.report()["not_taken"] == 201)
        assert bridge.amqp.lost == 0
