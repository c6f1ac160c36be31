from __future__ import annotations

import asyncio

import pytest

import fumarole
from fumarole.client import ClientError, Disconnected, Reconnected, RefusedError
from fumarole.client.capture import Capture
from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.config.values import Secret
from fumarole.protocols import nats
from fumarole.protocols.columns import Columns
from fumarole.server.credentials import token_digest
from tests.client.brokers import Notices, RealBroker
from tests.client.conftest import StartBroker, StartFake


def rows(taken: list[Columns]) -> list[tuple[str, bytes]]:
    """Topics and payloads, as objects again."""
    found = []
    for columns in taken:
        topics, payloads = (memoryview(texts.offsets).cast("i") for texts in (columns.topics, columns.payloads))
        for row in range(columns.rows):
            topic = columns.topics.data[topics[row] : topics[row + 1]].decode()
            found.append((topic, columns.payloads.data[payloads[row] : payloads[row + 1]]))
    return found


async def take(capture: Capture, count: int) -> list[tuple[str, bytes]]:
    """So many messages, whenever they come."""
    found: list[tuple[str, bytes]] = []
    while len(found) < count:
        await capture.filled(0.02)
        found += rows(capture.take())
    return found


@pytest.fixture(params=["compiled", "plain"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setenv("FUMAROLE_PURE", "1")


@pytest.mark.usefixtures("form")
async def test_messages_come_as_columns_beside_everything_else(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.capture("a.>") as capture:
        async with client.subscribe("a.*", limit=2) as others:
            await client.publish("a.b", b"1")
            await client.publish("elsewhere", b"2")
            await client.publish("a.c.d", b"\r\n")
            await client.publish("a.c", b"3")
            assert await take(capture, 3) == [("a.b", b"1"), ("a.c.d", b"\r\n"), ("a.c", b"3")]
            assert [message.topic async for message in others] == ["a.b", "a.c"]
        assert (await client.stats())["received"] >= 4
        with pytest.raises(ClientError, match="captures already"):
            client.capture()


async def test_a_group_shares(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as one, fumarole.connect(broker.url) as two:
        first, second = await one.capture(group="recorders"), await two.capture(group="recorders")
        await one.publish_many((f"t.{number}", b"") for number in range(1_000))
        await one.flush()
        await two.flush()
        parts = rows(first.take()), rows(second.take())
        assert sorted(parts[0] + parts[1]) == sorted((f"t.{number}", b"") for number in range(1_000))
        assert min(map(len, parts)) > 300


async def test_drain_takes_what_was_sent_before(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.capture(most_bytes=1_000) as capture:
        await client.publish_many(("a", b"x" * 100) for _ in range(5_000))
        await capture.drain()
        assert capture.ended
        assert len(rows(capture.take())) == 5_000


async def test_nothing_is_read_while_too_much_waits(start_broker: StartBroker) -> None:
    """D6: then it is the broker that drops, and counts."""
    broker = await start_broker()
    async with fumarole.connect(broker.url) as client, fumarole.connect(broker.url) as publisher:
        capture = await client.capture(most_bytes=100_000)
        for _ in range(40):
            await publisher.publish_many(("a", b"x" * 1_000) for _ in range(1_000))
        await publisher.flush()
        assert capture.size < 1_000_000
        found = len(await take(capture, 1))
        while True:
            before = found
            await capture.filled(0.05)
            found += len(rows(capture.take()))
            if before == found and (await publisher.stats())["delivered"] >= 0 and not capture.rows:
                break
        dropped = (await publisher.stats())["dropped"]
        assert found + sum(dropped.values()) == 40_000
        assert found < 40_000


async def test_a_new_connection_goes_on(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client:
        capture = await client.capture("a")
        await client.publish("a", b"before")
        await client.flush()
        await broker.restart()
        await notices.wait_for(Reconnected)
        await client.publish("a", b"after")
        assert await take(capture, 2) == [("a", b"before"), ("a", b"after")]


async def test_a_pattern_that_is_refused(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(RefusedError, match="Invalid Subject"):
            await client.capture("a.>.b")
        await (await client.capture("a")).close()


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("cut", [0, 5, 14, 20, 29, 30, 35])
async def test_another_one_in_the_middle_of_a_message(start_fake: StartFake, cut: int) -> None:
    """What the first has begun to hear is heard to its end, by whomever it is for."""
    server = await start_fake()
    async with fumarole.connect(server.url) as client, client.subscribe("b") as others:
        first = await client.capture("a")
        server.silent = True
        stream = b"MSG a 3 1\r\n1\r\nMSG b 2 6\r\nPING\r\n\r\nMSG a 3 1\r\n2\r\n"
        server.send(b"MSG b 2 0\r\n\r\n" + stream[:cut])
        assert (await anext(others)).payload == b""
        await first.close()
        opening = asyncio.create_task(client.capture("a")._opening)
        await server.wait_for(lambda: b"SUB a 4" in server.everything())
        server.send(stream[cut:] + b"MSG a 4 1\r\n3\r\nPONG\r\nMSG b 2 1\r\n4\r\n")
        second = await opening
        assert [(await anext(others)).payload for _ in range(2)] == [b"PING\r\n", b"4"]
        assert rows(first.take()) == [("a", b"1")] * (cut >= 14)
        assert rows(second.take()) == [("a", b"3")]
        server.silent = False


async def test_the_server_is_told_that_it_captures(start_fake: StartFake) -> None:
    """On each connection: it gives such a connection a larger outbox."""
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices) as client:
        assert b'"capture"' not in server.everything()
        async with client.capture("a"):
            said = bytes(server.heard[0])
            assert said.index(b'"capture":true') < said.index(b"SUB a 2")
            server.cut()
            await notices.wait_for(Reconnected)
            said = bytes(server.heard[1])
            assert said.index(b'"capture":true') < said.index(b"SUB a 2")


async def test_closing_one_twice_is_not_closing_the_next(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        first = await client.capture("a")
        await first.close()
        second = await client.capture("a")
        await first.close()
        with pytest.raises(ClientError, match="captures already"):
            client.capture()
        await client.publish("a", b"1")
        assert await take(second, 1) == [("a", b"1")]


@pytest.mark.usefixtures("form")
async def test_one_that_was_refused_leaves_what_it_began_to_hear(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client, client.subscribe("b") as others:
        server.silent = True
        refused = asyncio.create_task(client.capture("a")._opening)
        await server.wait_for(lambda: b"SUB a 3" in server.everything())
        server.send(b"-ERR 'Invalid Subject'\r\nPONG\r\nMSG b 2 1\r\n")
        with pytest.raises(RefusedError):
            await refused
        opening = asyncio.create_task(client.capture("a")._opening)
        await server.wait_for(lambda: b"SUB a 4" in server.everything())
        server.send(b"x\r\nPONG\r\nMSG a 4 1\r\ny\r\n")
        assert (await anext(others)).payload == b"x"
        assert await take(await opening, 1) == [("a", b"y")]
        server.silent = False


@pytest.mark.usefixtures("form")
async def test_opened_while_disconnected(start_fake: StartFake) -> None:
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices) as client:
        server.silent = True
        server.cut()
        await notices.wait_for(Disconnected)
        opening = asyncio.create_task(client.capture("a")._opening)
        await server.wait_for(lambda: len(server.heard) == 2 and b"PING" in server.heard[1])
        server.send(nats.PONG + b"PI")
        await server.wait_for(lambda: b"SUB a 2" in server.heard[1])
        server.send(b"NG\r\nPONG\r\nMSG a 2 1\r\nx\r\n")
        assert await take(await opening, 1) == [("a", b"x")]
        server.silent = False
    assert len(server.heard) == 2


@pytest.mark.usefixtures("form")
async def test_closing_a_full_one_stops_nobody_else(broker: RealBroker) -> None:
    async with (
        fumarole.connect(broker.url) as publisher,
        fumarole.connect(broker.url) as client,
        client.subscribe("b") as others,
    ):
        capture = await client.capture("a", most_bytes=1_000)
        await publisher.publish_many(("a", bytes(1_000)) for _ in range(1_000))
        await publisher.publish("b", b"1")
        await publisher.flush()
        await capture.filled(5)
        await capture.close()
        async with asyncio.timeout(5):
            assert (await anext(others)).payload == b"1"
        kept = rows(capture.take())
        assert kept == [("a", bytes(1_000))] * len(kept)
        assert 1 <= len(kept) < 1_000


async def test_who_takes_slowly_does_not_take_the_server_for_dead(broker: RealBroker) -> None:
    """The server is told meanwhile that the client is alive."""
    async with (
        fumarole.connect(broker.url, ping_interval=0.02) as client,
        fumarole.connect(broker.url) as publisher,
        client.capture("a", most_bytes=10_000) as capture,
    ):
        await publisher.publish_many(("a", bytes(1_000)) for _ in range(1_000))
        await publisher.flush()
        connection = client._reconnecting.connection
        assert connection is not None
        async with asyncio.timeout(10):
            while len(connection._questions) < 10:  # noqa: ASYNC110 - each interval adds one
                await asyncio.sleep(0.02)
        assert 0 < capture.rows < 1_000
        assert len(await take(capture, 1_000)) == 1_000
        await client.flush()
        assert client.losses == 0


@pytest.mark.usefixtures("form")
async def test_messages_about_forgotten_producers_come_in_their_place(broker: RealBroker) -> None:
    """Also where they arrive together with what the producer said before and after."""
    async with (
        fumarole.connect(broker.url) as publisher,
        fumarole.connect(broker.url) as client,
        client.capture("r.*", group="g", farewells=True) as capture,
    ):
        assert client._reconnecting.connection is not None
        transport = client._reconnecting.connection._transport
        transport.pause_reading()
        producer = publisher.producer({"Room": "410"}, topic="r.a")
        await producer.publish(1)
        assert await producer.forget()
        await producer.publish(2)
        await publisher.flush()
        transport.resume_reading()
        assert await take(capture, 3) == [("r.a", b"1"), ("_FORGOTTEN", producer.id.encode()), ("r.a", b"2")]
        await capture.close()
        await client.flush()
        assert broker.consumers == 1  # with which the publisher hears its answers


async def test_without_permission_for_forgotten_producers_capture_goes_on(start_broker: StartBroker) -> None:
    allowed = PermissionSettings(allow=("r.*",))
    deaf = UserSettings(name="deaf", token=Secret(token_digest("t0ken")), subscribe=allowed)
    broker = await start_broker(users=(deaf,))
    async with fumarole.connect(broker.login("t0ken")) as client, client.capture("r.*", farewells=True) as capture:
        await client.publish("r.a", b"1")
        assert await take(capture, 1) == [("r.a", b"1")]
