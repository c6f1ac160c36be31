import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import fumarole
from fumarole.client.client import CLOSE_SECONDS
from tests.client.brokers import RealBroker
from tests.client.conftest import StartFake


async def test_draining_lets_work_be_finished(broker: RealBroker) -> None:
    """Every request that reached the responder is answered, though it is told to end in the middle."""
    responder = await fumarole.connect(broker.url)
    async with fumarole.connect(broker.url) as client, client.subscribe("answers") as answers:
        started = asyncio.Event()

        async def respond() -> None:
            async for request in requests:
                started.set()
                await asyncio.sleep(0)
                await responder.publish("answers", request.payload)

        requests = await responder.subscribe("work")
        responding = asyncio.create_task(respond())
        await client.publish_many(("work", b"%d" % number) for number in range(500))
        await client.flush()
        await started.wait()
        async with asyncio.timeout(5):
            await responder.drain(timeout=60)
        assert responding.done()
        await answers.drain()
        assert [int(message.payload) async for message in answers] == list(range(500))
        assert broker.consumers == 0


async def test_draining_ends_after_its_time(broker: RealBroker) -> None:
    client = await fumarole.connect(broker.url)
    messages = await client.subscribe("a")
    await client.publish("a", b"never taken")
    await client.flush()
    await client.drain(timeout=0.05)
    assert [message.payload async for message in messages] == [b"never taken"]


async def test_draining_with_nothing_to_do_is_quick(broker: RealBroker) -> None:
    client = await fumarole.connect(broker.url)
    waiting = await client.subscribe("a")
    await client.subscribe("b")
    taking = asyncio.create_task(anext(waiting, None))
    async with asyncio.timeout(5):
        await client.drain(timeout=60)
    assert await taking is None
    assert not client.connected


async def test_draining_while_disconnected(broker: RealBroker) -> None:
    client = await fumarole.connect(broker.url, on_notice=lambda _: None)
    messages = await client.subscribe("a")
    await client.publish("a", b"1")
    await client.flush()
    await broker.stop()
    assert (await anext(messages)).payload == b"1"
    async with asyncio.timeout(5):
        await client.drain(timeout=0.05)
    assert [message async for message in messages] == []


@pytest.mark.parametrize("cut_short", [False, True], ids=["closing", "closing was cancelled"])
@pytest.mark.parametrize(
    "attempt",
    [
        lambda client: client.flush(),
        lambda client: client.subscribe("a")._opening,
        lambda client: client.request("a"),
        lambda client: client.publish("a"),
        lambda client: client.publish_many([("a", b"")]),
    ],
    ids=["flush", "subscribe", "request", "publish", "publish_many"],
)
async def test_who_comes_while_it_closes_is_told(
    broker: RealBroker, attempt: Callable[[fumarole.Client], Awaitable[Any]], cut_short: bool
) -> None:
    """The socket takes a moment to close, and the loop must not stand still meanwhile."""
    client = await fumarole.connect(broker.url)
    closing = asyncio.create_task(client.close())
    while client.connected:  # noqa: ASYNC110 - it is over in a few turns of the loop
        await asyncio.sleep(0)
    assert not closing.done()
    if cut_short:
        closing.cancel()
    with pytest.raises(fumarole.ClosedError, match="the client is closed"):
        await attempt(client)
    await asyncio.wait([closing])
    with pytest.raises(fumarole.ClosedError, match="the client is closed"):
        await attempt(client)


async def test_draining_lets_work_on_readings_be_finished(broker: RealBroker) -> None:
    worker = await fumarole.connect(broker.url)
    async with fumarole.connect(broker.url) as client, client.subscribe("results") as results:
        readings = await worker.where("Kind = 'temperature'")
        started = asyncio.Event()

        async def work() -> None:
            async for each in readings:
                started.set()
                await asyncio.sleep(0)
                if isinstance(each, fumarole.Reading):
                    await worker.publish("results", str(each.value))

        working = asyncio.create_task(work())
        producer = client.producer({"Kind": "temperature"})
        for value in range(500):
            await producer.publish(value)
        await client.flush()
        await started.wait()
        async with asyncio.timeout(5):
            await worker.drain(timeout=60)
        await working
        await results.drain()
        assert [float(message.payload) async for message in results] == list(range(500))
        assert (await client.stats())["consumers"] == 1  # the inbox that asks


async def test_draining_readings_nobody_takes_ends_after_its_time(broker: RealBroker) -> None:
    client = await fumarole.connect(broker.url)
    readings, quiet = await client.where("Kind = 'temperature'"), await client.where("Kind = 'pressure'")
    await client.producer({"Kind": "temperature"}).publish(1)
    await client.flush()
    async with asyncio.timeout(5):
        await quiet.finished()
    await client.drain(timeout=0.05)
    assert [type(each) async for each in readings] == [fumarole.Change, fumarole.Reading]
    async with asyncio.timeout(5):
        await readings.finished()


@pytest.mark.parametrize("way", ["close", "drain"])
async def test_closing_that_was_cancelled_is_closing(start_fake: StartFake, way: str) -> None:
    server = await start_fake()
    client = await fumarole.connect(server.url)
    messages = await client.subscribe("a")
    server.silent = True
    closing = asyncio.create_task(getattr(client, way)())
    heard = len(server.everything())
    await server.wait_for(lambda: len(server.everything()) > heard)
    closing.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not client.connected
        assert [message async for message in messages] == []


async def test_closing_that_was_cancelled_waits_for_nobody(start_fake: StartFake) -> None:
    server = await start_fake()
    client = await fumarole.connect(server.url)
    server.deaf = True
    publishing = asyncio.create_task(client.publish_many([("a", bytes(1_000_000))] * 20))
    connection = client._reconnecting.connection
    assert connection is not None
    while not connection.paused:  # noqa: ASYNC110 - it is over in a few turns of the loop
        await asyncio.sleep(0)
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    async with asyncio.timeout(CLOSE_SECONDS / 2):
        with pytest.raises(asyncio.CancelledError):
            await closing
    assert connection.closed
    with pytest.raises(fumarole.ClosedError):
        await publishing
