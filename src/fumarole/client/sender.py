"""Publications that wait to be sent, in order, until the socket takes them or a connection is there again.

Frames are gathered and written together: at the end of the turn of the loop in which the first one came, or when there
are enough of them. Once handed to a connection they are never sent again, whatever becomes of it (D1); what was not
handed over yet is kept for the next connection.
"""

from __future__ import annotations

import asyncio

from fumarole.client.connection import Connection
from fumarole.client.errors import ClosedError, PendingFullError
from fumarole.core.limits import KIB

CHUNK = 64 * KIB
"""Bytes worth a write of their own."""


class Sender:
    """The publications of one client on their way out."""

    def __init__(self, pending_limit: int) -> None:
        self.size = 0
        self._frames: list[bytes] = []
        self._pending_limit = pending_limit
        self._connection: Connection | None = None
        self._ended = ""
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._waiters: list[asyncio.Future[None]] = []

    def add(self, frame: bytes) -> None:
        """Takes a frame. Raises if the client is closed, or disconnected with too many bytes waiting already."""
        if self._connection is None:
            self._check_pending(len(frame))
        elif not self._scheduled:
            self._schedule()
        self._frames.append(frame)
        self.size += len(frame)

    def add_all(self, frames: list[bytes], size: int) -> None:
        """Takes several frames, of this size together, while there is a connection."""
        assert self._connection is not None
        if not self._scheduled:
            self._schedule()
        self._frames += frames
        self.size += size

    async def room(self) -> None:
        """Waits until the socket has taken all frames. While disconnected, it returns at once: `add` has its limit."""
        self.write()
        if self._connection is not None and self._connection.paused:
            await self._wait()
        else:
            await asyncio.sleep(0)  # a task that publishes without end must let others run

    async def connection_made(self) -> None:
        """Waits until there is a connection."""
        while self._connection is None:
            await self._wait()

    def write(self) -> None:
        """Hands the waiting frames to the connection, if there is one that takes them now."""
        if self._connection is not None and self._frames and not self._connection.paused:
            self._connection.write(self.take())

    def take(self) -> bytes:
        """Returns all waiting frames; the caller writes them."""
        data = b"".join(self._frames)
        self._frames.clear()
        self.size = 0
        return data

    def begin(self, connection: Connection) -> None:
        """Sets the connection."""
        self._connection = connection
        self.writable()

    def pause(self) -> None:
        """The connection is lost."""
        self._connection = None
        self._wake()

    def end(self, reason: str) -> None:
        """There will be no connection again, for this reason."""
        self._ended = reason
        self._frames.clear()
        self.size = 0
        self.pause()

    def writable(self) -> None:
        """The connection takes bytes again."""
        self.write()
        self._wake()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self._write_scheduled)

    def _write_scheduled(self) -> None:
        self._scheduled = False
        self.write()

    def _check_pending(self, size: int) -> None:
        self._check_ended()
        if self.size + size > self._pending_limit:
            raise PendingFullError(
                f"disconnected, and {self.size} of {self._pending_limit} bytes already wait for the next connection; "
                "publish less, drop this message, or raise `pending`"
            )

    async def _wait(self) -> None:
        self._check_ended()
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter
        self._check_ended()

    def _check_ended(self) -> None:
        if self._ended:
            raise ClosedError(self._ended)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
