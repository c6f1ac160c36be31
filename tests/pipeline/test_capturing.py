"""What is captured: all that came, and why it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fumarole.client import RefusedError
from fumarole.client.capture import Columns, gather
from fumarole.pipeline.capturing import Wanted, captured

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
    async def capture(self, _pattern: str, group: str) -> AsyncIterator[EndedCapture]:
        assert group == "g"
        yield EndedCapture()


async def test_a_capture_that_was_refused_is_taken_and_then_told() -> None:
    """It must not look like an end that somebody asked for."""

    async def ready() -> None:
        pass

    client: Any = RefusingClient()
    columns = captured(client, Wanted("a", group="g"), asyncio.Event(), ready)
    assert await anext(columns) is ROWS
    with pytest.raises(RefusedError, match="no longer allowed"):
        await anext(columns)
