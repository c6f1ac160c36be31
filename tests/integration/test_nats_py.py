"""nats-py, a client that others wrote, unmodified."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.integration.conftest import StartBroker
from tests.integration.running import RunningBroker

SECONDS = 10


@pytest.fixture
async def client(broker: RunningBroker) -> AsyncIterator[Client]:
    connection = await connect(broker)
    yield connection
    await connection.close()


@pytest.fixture
async def other(broker: RunningBroker) -> AsyncIterator[Client]:
    connection = await connect(broker)
    yield connection
    await connection.close()


async def connect(broker: RunningBroker, **options: Any) -> Client:
    return await nats.connect(broker.url, allow_reconnect=False, **options)


async def take(subscription: Any, count: int) -> list[Msg]:
    return [await subscription.next_msg(timeout=SECONDS) for _ in range(count)]


async def topics(subscription: Any, last: str = "the.end") -> list[str]:
    """What comes before the last of a number of messages. (nats-py's PING may overtake what it has published.)"""
    heard: list[str] = []
    while (topic := (await subscription.next_msg(timeout=SECONDS)).subject) != last:
        heard.append(topic)
    return heard


async def all_routed(client: Client) -> None:
    """Returns when everything that the client has published before has been routed."""
    end = await client.subscribe("the.very.end")
    await client.publish("the.very.end", b"")
    await take(end, 1)
    await end.unsubscribe()


async def test_subscribe_and_publish(client: Client, other: Client) -> None:
    subscription = await client.subscribe("volcanoes.usa.atka")
    await client.flush()
    await other.publish("volcanoes.usa.atka", b"21.5")
    await other.publish("volcanoes.usa", b"another topic")
    await other.publish("volcanoes.usa.atka", b"21.6", reply="answers.here")
    first, second = await take(subscription, 2)
    assert (first.subject, first.data, first.reply) == ("volcanoes.usa.atka", b"21.5", "")
    assert (second.subject, second.data, second.reply) == ("volcanoes.usa.atka", b"21.6", "answers.here")


async def test_wildcards(client: Client) -> None:
    patterns = ["foo.*", "foo.>", "*.bar", "foo.*.*.bar", ">", "*"]
    subscriptions = [await client.subscribe(pattern) for pattern in patterns]
    for topic in ("foo", "foo.bar", "foo.bar.zoo", "fog.bar", "foo.a.b.bar"):
        await client.publish(topic, b"")
    ends = [await client.subscribe("the.end") for _ in patterns]
    await client.publish("the.end", b"")
    for end in ends:
        await take(end, 1)
    heard = [[message.subject for message in await take(sub, sub.pending_msgs)] for sub in subscriptions]
    assert heard == [
        ["foo.bar"],
        ["foo.bar", "foo.bar.zoo", "foo.a.b.bar"],
        ["foo.bar", "fog.bar"],
        ["foo.a.b.bar"],
        ["foo", "foo.bar", "foo.bar.zoo", "fog.bar", "foo.a.b.bar", "the.end"],
        ["foo"],
    ]


async def test_a_group_shares(broker: RunningBroker, client: Client) -> None:
    heard: Counter[int] = Counter()
    every_message = asyncio.Event()
    members = [await connect(broker) for _ in range(3)]

    def member(number: int) -> Any:
        async def on_message(message: Msg) -> None:
            heard[number] += 1
            if heard.total() == 300:
                every_message.set()

        return on_message

    for number, connection in enumerate(members):
        await connection.subscribe("work.>", queue="workers", cb=member(number))
        await connection.flush()
    for number in range(300):
        await client.publish(f"work.{number}", b"")
    await asyncio.wait_for(every_message.wait(), SECONDS)
    for connection in members:
        await connection.drain()
    assert heard.total() == 300
    assert all(80 <= heard[number] <= 120 for number in range(3)), heard


async def test_a_group_beside_others(client: Client) -> None:
    alone = await client.subscribe(">")
    shared = [await client.subscribe("a", queue="g"), await client.subscribe("*", queue="g")]
    second_group = await client.subscribe("a", queue="h")
    for _ in range(10):
        await client.publish("a", b"")
    await client.publish("the.end", b"")
    assert await topics(alone) == ["a"] * 10
    assert second_group.pending_msgs == 10
    assert shared[0].pending_msgs + shared[1].pending_msgs == 10


async def test_request_and_reply(client: Client, other: Client) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(message.data[::-1])

    await other.subscribe("reverse", cb=answer)
    await other.flush()
    replies = await asyncio.gather(*(client.request("reverse", b"%d" % n, timeout=SECONDS) for n in range(100, 200)))
    assert [reply.data for reply in replies] == [(b"%d" % n)[::-1] for n in range(100, 200)]


async def test_request_of_the_old_style(client: Client, other: Client) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"yes")

    await other.subscribe("question", cb=answer)
    await other.flush()
    assert (await client.request("question", b"", timeout=SECONDS, old_style=True)).data == b"yes"


async def test_a_request_nobody_can_hear_says_so_at_once(client: Client) -> None:
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("nobody", b"", timeout=SECONDS)


async def test_a_request_to_a_silent_responder_times_out(client: Client, other: Client) -> None:
    await other.subscribe("silence")
    await other.flush()
    with pytest.raises(nats.errors.TimeoutError):
        await client.request("silence", b"", timeout=0.2)


async def test_headers(client: Client, other: Client) -> None:
    subscription = await client.subscribe("a")
    await client.flush()
    sent = {"Site": "north rim", "Unit": "°C", "Empty": ""}
    await other.publish("a", b"hot", headers=sent)
    (message,) = await take(subscription, 1)
    assert (message.data, message.headers) == (b"hot", sent)


async def test_headers_in_a_request(client: Client, other: Client) -> None:
    async def answer(message: Msg) -> None:
        assert message.headers is not None
        await other.publish(message.reply, b"", headers={"Seen": message.headers["Asked"]})

    await other.subscribe("question", cb=answer)
    await other.flush()
    reply = await client.request("question", b"", timeout=SECONDS, headers={"Asked": "7"})
    assert reply.headers == {"Seen": "7"}


async def test_unsubscribe(client: Client) -> None:
    subscription = await client.subscribe("a")
    await client.publish("a", b"1")
    assert (await take(subscription, 1))[0].data == b"1"
    await subscription.unsubscribe()
    other = await client.subscribe("a")
    await client.publish("a", b"2")
    assert (await take(other, 1))[0].data == b"2"


async def test_unsubscribe_after_a_number_of_messages(client: Client, other: Client) -> None:
    subscription = await client.subscribe("a")
    await subscription.unsubscribe(limit=3)
    await client.flush()
    end = await client.subscribe("the.end")
    await client.flush()
    for number in range(5):
        await other.publish("a", b"%d" % number)
    await other.publish("the.end", b"")
    await take(end, 1)
    assert [message.data for message in await take(subscription, subscription.pending_msgs)] == [b"0", b"1", b"2"]
    with pytest.raises(nats.errors.NoRespondersError):
        await other.request("a", b"", timeout=SECONDS)


async def test_drain_delivers_what_had_come(broker: RunningBroker, client: Client) -> None:
    heard: list[bytes] = []

    async def on_message(message: Msg) -> None:
        heard.append(message.data)

    leaving = await connect(broker)
    await leaving.subscribe("a", cb=on_message)
    await leaving.flush()
    for number in range(1000):
        await client.publish("a", b"%d" % number)
    await all_routed(client)
    await leaving.drain()
    assert heard == [b"%d" % number for number in range(1000)]
    assert leaving.is_closed


async def test_drain_of_one_subscription(client: Client) -> None:
    heard = asyncio.Event()

    async def on_message(message: Msg) -> None:
        heard.set()

    subscription = await client.subscribe("a", cb=on_message)
    await client.publish("a", b"1")
    await asyncio.wait_for(heard.wait(), SECONDS)
    await subscription.drain()  # type: ignore[no-untyped-call]
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("a", b"", timeout=SECONDS)


async def test_without_echo(broker: RunningBroker, client: Client) -> None:
    deaf = await connect(broker, no_echo=True)
    subscription = await deaf.subscribe("a")
    await deaf.publish("a", b"own")
    await deaf.flush()
    await client.publish("a", b"of another")
    assert (await take(subscription, 1))[0].data == b"of another"
    await deaf.close()


async def test_verbose_and_pedantic(broker: RunningBroker) -> None:
    wordy = await connect(broker, verbose=True, pedantic=True)
    subscription = await wordy.subscribe("a")
    await wordy.publish("a", b"1")
    assert (await take(subscription, 1))[0].data == b"1"
    await wordy.close()


async def test_a_megabyte_both_ways(client: Client) -> None:
    subscription = await client.subscribe("a")
    payload = bytes(range(256)) * 4096
    await client.publish("a", payload)
    assert (await take(subscription, 1))[0].data == payload
    assert client.max_payload == len(payload)


async def test_order_over_many_messages(client: Client, other: Client) -> None:
    subscription = await client.subscribe("a", pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    for number in range(20_000):
        await other.publish("a", b"%d" % number)
    assert [int(message.data) for message in await take(subscription, 20_000)] == list(range(20_000))


async def test_the_empty_topic(client: Client) -> None:
    subscription = await client.subscribe(">")
    await client.publish("$EMPTY", b"1")
    (message,) = await take(subscription, 1)
    assert (message.subject, message.data) == ("$EMPTY", b"1")


async def test_namespaces_by_user_name(broker: RunningBroker) -> None:
    """N2, N3: with authentication off the user name is the namespace, and a token serves as well."""
    who: list[dict[str, str]] = [{"user": "red", "password": ""}, {"token": "red"}, {"user": "blue", "password": "x"}]
    red, also_red, blue = [await connect(broker, **one) for one in who]
    heard = []
    for one in (red, also_red, blue):
        heard.append((await one.subscribe(">"), await one.subscribe("a", queue="same-name")))
        await one.flush()
    await red.publish("a", b"")
    await red.publish("the.end", b"")
    await blue.publish("the.end", b"")
    assert [await topics(alone) for alone, _ in heard] == [["a"], ["a"], []]
    assert heard[0][1].pending_msgs + heard[1][1].pending_msgs == 1
    assert heard[2][1].pending_msgs == 0
    for one in (red, also_red, blue):
        await one.close()


async def test_nobody_in_another_namespace_can_hear(broker: RunningBroker, client: Client) -> None:
    await client.subscribe("a")
    await client.flush()
    stranger = await connect(broker, user="elsewhere", password="")
    with pytest.raises(nats.errors.NoRespondersError):
        await stranger.request("a", b"", timeout=SECONDS)
    await stranger.close()


async def test_reconnects_after_a_restart(start_broker: StartBroker) -> None:
    first = start_broker()
    reconnected = asyncio.Event()

    async def on_reconnect() -> None:
        reconnected.set()

    client = await nats.connect(
        first.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1, reconnected_cb=on_reconnect
    )
    alone, shared = await client.subscribe("a.*"), await client.subscribe("a.*", queue="g")
    await client.publish("a.1", b"before")
    assert [(await take(one, 1))[0].data for one in (alone, shared)] == [b"before"] * 2
    port = first.port
    await asyncio.to_thread(first.stop)
    await asyncio.to_thread(start_broker, port=port)
    await asyncio.wait_for(reconnected.wait(), SECONDS)
    await client.flush()
    await client.publish("a.2", b"after")
    assert [(await take(one, 1))[0].data for one in (alone, shared)] == [b"after"] * 2
    await client.close()
