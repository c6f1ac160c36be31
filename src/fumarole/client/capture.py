"""A capture: a subscription whose messages become columns, not objects, for very many messages.

A client has at most one. When the columns are taken too slowly, the socket is not read for a while, and
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
        """Adds a message, with its headers and its time of arrival."""
        self._gathered.add(nats.Message(encode_topic(topic), b"", b"", headers.build(pairs), payload), now)

    def take(self) -> Columns:
        """Returns all messages, and begins a new batch."""
        return self._gathered.take()


def gather(messages: Iterable[tuple[str, bytes, Iterable[tuple[str, str]]]], now: int) -> Columns:
    """A batch of messages as columns: topics, payloads and headers."""
    gathering = Gathering()
    for topic, payload, pairs in messages:
        gathering.add(topic, payload, pairs, now)
    return gathering.take()


def microseconds() -> int:
    """Since 1970."""
    return time.time_ns() // 1_000


@dataclass(slots=True, eq=False)
class ForgottenMessages:
    """The broker's messages about forgotten producers: a second subscription, into the same sieve."""

    sid: bytes
    group: bytes
    pattern: bytes = FORGOTTEN.encode()

    def remaining(self) -> int:
        return 0

    def deliver(self, messages: list[nats.Message]) -> None:
        """Drops messages while there is no sieve."""

    def end(self, error: ClientError | None) -> None:
        """Nothing to do: the capture goes on without this subscription."""


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
        """True when no more messages will come."""
        self._reconnecting = reconnecting
        self._forgotten = ForgottenMessages(reconnecting.new_sid(), group) if farewells else None
        self._most_bytes = most_bytes
        self._worth_taking = min(WORTH_TAKING, most_bytes)
        self._clock = clock
        self._connection: Connection | None = None
        self._sieve: columns.Sieve | CompiledSieve | None = None
        self._left: list[Columns] = []
        """The batches of earlier sieves."""
        self._error: ClientError | None = None
        self._filled = asyncio.Event()
        self._draining = False

    @property
    def rows(self) -> int:
        """Messages that wait to be taken."""
        return sum(each.rows for each in self._left) + (0 if self._sieve is None else self._sieve.rows)

    @property
    def size(self) -> int:
        """Their bytes, approximately."""
        return sum(each.size for each in self._left) + (0 if self._sieve is None else self._sieve.size)

    async def filled(self, seconds: float) -> None:
        """Returns when there are enough messages to take, when the time is up, or when the capture has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._filled.wait()

    def take(self) -> list[Columns]:
        """The batches that have come. When all are taken, raises the error that ended the capture."""
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
            if self._forgotten is not None:
                with contextlib.suppress(
                    RefusedError
                ):  # without the permission for _FORGOTTEN, the capture goes on without these messages
                    await self._reconnecting.subscribe(self._forgotten)
            await self._reconnecting.subscribe(self)
        except BaseException:
            self.end(None)
            raise

    async def drain(self) -> None:
        """Unsubscribes, and waits until all messages sent before have arrived. They can still be taken."""
        self._draining = True
        if self._connection is not None:
            self._connection.resume_reading()
        try:
            if self._forgotten is not None:
                await self._reconnecting.drain(self._forgotten)
            await self._reconnecting.drain(self)
        finally:
            self.end(None)

    async def close(self) -> None:
        """Unsubscribes. Messages that have arrived can still be taken."""
        self._reconnecting.unsubscribe(self)
        self.end(None)

    # Called by the connection.

    def begin(self, connection: Connection) -> None:
        """Sets the connection on which messages will come."""
        self._leave()
        self._connection = connection
        also = None if self._forgotten is None else self._forgotten.sid
        self._sieve = sieve(connection.protocol, self.sid, also)
        connection.receive = self._receive

    def remaining(self) -> int:
        return 0

    def deliver(self, messages: list[nats.Message]) -> None:
        raise AssertionError(messages)  # the sieve has all messages

    def end(self, error: ClientError | None) -> None:
        if not self.ended:
            self.ended = True
            self._error = error
            self._reconnecting.capture = None
            if self._forgotten is not None:
                self._reconnecting.unsubscribe(self._forgotten)
            self._leave()
            self._filled.set()

    def _leave(self) -> None:
        """Takes the sieve out of the connection. Its batches are kept."""
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
