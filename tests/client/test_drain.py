import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import fumarole
from tests.client.brokers import RealBroker


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
