import asyncio

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
