"""nats-py over WebSocket: what its own tests of WebSocket do. Prints `ok` at the end of each, for the test that runs it."""

import asyncio
import sys

import nats
from nats.aio.msg import Msg
from nats.errors import NoRespondersError, TimeoutError

ADDRESS = sys.argv[1]


async def publish_and_subscribe() -> None:
    client = await nats.connect(ADDRESS, allow_reconnect=False)
    got: list[tuple[str, bytes, dict[str, str]]] = []

    async def hear(message: Msg) -> None:
        got.append((message.subject, message.data, dict(message.headers or {})))

    await client.subscribe("foo.*", cb=hear)
    await client.flush()
    for number in range(100):
        await client.publish(f"foo.{number}", b"x" * number, headers={"Number": str(number)} if number % 2 else None)
    await client.flush()
    await asyncio.sleep(0.2)
    assert len(got) == 100, len(got)
    assert got[7] == ("foo.7", b"x" * 7, {"Number": "7"}), got[7]
    await client.close()


async def large_messages() -> None:
    client = await nats.connect(ADDRESS, allow_reconnect=False)
    subscription = await client.subscribe("large")
    await client.flush()
    for size in (0, 1, 125, 126, 65_535, 65_536, 1_000_000):
        await client.publish("large", b"y" * size)
        message = await subscription.next_msg(5)
        assert message.data == b"y" * size
    await client.close()


async def request_and_reply() -> None:
    server, client = await nats.connect(ADDRESS, allow_reconnect=False), await nats.connect(ADDRESS)

    async def answer(message: Msg) -> None:
        await message.respond(message.data * 2)

    await server.subscribe("double", cb=answer)
    await server.flush()
    reply = await client.request("double", b"ab", timeout=5)
    assert reply.data == b"abab"
    try:
        await client.request("nobody", b"", timeout=5)
    except NoRespondersError:
        pass
    else:
        raise AssertionError("there are responders")
    await server.drain()
    await client.close()


async def unsubscribe() -> None:
    client = await nats.connect(ADDRESS, allow_reconnect=False)
    subscription = await client.subscribe("few")
    await subscription.unsubscribe(limit=2)
    for _ in range(5):
        await client.publish("few", b"x")
    await client.flush()
    assert [(await subscription.next_msg(2)).data for _ in range(2)] == [b"x"] * 2
    try:
        await subscription.next_msg(0.2)
    except (TimeoutError, nats.errors.BadSubscriptionError):
        pass
    else:
        raise AssertionError("a third message came")
    await client.close()


async def groups() -> None:
    clients = [await nats.connect(ADDRESS, allow_reconnect=False) for _ in range(3)]
    counts = [0, 0, 0]

    for number, client in enumerate(clients):

        async def hear(_message: Msg, number: int = number) -> None:
            counts[number] += 1

        await client.subscribe("shared", queue="g", cb=hear)
        await client.flush()
    for _ in range(30):
        await clients[0].publish("shared", b"x")
    await clients[0].flush()
    await asyncio.sleep(0.3)
    assert sum(counts) == 30, counts
    assert min(counts) == 10, counts
    for client in clients:
        await client.close()


async def main() -> None:
    for each in (publish_and_subscribe, large_messages, request_and_reply, unsubscribe, groups):
        await each()
        print("ok", each.__name__, flush=True)


asyncio.run(main())
