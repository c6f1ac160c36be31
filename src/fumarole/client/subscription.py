"""A subscription: the connection puts messages into a bounded buffer, `async for` takes them out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from fumarole.client.errors import ClientError
from fumarole.client.message import Message, Publisher
from fumarole.client.reconnect import ReconnectingConnection
from fumarole.core.limits import MIB
from fumarole.protocols import nats

BUFFER = 65_536
BUFFER_BYTES = 64 * MIB


class Subscription:
    """`async for message in subscription`. When the buffer is full the oldest message is dropped, and counted."""

    def __init__(
        self,
        reconnecting: ReconnectingConnection,
        publisher: Publisher,
        pattern: bytes,
        group: bytes,
        limit: int,
        buffer: int,
        buffer_bytes: int,
    ) -> None:
        self.sid = reconnecting.new_sid()
        self.pattern = pattern
        self.group = group
        self.received = 0
        """Messages that arrived, dropped ones included."""
        self.dropped = 0
        """Messages that were dropped because they were not taken in time."""
        self._reconnecting = reconnecting
        self._publisher = publisher
        self._limit = limit
        self._most = buffer
        self._most_bytes = buffer_bytes
        self._events: deque[nats.Message] = deque()
        self._bytes = 0
        """Headers and payloads of these."""
        self._ended = False
        self._error: ClientError | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._settled = 0
        """Messages taken when the buffer was last found empty."""
        self._settling: asyncio.Future[None] | None = None

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        events = self._events
        while not events:
            await self._wait()
        event = events.popleft()
        self._bytes -= len(event[3]) + len(event[4])
        return Message(event, self._publisher)

    async def batches(self) -> AsyncIterator[list[Message]]:
        """The arrived messages as lists: the quickest way to take many."""
        while True:
            try:
                while not self._events:
                    await self._wait()
            except StopAsyncIteration:
                return
            publisher = self._publisher
            batch = [Message(event, publisher) for event in self._events]
            self._events.clear()
            self._bytes = 0
            yield batch

    @property
    def buffered(self) -> int:
        """Messages that have arrived and wait to be taken."""
        return len(self._events)

    async def close(self) -> None:
        """Unsubscribes. Messages that have arrived can still be taken."""
        self._reconnecting.unsubscribe(self)
        self.end(None)

    async def drain(self) -> None:
        """Unsubscribes, and waits until all messages sent before have arrived. They can still be taken."""
        try:
            await self._reconnecting.drain(self)
        finally:
            self.end(None)

    async def finished(self) -> None:
        """Waits until all arrived messages are taken, and the iteration waits for more."""
        while self._settled != self.received - self.dropped:
            self._settling = asyncio.get_running_loop().create_future()
            await self._settling

    # Called by the connection.

    def remaining(self) -> int:
        return self._limit - self.received if self._limit else 0

    def deliver(self, messages: list[nats.Message]) -> None:
        if self._limit:
            messages = messages[: self.remaining()]
        self.received += len(messages)
        self._events += messages
        self._bytes += sum([len(message[3]) + len(message[4]) for message in messages])
        if len(self._events) > self._most or self._bytes > self._most_bytes:
            self._drop()
        self._wake()
        if self.received == self._limit:
            self._reconnecting.forget(self)
            self.end(None)

    def end(self, error: ClientError | None) -> None:
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake()

    def _drop(self) -> None:
        while len(self._events) > self._most or (self._bytes > self._most_bytes and len(self._events) > 1):
            event = self._events.popleft()
            self._bytes -= len(event[3]) + len(event[4])
            self.dropped += 1

    async def _wait(self) -> None:
        self._settled = self.received - self.dropped
        if self._settling is not None and not self._settling.done():
            self._settling.set_result(None)
        if self._ended:
            raise self._error or StopAsyncIteration
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
