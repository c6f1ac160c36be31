import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import fumarole
from fumarole.client.connection import WRITE_BUFFER
from fumarole.client.sender import CHUNK
from fumarole.core.errors import TopicError
from tests.client.brokers import Notices, RealBroker
from tests.client.conftest import StartFake

Pair = tuple[str, bytes]


async def test_a_message_arrives_as_it_was_published(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a.*") as messages:
        await client.publish("a.b", b"\x00\r\n\xff", headers={"Unit": "celsius"}, reply="r.1")
        message = await anext(messages)
        assert (message.topic, message.payload, message.headers, message.reply) == (
            "a.b",
            b"\x00\r\n\xff",
            {"Unit": "celsius"},
            "r.1",
        )


async def test_text_is_published_as_utf8(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe() as messages:
        await client.publish("a", "21 °C")
        message = await anext(messages)
        assert message.payload == "21 °C".encode()
        assert message.text == "21 °C"


async def test_a_header_may_come_more_than_once(broker: RealBroker) -> None:
    pairs = [("A", "1"), ("B", "2"), ("A", "3")]
    async with fumarole.connect(broker.url) as client, client.subscribe() as messages:
        await client.publish("a", headers=pairs)
        message = await anext(messages)
        assert message.header_pairs == pairs
        assert message.headers == {"A": "1", "B": "2"}


async def test_the_empty_topic_is_empty_on_both_ends(broker: RealBroker) -> None:
    async with (
        fumarole.connect(broker.url) as client,
        client.subscribe("") as messages,
        client.subscribe("*") as others,
    ):
        await client.publish("", b"nothing")
        assert [(await anext(each)).topic for each in (messages, others)] == ["", ""]


@pytest.mark.parametrize("topic", ["a b", "a\r\nPUB x 0\r\n", "a.*", ">"])
async def test_a_topic_that_cannot_be_is_refused_here(broker: RealBroker, topic: str) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(TopicError):
            await client.publish(topic, b"")
        with pytest.raises(TopicError):
            await client.publish("a", b"", reply=topic)
        with pytest.raises(TopicError):
            await client.publish_many([(topic, b"")])


async def test_a_header_that_breaks_out_of_its_line_is_refused_here(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(ValueError, match="header"):
            await client.publish("a", headers={"A": "1\r\nB: 2"})


async def test_what_only_the_server_refuses_is_told_by_flush(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client:
        await client.publish("a/b", b"")
        with pytest.raises(fumarole.RefusedError, match="Invalid Publish Subject"):
            await client.flush()
        await client.flush()
        assert client.connected
    assert [type(notice) for notice in notices.all] == [fumarole.Refused]


async def test_a_payload_over_the_servers_limit_is_refused_here(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("ok", limit=3) as messages:
        most = client.max_payload
        for attempt in (
            client.publish("a", bytes(most + 1)),
            client.publish("a", bytes(most), headers={"A": "1"}),
            client.publish_many([("ok", b"1"), ("a", bytes(most + 1)), ("ok", b"never")]),
        ):
            with pytest.raises(fumarole.PayloadTooLargeError, match="1048576"):
                await attempt
        await client.publish("ok", bytes(most))
        await client.publish("ok", b"2")
        assert [len(message.payload) async for message in messages] == [1, most, 1]


async def test_many_from_an_iterable_in_order(broker: RealBroker) -> None:
    sent = [(f"a.{number % 7}", b"%d" % number) for number in range(20_000)]
    async with fumarole.connect(broker.url) as client, client.subscribe("a.*", limit=len(sent)) as messages:
        assert await client.publish_many(sent) == len(sent)
        assert [(message.topic, message.payload) async for message in messages] == sent


async def test_many_from_an_async_iterable_leave_as_they_come(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a") as messages:

        async def one_after_the_other() -> AsyncIterator[Pair]:
            for number in range(10):
                yield "a", b"%d" % number
                # The next is made when this one has arrived: nothing may wait for a batch to fill.
                assert (await anext(messages)).payload == b"%d" % number

        assert await client.publish_many(one_after_the_other()) == 10


async def test_what_came_before_a_fault_in_the_iterable_is_published(broker: RealBroker) -> None:
    def faulty() -> Iterator[Pair]:
        yield "a", b"1"
        yield "a", b"2"
        raise ZeroDivisionError

    async with fumarole.connect(broker.url) as client, client.subscribe("a", limit=2) as messages:
        with pytest.raises(ZeroDivisionError):
            await client.publish_many(faulty())
        assert [message.payload async for message in messages] == [b"1", b"2"]


@pytest.mark.parametrize("way", ["publish", "publish_many", "publish_many, async"])
async def test_a_publisher_waits_for_the_socket(start_fake: StartFake, way: str) -> None:
    server = await start_fake()
    made = 0

    def messages() -> Iterator[Pair]:
        nonlocal made
        while True:
            made += 1
            yield "a", bytes(1000)

    async def messages_async() -> AsyncIterator[Pair]:
        for message in messages():
            yield message

    async with fumarole.connect(server.url) as client:

        async def publish_without_end() -> None:
            if way == "publish":
                for topic, payload in messages():
                    await client.publish(topic, payload)
            else:
                await client.publish_many(messages() if way == "publish_many" else messages_async())

        connection = client._reconnecting.connection
        assert connection is not None
        server.deaf = True
        publishing = asyncio.create_task(publish_without_end())
        before = 0
        stood_still = 0
        while stood_still < 20:  # the kernel's buffers may take a little more now and then
            stood_still = stood_still + 1 if connection.paused and made == before else 0
            before = made
            await asyncio.sleep(0)
        assert connection._transport.get_write_buffer_size() <= WRITE_BUFFER + 2 * CHUNK
        assert client._sender.size <= 2 * CHUNK
        publishing.cancel()
        server.cut()


async def test_one_who_publishes_without_end_lets_others_run(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(other())
        for _ in range(2_000):
            await client.publish("a", bytes(1000))
        running.cancel()
        assert others > 2_000_000 / CHUNK / 2


async def test_single_publications_are_gathered_into_few_writes(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client:
        connection = client._reconnecting.connection
        assert connection is not None
        written: list[int] = []
        write = connection.write
        connection.write = lambda data: (written.append(len(data)), write(data))[1]  # type: ignore[method-assign, func-returns-value]
        for _ in range(100):
            await client.publish("a", b"x")
        assert written == []
        await client.flush()
        assert len(written) == 1


async def test_a_closed_client_says_so(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        pass
    assert not client.connected
    assert client.server == ""
    for attempt in (
        client.publish("a"),
        client.publish_many([("a", b"")]),
        client.subscribe("a"),
        client.request("a"),
        client.flush(),
    ):
        with pytest.raises(fumarole.ClosedError, match="connect again"):
            await attempt
    await client.close()


async def test_closing_loses_nothing_though_much_comes_in(start_fake: StartFake) -> None:
    """A socket that is closed with something unread in it takes back what was written to it last."""
    server = await start_fake()
    for _ in range(10):
        async with fumarole.connect(server.url) as client:
            await client.publish_many(("a", bytes(10_000)) for _ in range(200))
            await client.publish("a", b"the last")
            server.send(b"MSG b 1 10000\r\n%b\r\n" % bytes(10_000) * 100)
        assert b"the last" in bytes(server.heard[-1])


async def test_closing_sends_what_was_published(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as consumer, consumer.subscribe("a", limit=5000) as messages:
        async with fumarole.connect(broker.url) as client, client.subscribe("a"):
            await client.publish_many(("a", b"%d" % number) for number in range(5000))
        assert [int(message.payload) async for message in messages] == list(range(5000))
