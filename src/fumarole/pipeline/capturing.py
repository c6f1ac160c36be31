"""Live messages as columns: all of a pattern, or the readings of the producers that a query selects."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from fumarole.client import Change, Client, ClientError, Reading, Readings
from fumarole.client.capture import Capture, Columns, Gathering, microseconds

INTERVAL = 0.2
"""Seconds in which what has come is taken, if it is not enough before."""
READINGS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is captured. An empty query: every publication. An empty group: not shared."""

    topic: str = ">"
    where: str = ""
    group: str = ""
    farewells: bool = False
    """Also what the broker says of producers that are forgotten, on a topic of its own."""
    interval: float = INTERVAL


async def _nothing(_: int) -> None:
    pass


def captured(
    client: Client,
    wanted: Wanted,
    stop: asyncio.Event,
    on_ready: Callable[[], Awaitable[None]],
    on_dropped: Callable[[int], None] = lambda _: None,
    on_turn: Callable[[int], Awaitable[None]] = _nothing,
) -> AsyncIterator[Columns]:
    """What comes from the moment in which `on_ready` is called, until it is told to stop and all was taken.

    `on_dropped` is told of readings that came faster than they were taken; of other messages the broker knows.
    `on_turn` is told, now and then, up to when all that came was taken.
    """
    if wanted.where:
        return _readings(client, wanted, stop, on_ready, on_dropped, on_turn)
    return _messages(client, wanted, stop, on_ready, on_turn)


async def _messages(
    client: Client,
    wanted: Wanted,
    stop: asyncio.Event,
    on_ready: Callable[[], Awaitable[None]],
    on_turn: Callable[[int], Awaitable[None]],
) -> AsyncIterator[Columns]:
    async with client.capture(wanted.topic, group=wanted.group, farewells=wanted.farewells) as capture:
        await on_ready()
        stopping = asyncio.create_task(_drain_after(stop, capture))
        try:
            while not capture.ended:
                await capture.filled(wanted.interval)
                now = microseconds()
                for columns in capture.take():
                    yield columns
                await on_turn(now)
            while left := capture.take():  # with nothing left it raises what ended it
                for columns in left:
                    yield columns
        finally:
            stopping.cancel()


async def _drain_after(stop: asyncio.Event, source: Capture | Readings) -> None:
    await stop.wait()
    with contextlib.suppress(ClientError):
        await source.drain()


async def _readings(
    client: Client,
    wanted: Wanted,
    stop: asyncio.Event,
    on_ready: Callable[[], Awaitable[None]],
    on_dropped: Callable[[int], None],
    on_turn: Callable[[int], Awaitable[None]],
) -> AsyncIterator[Columns]:
    async with client.where(
        wanted.where, topic=wanted.topic, group=wanted.group, farewells=wanted.farewells
    ) as readings:
        await on_ready()
        stopping = asyncio.create_task(_drain_after(stop, readings))
        gathering = Gathering()
        told = 0
        try:
            while await _some(readings, gathering, wanted.interval):
                if readings.dropped > told:
                    on_dropped(readings.dropped - told)
                    told = readings.dropped
                now = microseconds()
                if gathering.rows:
                    yield gathering.take()
                await on_turn(now)
        finally:
            stopping.cancel()


async def _some(readings: Readings, gathering: Gathering, interval: float) -> bool:
    """Gathers what has come, or comes within a moment. With none left: False, or it raises what ended them.

    As if each were a message: the payload is the value as text, the headers say whose it is (M8).
    """
    try:
        async with asyncio.timeout(interval):
            while gathering.rows < READINGS_AT_ONCE:
                item = await anext(readings)
                if not isinstance(item, Change):
                    gathering.add(item.topic, str(item.value).encode(), _headers(item), microseconds())
    except TimeoutError:
        pass
    except StopAsyncIteration:
        return gathering.rows > 0
    except ClientError:
        if not gathering.rows:
            raise
    return True


def _headers(reading: Reading) -> list[tuple[str, str]]:
    headers = [("Producer", reading.producer)]
    if reading.metadata:
        headers.append(("Metadata", json.dumps(reading.metadata)))
    return headers
