"""What is captured: all that came, and why it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import fumarole
from fumarole.client import ClosedError, RefusedError
from fumarole.client.capture import Columns, gather
from fumarole.pipeline.capturing import Wanted, captured
from tests.client.brokers import RealBroker

ROWS = gather([("a", b"1", [])], 0)


class EndedCapture:
    """One that the broker has ended, with messages that were not taken yet."""

    ended = True

    def __init__(self) -> None:
        self._left = [ROWS]

    async def drain(self) -> None:
        raise AssertionError("nobody asked for the end")

    def take(self) -> list[Columns]:
        taken, self._left = self._left, []
        if not taken:
            raise RefusedError("no longer allowed")
        return taken


class RefusingClient:
    @asynccontextmanager
    async def capture(self, _pattern: str, group: str, farewells: bool) -> AsyncIterator[EndedCapture]:
        assert (group, farewells) == ("g", True)
        yield EndedCapture()


async def test_a_capture_that_was_refused_is_taken_and_then_told() -> None:
    """It must not look like an end that was asked for."""

    async def ready() -> None:
        pass

    client: Any = RefusingClient()
    columns = captured(client, Wanted("a", group="g", farewells=True), asyncio.Event(), ready)
    assert await anext(columns) is ROWS
    with pytest.raises(RefusedError, match="no longer allowed"):
        await anext(columns)


@pytest.fixture
async def broker() -> AsyncIterator[RealBroker]:
    async with RealBroker() as broker:
        yield broker


async def test_readings_that_were_sent_before_the_stop_are_taken(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, fumarole.connect(broker.url) as publisher:
        producer = publisher.producer({"Kind": "seismic"})
        stop = asyncio.Event()

        async def ready() -> None:
            for value in range(1_000):
                await producer.publish(value)
            await publisher.flush()
            stop.set()

        async with asyncio.timeout(10):
            taken = [columns async for columns in captured(client, Wanted(where="Kind = 'seismic'"), stop, ready)]
        assert sum(columns.rows for columns in taken) == 1_000


async def test_readings_before_an_error_are_taken_and_then_it_is_told(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url, reconnect=False) as client, fumarole.connect(broker.url) as publisher:
        producer = publisher.producer({"Kind": "seismic"})

        async def ready() -> None:
            for value in range(10):
                await producer.publish(value)
            await publisher.flush()
            await client.flush()
            await broker.stop()

        columns = captured(client, Wanted(where="Kind = 'seismic'"), asyncio.Event(), ready)
        async with asyncio.timeout(10):
            assert (await anext(columns)).rows == 10
            with pytest.raises(ClosedError, match="was lost"):
                await anext(columns)
