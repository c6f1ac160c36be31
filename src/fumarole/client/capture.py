"""A capture: a subscription whose messages become columns, not objects. For those who want very many of them.

There is at most one on a client. When the taker of the columns is too slow, the socket is not read for a while, and
the broker's policy decides (D6): nothing is dropped here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fumarole.client.errors import ClientError, RefusedError
from fumarole.client.topics import encode_topic
from fumarole.core import headers
from fumarole.core.limits import MIB
from fumarole.core.publication import FORGOTTEN
from fumarole.protocols import columns, nats
from fumarole.protocols.columns import Columns, Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fumarole.client.connection import Connection
    from fumarole.client.reconnect import ReconnectingConnection
    from fumarole.fastpath.capture import Sieve as CompiledSieve

__all__ = ["Capture", "Columns", "Texts"]

MOST_BYTES = 16 * MIB
WORTH_TAKING = MIB


def sieve(protocol: nats.ClientProtocol, sid: bytes, also: bytes | None) -> columns.Sieve | CompiledSieve:
    """The compiled one where it was built and FUMAROLE_PURE is not set."""
    if not os.environ.get("FUMAROLE_PURE"):
        with contextlib.suppress(ImportError):
            from fumarole.fastpath.capture import Sieve as CompiledSieve

            return CompiledSieve(protocol, sid, also)
    return columns.Sieve(protocol, sid, also)


class Gathering:
    """Messages that are objects already, on their way into columns."""

    def __init__(self) -> None:
        self._gathered = columns.Gathered()

    @property
    def rows(self) -> int:
        """Messages that wait to be taken."""
        return self._gathered.rows

    def add(self, topic: str, payload: bytes, pairs: Iterable[tuple[str, str]], now: int) -> None:
        """One more message, with its headers, and when it came."""
        self._gathered.add(nats.Message(encode_topic(topic), b"", b"", headers.build(pairs), payload), now)

    def take(self) -> Columns:
        """All of them; from here on it gathers anew."""
        return self._gathered.take()


def gather(messages: Iterable[tuple[str, bytes, Iterable[tuple[str, str]]]], now: int) -> Columns:
    """Messages that came at once, as columns: topics, payloads and headers."""
    gathering = Gathering()
    for topic, payload, pairs in messages:
        gathering.add(topic, payload, pairs, now)
    return gathering.take()


def microseconds() -> int:
    """Since 1970."""
    return time.time_ns() // 1_000


@dataclass(slots=True, eq=False)
class Farewells:
    """What the broker says of producers that are forgotten: a second subscription, for the same sieve."""

    sid: bytes
    group: bytes
    pattern: bytes = FORGOTTEN.encode()

    def remaining(self) -> int:
        return 0

    def deliver(self, messages: list[nats.Message]) -> None:
        """Before there is a sieve, and when it is gone, they are dropped."""

    def end(self, error: ClientError | None) -> None:
        """The capture goes on without."""


class Capture:
    """`await capture.filled(1.0)`, then `capture.take()`. `client.capture` makes one."""

    def __init__(
        self,
        reconnecting: ReconnectingConnection,
        pattern: bytes,
        group: bytes,
        most_bytes: int,
        clock: Callable[[], int] = microseconds,
        *,
        farewells: bool = False,
    ) -> None:
        self.sid = reconnecting.new_sid()
        self.pattern = pattern
        self.group = group
        self.ended = False
        """Nothing more will come."""
        self._reconnecting = reconnecting
        self._farewells = Farewells(reconnecting.new_sid(), group) if farewells else None
        self._most_bytes = most_bytes
        self._worth_taking = min(WORTH_TAKING, most_bytes)
        self._clock = clock
        self._connection: Connection | None = None
        self._sieve: columns.Sieve | CompiledSieve | None = None
        self._left: list[Columns] = []
        """What came through sieves that are gone."""
        self._error: ClientError | None = None
        self._filled = asyncio.Event()
        self._draining = False

    @property
    def rows(self) -> int:
        """Messages that wait to be taken."""
        return sum(each.rows for each in self._left) + (0 if self._sieve is None else self._sieve.rows)

    @property
    def size(self) -> int:
        """Their bytes, about."""
        return sum(each.size for each in self._left) + (0 if self._sieve is None else self._sieve.size)

    async def filled(self, seconds: float) -> None:
        """Returns when there is enough to be worth taking, when so much time has passed, or when it has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._filled.wait()

    def take(self) -> list[Columns]:
        """What has come. Raises the error that ended it, when all was taken."""
        taken, self._left = self._left, []
        if self._sieve is not None and self._sieve.rows:
            taken.append(self._sieve.take())
        if not taken and self._error is not None:
            raise self._error
        if not self.ended:
            self._filled.clear()
        if self._connection is not None:
            self._connection.resume_reading()
        return taken

    async def open(self) -> None:
        """Returns when the broker has confirmed it. Raises what a subscribe raises."""
        try:
            if self._farewells is not None:
                with contextlib.suppress(RefusedError):  # who may not hear them captures without
                    await self._reconnecting.subscribe(self._farewells)
            await self._reconnecting.subscribe(self)
        except BaseException:
            self.end(None)
            raise

    async def drain(self) -> None:
        """Unsubscribes, and waits until everything that was sent before has arrived. It can still be taken."""
        self._draining = True
        if self._connection is not None:
            self._connection.resume_reading()
        try:
            if self._farewells is not None:
                await self._reconnecting.drain(self._farewells)
            await self._reconnecting.drain(self)
        finally:
            self.end(None)

    async def close(self) -> None:
        """Unsubscribes. What has arrived already can still be taken."""
        self._reconnecting.unsubscribe(self)
        self.end(None)

    # What the connection calls.

    def begin(self, connection: Connection) -> None:
        """Messages will come on this connection."""
        self._leave()
        self._connection = connection
        also = None if self._farewells is None else self._farewells.sid
        self._sieve = sieve(connection.protocol, self.sid, also)
        connection.receive = self._receive

    def remaining(self) -> int:
        return 0

    def deliver(self, messages: list[nats.Message]) -> None:
        raise AssertionError(messages)  # the sieve has them all

    def end(self, error: ClientError | None) -> None:
        if not self.ended:
            self.ended = True
            self._error = error
            self._reconnecting.capture = None
            if self._farewells is not None:
                self._reconnecting.unsubscribe(self._farewells)
            self._leave()
            self._filled.set()

    def _leave(self) -> None:
        """The connection goes on without a sieve. What was gathered is kept."""
        if self._sieve is not None and self._connection is not None:
            if self._sieve.rows:
                self._left.append(self._sieve.take())
            self._connection.hand_back(self._sieve.reclaim())
            self._sieve = self._connection = None

    def _receive(self, data: bytes) -> list[nats.Event]:
        assert self._sieve is not None
        assert self._connection is not None
        events = self._sieve.receive_data(data, self._clock())
        size = self._sieve.size
        if size >= self._worth_taking:
            self._filled.set()
            if size >= self._most_bytes and not self._draining:
                self._connection.pause_reading()
        return events
