import asyncio

import pytest

import fumarole
from fumarole.core.errors import PatternError
from tests.client.brokers import RealBroker
from tests.client.conftest import StartFake


async def test_a_subscription_is_confirmed_before_it_returns(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, fumarole.connect(broker.url) as other:
        async with client.subscribe("a") as messages:
            assert broker.consumers == 1
            await other.publish("a", b"1")
            assert (await anext(messages)).payload == b"1"
        await client.flush()
        assert broker.consumers == 0


async def test_without_the_context_manager(broker: RealBroker) -> None:
    client = await fumarole.connect(broker.url)
    messages = await client.subscribe("a")
    await client.publish("a", b"1")
    assert (await anext(messages)).payload == b"1"
    await messages.close()
    await client.close()


async def test_two_subscriptions_of_one_client_are_two_consumers(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a.>") as some, client.subscribe(">") as all_:
        await client.publish("a.b", b"1")
        await client.publish("c", b"2")
        assert [(await anext(some)).payload, (await anext(all_)).payload, (await anext(all_)).payload] == [
            b"1",
            b"1",
            b"2",
        ]


async def test_a_group_shares(broker: RealBroker) -> None:
    async with (
        fumarole.connect(broker.url) as client,
        client.subscribe("a", group="g") as first,
        client.subscribe("a", group="g") as second,
    ):
        await client.publish_many(("a", b"%d" % number) for number in range(1000))
        await client.flush()
        assert first.received + second.received == 1000
        assert first.received
        assert second.received


async def test_a_limit_ends_it(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a", limit=3) as messages:
        await client.publish_many(("a", b"%d" % number) for number in range(10))
        assert [message.payload async for message in messages] == [b"0", b"1", b"2"]
        await client.flush()
        assert broker.consumers == 0
        assert messages.received == 3


async def test_no_echo(broker: RealBroker) -> None:
    async with (
        fumarole.connect(broker.url, echo=False) as client,
        fumarole.connect(broker.url) as other,
        client.subscribe("a") as messages,
    ):
        await client.publish("a", b"own")
        await client.flush()
        await other.publish("a", b"other's")
        assert (await anext(messages)).payload == b"other's"


@pytest.mark.parametrize(("buffer", "buffer_bytes"), [(10, 1 << 20), (1000, 10 * 100)], ids=["messages", "bytes"])
async def test_a_full_buffer_drops_the_oldest_and_counts(broker: RealBroker, buffer: int, buffer_bytes: int) -> None:
    async with (
        fumarole.connect(broker.url) as client,
        client.subscribe("a", buffer=buffer, buffer_bytes=buffer_bytes) as messages,
    ):
        await client.publish_many(("a", b"%100d" % number) for number in range(25))
        await client.flush()
        assert (messages.received, messages.dropped, messages.buffered) == (25, 15, 10)
        await messages.close()
        assert [int(message.payload) async for message in messages] == list(range(15, 25))


async def test_headers_count_as_payload_does(broker: RealBroker) -> None:
    size = len(b"NATS/1.0\r\nTrace: \r\n\r\n") + 1000
    async with (
        fumarole.connect(broker.url) as client,
        client.subscribe("a", buffer_bytes=10 * size) as messages,
    ):
        for way in ("one by one", "batch", "dropped"):
            for _ in range(10):
                await client.publish("a", bytes(100), headers={"Trace": "x" * 900})
            await client.flush()
            assert (messages.buffered, messages.dropped) == (10, 0)
            if way == "batch":
                await anext(messages.batches())
            elif way == "one by one":
                assert [len((await anext(messages)).payload) for _ in range(10)] == [100] * 10
        await client.publish("a", bytes(size + 1))
        await client.flush()
        assert (messages.buffered, messages.dropped) == (9, 2)


async def test_what_is_taken_makes_room(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a", buffer=10, buffer_bytes=1000) as messages:
        for way in ("one by one", "batch"):
            for _ in range(5):
                await client.publish_many(("a", bytes(100)) for _ in range(10))
                await client.flush()
                if way == "batch":
                    assert len(await anext(messages.batches())) == 10
                else:
                    assert [len((await anext(messages)).payload) for _ in range(10)] == [100] * 10
        assert messages.dropped == 0


async def test_the_newest_message_is_kept_however_large(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a", buffer_bytes=10) as messages:
        await client.publish("a", b"1")
        await client.publish("a", bytes(100))
        await client.flush()
        assert len((await anext(messages)).payload) == 100
        assert messages.dropped == 1


async def test_batches_have_everything_in_order(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a", limit=5000) as messages:
        await client.publish_many(("a", b"%d" % number) for number in range(5000))
        batches = [batch async for batch in messages.batches()]
        assert [int(message.payload) for batch in batches for message in batch] == list(range(5000))
        assert len(batches) < 5000
        assert messages.buffered == 0


async def test_several_may_take_from_one_subscription(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a", limit=100) as messages:

        async def take() -> list[int]:
            return [int(message.payload) async for message in messages]

        takers = [asyncio.create_task(take()) for _ in range(3)]
        await client.publish_many(("a", b"%d" % number) for number in range(100))
        taken = await asyncio.gather(*takers)
        assert sorted(number for each in taken for number in each) == list(range(100))


async def test_who_gives_up_waiting_leaves_nothing_behind(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a") as messages:
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await anext(messages)
        assert messages._waiters == []
        await client.publish("a", b"1")
        assert (await anext(messages)).payload == b"1"


async def test_closing_ends_the_iteration_after_what_has_arrived(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        messages = await client.subscribe("a")
        await client.publish("a", b"1")
        await client.flush()
        await messages.close()
        assert [message.payload async for message in messages] == [b"1"]
        assert [message.payload async for message in messages] == []
        await client.publish("a", b"2")
        await client.flush()
        assert messages.received == 1


async def test_closing_the_client_ends_iterations(broker: RealBroker) -> None:
    client = await fumarole.connect(broker.url)
    messages = await client.subscribe("a")
    taking = asyncio.create_task(anext(messages, None))
    await client.close()
    assert await taking is None


async def test_draining_takes_in_what_was_just_published_here(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        messages = await client.subscribe("a")
        await client.publish("a", b"1")
        await messages.drain()
        assert [message.payload async for message in messages] == [b"1"]


async def test_draining_takes_in_what_was_sent_before(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, fumarole.connect(broker.url) as other:
        messages = await client.subscribe("a")
        await other.publish_many(("a", b"%d" % number) for number in range(1000))
        await other.flush()
        await messages.drain()
        await other.publish("a", b"late")
        await other.flush()
        assert [int(message.payload) async for message in messages] == list(range(1000))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("a.>.b", "must be the last word"), ("a/b", "not allowed")],
)
async def test_a_pattern_the_server_refuses(broker: RealBroker, pattern: str, text: str) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(fumarole.RefusedError, match=text):
            await client.subscribe(pattern)
        await client.flush()
        assert broker.consumers == 0
        async with client.subscribe("a") as messages:
            await client.publish("a", b"1")
            assert (await anext(messages)).payload == b"1"


async def test_each_refusal_goes_to_its_own_subscribe(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        await client.publish("a/b")  # refused as well, and none of theirs
        results = await asyncio.gather(
            *(client.subscribe(pattern)._opening for pattern in ("a", "a.>.b", "b", "c/d")), return_exceptions=True
        )
        assert [type(result) for result in results] == [
            fumarole.Subscription,
            fumarole.RefusedError,
            fumarole.Subscription,
            fumarole.RefusedError,
        ]
        assert broker.consumers == 2


@pytest.mark.parametrize(("pattern", "group"), [("a b", ""), ("a\r\n", ""), ("a", "g h")])
async def test_a_pattern_or_group_that_cannot_be_is_refused_here(broker: RealBroker, pattern: str, group: str) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(PatternError):
            client.subscribe(pattern, group=group)


@pytest.mark.parametrize("numbers", [{"limit": 0}, {"buffer": 0}, {"buffer_bytes": 0}])
async def test_numbers_that_make_no_sense(broker: RealBroker, numbers: dict[str, int]) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(ValueError, match="at least 1"):
            client.subscribe(
                "a",
                limit=numbers.get("limit"),
                buffer=numbers.get("buffer", 1),
                buffer_bytes=numbers.get("buffer_bytes", 1),
            )


async def test_a_limit_that_cannot_be_told_to_a_server(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(ValueError, match="limit is at most 999999999"):
            client.subscribe("a", limit=10**9)


async def test_messages_for_nobody_and_words_unknown_do_no_harm(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client, client.subscribe("a") as messages:
        server.send(b"MSG a 77 1\r\nx\r\n+OK\r\nPING\r\nMSG a 1 1\r\ny\r\n")
        # The inbox of the client has the sid 1.
        server.send(b"MSG a 2 1\r\nz\r\n")
        assert (await anext(messages)).payload == b"z"
        await server.wait_for(lambda: server.everything().endswith(b"PONG\r\n"))


async def test_more_than_the_limit_is_cut_off(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client, client.subscribe("a", limit=2) as messages:
        server.send(b"MSG a 2 1\r\nx\r\n" * 5)
        assert [message.payload async for message in messages] == [b"x", b"x"]
