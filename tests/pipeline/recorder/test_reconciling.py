"""What the archive says of producers in the end is what the broker says, whatever was late, lost or misdated (P3)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

import fumarole
from fumarole.client import Client
from fumarole.core.query.tree import Value
from fumarole.core.values import ONLINE
from fumarole.pipeline.archive import open_root
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.capturing import INTERVAL
from fumarole.pipeline.errors import ArchiveError
from fumarole.pipeline.recorder import reconciling, writer
from fumarole.pipeline.recorder.reconciling import SetBack
from fumarole.pipeline.recorder.recorder import Options, Recorder
from fumarole.pipeline.recorder.writer import Rolling
from fumarole.pipeline.replay import known_at
from tests.client.brokers import RealBroker
from tests.pipeline.recorder.test_writer import full_disk
from tests.pipeline.recordings import rows

SECOND = 1_000_000
LATER = timedelta(hours=2)


@pytest.fixture
async def broker() -> AsyncIterator[RealBroker]:
    async with RealBroker() as broker:
        yield broker


@asynccontextmanager
async def recording(client: Client, root: Root, name: str = "r", topic: str = ">") -> AsyncIterator[Recorder]:
    """A recorder at work in this process."""
    stop, ready = asyncio.Event(), asyncio.Event()
    options = Options(topic, name=name, rolling=Rolling(seconds=0.1))
    async with Recorder.open(client, root, options, lambda _: None) as recorder:
        running = asyncio.create_task(recorder.run(stop, ready.set))
        await ready.wait()
        yield recorder
        stop.set()
        await running


async def become(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 (nothing tells when a file is there)
            await asyncio.sleep(0.02)


def archived(archive: Path, later: timedelta = timedelta()) -> dict[str, dict[str, Value]]:
    """What the archive says of producers."""
    try:
        return known_at(archive, "default", datetime.now(UTC) + later)
    except ArchiveError:  # there is none yet
        return {}


async def told(client: Client) -> dict[str, dict[str, Value]]:
    """What the broker says of producers. Whether they are online is not recorded."""
    return {
        each.id: {key: value for key, value in each.metadata.items() if key != ONLINE}
        async for page in client.all_producers()
        for each in page
    }


def stop_reading(client: Client) -> Callable[[], None]:
    """What the broker sends waits in the socket, until what this returns is called."""
    assert client._reconnecting.connection is not None
    transport = client._reconnecting.connection._transport
    transport.pause_reading()
    return transport.resume_reading


async def test_recorders_that_are_late_put_right_what_they_misdated(
    broker: RealBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a group hears the first word of a producer after the other has heard the last."""
    monkeypatch.setattr(reconciling, "PAUSE_SECONDS", 0.1)
    root = open_root(tmp_path)
    async with (
        fumarole.connect(broker.url) as late,
        fumarole.connect(broker.url) as other,
        fumarole.connect(broker.url) as client,
        recording(late, root, "late", "readings.*") as one,
        recording(other, root, "other", "readings.*") as two,
    ):
        resume_reading = stop_reading(late)
        for number in range(12):
            producer = client.producer({"Region": "first"})
            await producer.publish(1)
            if number % 2:  # so that it is the other's turn
                await producer.publish(2)
            producer.update(Region="last")
            await producer.publish(3)
        await client.flush()
        await become(lambda: two.progress.captured > 0)
        resume_reading()
        await become(lambda: one.progress.captured + two.progress.captured == 30)
        expected = await told(client)
        assert {str(metadata) for metadata in expected.values()} == {"{'Region': 'last'}"}
        await become(lambda: archived(tmp_path) == expected)
        await asyncio.sleep(10 * INTERVAL)
    said = rows(tmp_path, "changes")
    assert ("late", "first") in {(row["recorder"], row["text"]) for row in said}
    # What does not change is not written again, however often it is asked for.
    assert max(Counter((row["recorder"], row["producer"]) for row in said if row["kind"] == "anew").values()) <= 3


async def test_what_was_said_with_other_messages_is_there_in_a_while(
    broker: RealBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciling, "PAUSE_SECONDS", 0.1)
    async with (
        fumarole.connect(broker.url) as own,
        fumarole.connect(broker.url) as client,
        recording(own, open_root(tmp_path), topic="nothing"),
    ):
        producer = client.producer({"Room": "410"})
        await producer.publish(1)
        await client.flush()
        await become(lambda: archived(tmp_path) == {producer.id: {"Room": "410"}})
        producer.update(Room="411")
        await producer.publish(2)
        await client.flush()
        await become(lambda: archived(tmp_path) == {producer.id: {"Room": "411"}})
    assert [row["text"] for row in rows(tmp_path, "changes")] == [None, "410", None, "411"]


async def test_what_was_thrown_away_is_asked_for_when_the_disk_takes_it_again(
    broker: RealBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(writer, "MOST_BACKLOG", 10_000)
    monkeypatch.setattr(reconciling, "SOON_SECONDS", 0.1)
    disk = full_disk(tmp_path, 0)
    async with (
        fumarole.connect(broker.url) as own,
        fumarole.connect(broker.url) as client,
        recording(own, disk) as recorder,
    ):
        producer = client.producer({"Region": "old"})
        await producer.publish(1)
        await client.flush()
        await become(lambda: producer.id in archived(tmp_path))
        disk.refusals.extend([None] * 1_000_000)
        await client.publish("fill", b"")
        await client.flush()
        await become(lambda: bool(recorder.progress.fault))
        await client.publish("fill", bytes(20_000))
        await client.flush()
        await become(lambda: recorder._writer.is_stuck)
        lost = recorder.progress.lost
        producer.update(Region="new")
        await producer.publish(2)
        await client.flush()
        await become(lambda: recorder.progress.lost == lost + 1)
        disk.refusals.clear()
        expected = {producer.id: {"Region": "new"}}
        await become(lambda: archived(tmp_path) == expected)


async def test_a_full_disk_is_not_told_of_producers_again_and_again(
    broker: RealBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits in memory is bounded."""
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(writer, "MOST_BACKLOG", 10_000)
    disk = full_disk(tmp_path, 0)
    async with (
        fumarole.connect(broker.url) as own,
        fumarole.connect(broker.url) as client,
        recording(own, disk) as recorder,
    ):
        for _ in range(100):
            await client.producer({"Site": "x" * 200}).publish(1)
        await client.flush()
        await become(lambda: recorder.progress.confirmed == 100)
        disk.refusals.extend([None] * 1_000_000)
        await client.publish("fill", b"")
        await client.flush()
        await become(lambda: bool(recorder.progress.fault))
        await client.publish("fill", bytes(20_000))
        await client.flush()
        await become(lambda: recorder._writer.is_stuck)
        before = recorder._writer._backlog_size
        assert own._reconnecting.connection is not None
        own._reconnecting.connection.abort("to see what follows")
        await become(lambda: own.losses == 1 and own.connected)
        await asyncio.sleep(3 * INTERVAL)
        assert recorder._writer._backlog_size == before
        disk.refusals.clear()
        expected = await told(client)
        # All of it, because the connection was lost.
        await become(lambda: sum(row["kind"] == "anew" for row in rows(tmp_path, "changes")) >= 100)
        assert archived(tmp_path) == expected


async def test_a_clock_that_is_put_right(broker: RealBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said while it was ahead holds neither too late nor again."""
    ahead = 4_000_000_000
    monkeypatch.setattr(
        "fumarole.client.capture.time", SimpleNamespace(time_ns=lambda: time.time_ns() + ahead), raising=True
    )
    async with (
        fumarole.connect(broker.url) as own,
        fumarole.connect(broker.url) as client,
        recording(own, open_root(tmp_path)),
    ):
        silent = client.producer({"Region": "same"})
        producer = client.producer({"Region": "old"})
        for each in (silent, producer):
            await each.publish(1)
        await client.flush()
        both = {silent.id: {"Region": "same"}, producer.id: {"Region": "old"}}
        await become(lambda: archived(tmp_path, LATER) == both)
        ahead = 0
        await become(lambda: archived(tmp_path) == both)
        producer.update(Region="new")
        await producer.publish(2)
        await client.flush()
        new = {**both, producer.id: {"Region": "new"}}
        await become(lambda: archived(tmp_path) == new)
        assert archived(tmp_path, LATER) == both
        await become(lambda: archived(tmp_path, LATER) == new)


def test_a_clock_that_was_set_back_calls_twice() -> None:
    clock = SetBack(100 * SECOND, 0)
    assert not clock.calls_for_all(101 * SECOND, SECOND)
    assert not clock.calls_for_all(500 * SECOND, 2 * SECOND)  # forward
    assert clock.calls_for_all(103 * SECOND, 3 * SECOND)  # and back
    assert not clock.calls_for_all(501 * SECOND, 401 * SECOND)
    assert clock.calls_for_all(502 * SECOND, 402 * SECOND)
    assert not clock.calls_for_all(503 * SECOND, 403 * SECOND)


def test_a_clock_that_is_corrected_a_little_calls_for_nothing() -> None:
    clock = SetBack(100 * SECOND, 0)
    assert not any(
        clock.calls_for_all((100 + steady) * SECOND - steady * 1_000, steady * SECOND) for steady in range(9)
    )
