from __future__ import annotations

import pytest

import fumarole
from fumarole.client import ClientError, Reconnected, RefusedError
from fumarole.client.capture import Capture
from fumarole.protocols.columns import Columns
from tests.client.brokers import Notices, RealBroker
from tests.client.conftest import StartBroker


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
