"""Readings of the producers that a query selects, and the changes of that set, in the order in which they happened.

A request to `$FUM.where` is answered with the set and two topics, one for readings and one for changes. Both are
subscribed to, into one buffer. A broker keeps these topics only while they have a consumer. So after a reconnect the
request is sent again, and the difference between the two sets is one change. Forgotten producers come on a third
subscription, into the same buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from fumarole.client.connection import Deliver
from fumarole.client.errors import ClientError, RefusedError
from fumarole.client.reconnect import ReconnectingConnection
from fumarole.client.topics import encode_pattern
from fumarole.core.publication import FORGOTTEN
from fumarole.core.query.tree import Value
from fumarole.protocols import columns, nats

WHERE = "$FUM.where"
FORGOTTEN_TOPIC = FORGOTTEN.encode()


class Reading(NamedTuple):
    """A reading of a producer."""

    producer: str
    metadata: dict[str, Value | None]
    """The metadata that changed with this reading, mostly empty; None: a deleted key."""
    value: float | str
    """A number, or text where the payload of the reading is no number."""
    topic: str
    age: float | None = None
    """Of a last value: the seconds since it was published. None: it is live."""


class Change(NamedTuple):
    """Producers that entered the set of the query, and producers that left it."""

    new: tuple[str, ...]
    gone: tuple[str, ...]


class Asking(Protocol):
    """Sends requests to the broker."""

    async def ask_broker(self, service: str, payload: bytes | str = b"", query: str = "") -> dict[str, Any]: ...


@dataclass(slots=True, eq=False)
class _Ear:
    """One of the subscriptions."""

    sid: bytes
    pattern: bytes
    readings: Readings
    group: bytes = b""

    @property
    def deliver(self) -> Deliver:
        return self.readings.deliver

    def remaining(self) -> int:
        return 0

    def end(self, error: ClientError | None) -> None:
        self.readings.end(error)


class Readings:
    """`async for each in readings`: each is a Reading or a Change. `client.where` makes one.

    When the buffer is full the oldest reading is dropped, and counted; changes are joined, and never dropped.
    """

    def __init__(
        self,
        reconnecting: ReconnectingConnection,
        broker: Asking,
        query: str,
        topic: str,
        group: str,
        buffer: int,
        buffer_bytes: int,
        *,
        farewells: bool = False,
    ) -> None:
        self.query = query
        self.dropped = 0
        """Readings that were dropped because they were not taken in time."""
        self._reconnecting = reconnecting
        self._broker = broker
        self._question = json.dumps({"where": query, "topic": topic, "group": group})
        self._group = group
        self._with_forgotten = farewells
        self._most = buffer
        self._most_bytes = buffer_bytes
        self._members: frozenset[str] = frozenset()
        self._items: deque[nats.Message | Change] = deque()
        self._bytes = 0
        """Headers and payloads of these."""
        self._ears: tuple[_Ear, ...] = ()
        self._diffs = b""
        self._asking: asyncio.Task[None] | None = None
        self._ended = False
        self._error: ClientError | None = None
        self._arrived = asyncio.Event()
        self._settled = asyncio.Event()
        """Nothing has come since the buffer was last found empty."""
        self._settled.set()

    @property
    def producers(self) -> frozenset[str]:
        """The producers of the set now, with every change that has arrived, taken or not."""
        return self._members

    @property
    def buffered(self) -> int:
        """Readings and changes that have arrived and wait to be taken."""
        return len(self._items)

    def __aiter__(self) -> AsyncIterator[Reading | Change]:
        return self

    async def __anext__(self) -> Reading | Change:
        while not self._items:
            self._settled.set()
            if self._ended:
                raise self._error or StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        item = self._items.popleft()
        if isinstance(item, Change):
            return item
        self._bytes -= _size(item)
        return _reading(item)

    async def open(self) -> None:
        """Returns when the broker has confirmed it. Raises QueryRefusedError and the errors of a subscribe."""
        losses = self._reconnecting.losses
        try:
            await self._ask()
        except BaseException:
            await self.close()
            raise
        self._reconnecting.followers.add(self)
        if self._reconnecting.losses != losses:
            self.lost()
            if self._reconnecting.connected:
                self.returned()

    async def close(self) -> None:
        """Unsubscribes. Readings that have arrived can still be taken."""
        for ear in self._ears:
            self._reconnecting.unsubscribe(ear)
        self.end(None)

    async def drain(self) -> None:
        """Unsubscribes, and waits until all readings sent before have arrived. They can still be taken."""
        self._leave()
        try:
            # Readings first, so that the change that introduces a producer has arrived for each of them.
            for ear in reversed(self._ears):
                await self._reconnecting.drain(ear)
        finally:
            self.end(None)

    async def finished(self) -> None:
        """Waits until all arrived readings are taken, and the iteration waits for more."""
        await self._settled.wait()

    async def _ask(self) -> None:
        answer = await self._broker.ask_broker(WHERE, self._question, self.query)
        # Changes may come together with the confirmation: the set they change must be there before.
        self._become(answer["New"])
        self._diffs = encode_pattern(answer["diffs"])
        # Changes first: no reading may come before the change that introduces its producer.
        topics = (self._diffs, encode_pattern(answer["topic"]))
        self._ears = tuple(_Ear(self._reconnecting.new_sid(), topic, self) for topic in topics)
        await self._reconnecting.subscribe(*self._ears)
        if self._with_forgotten:
            group = encode_pattern(self._group) if self._group else b""
            ear = _Ear(self._reconnecting.new_sid(), FORGOTTEN_TOPIC, self, group)
            with contextlib.suppress(
                RefusedError
            ):  # without the permission for _FORGOTTEN, it goes on without these messages
                await self._reconnecting.subscribe(ear)
                self._ears = (*self._ears, ear)

    def _become(self, members: Iterable[str]) -> None:
        before, now = self._members, dict.fromkeys(members)
        self._change(tuple(each for each in now if each not in before), tuple(sorted(before - now.keys())))

    def _change(self, new: Iterable[str], gone: Iterable[str]) -> None:
        change = Change(tuple(new), tuple(gone))
        if change.new or change.gone:
            self._members = (self._members - set(change.gone)) | set(change.new)
            self._items.append(change)
            self._come()

    def _come(self) -> None:
        self._settled.clear()
        self._arrived.set()

    # Called by the connection.

    def deliver(self, messages: list[nats.Message]) -> None:
        newest = 0
        for message in messages:
            if message.topic == self._diffs:
                said = json.loads(message.payload)
                self._change(said["New"], said["Del"])
            elif message.topic != FORGOTTEN_TOPIC or columns.said(message.headers).producer is not None:
                self._items.append(message)
                newest = _size(message)
                self._bytes += newest
        # The newest reading is kept, however large; where only changes came, there are no more bytes than before.
        while len(self._items) > self._most or (newest and self._bytes > max(self._most_bytes, newest)):
            self._make_room()
        self._come()

    def lost(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        for ear in self._ears:
            self._reconnecting.forget(ear)
        self._ears = ()

    def returned(self) -> None:
        self._asking = asyncio.create_task(self._reconnecting.repeat(self._ask, self.end))

    def end(self, error: ClientError | None) -> None:
        self._leave()
        if not self._ended:
            self._ended = True
            self._error = error
            self._arrived.set()

    def _leave(self) -> None:
        """From now on, a reconnect sends no request again."""
        self._reconnecting.followers.discard(self)
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()

    def _make_room(self) -> None:
        """Joins the changes that came first, and drops the reading behind them."""
        joined: Change | None = None
        with contextlib.suppress(IndexError):
            while isinstance(item := self._items.popleft(), Change):
                joined = item if joined is None else _joined(joined, item)
            self._bytes -= _size(item)
            self.dropped += 1
        if joined is not None and any(joined):
            self._items.appendleft(joined)


def _joined(first: Change, then: Change) -> Change:
    """Two changes as one. A producer that entered and left, or left and entered, is in neither list."""
    new, gone = dict.fromkeys(first.new), dict.fromkeys(first.gone)
    for ids, undone, done in ((then.gone, new, gone), (then.new, gone, new)):
        for each in ids:
            if each in undone:
                del undone[each]
            else:
                done[each] = None
    return Change(tuple(new), tuple(gone))


def _size(message: nats.Message) -> int:
    return len(message.headers) + len(message.payload)


def _reading(message: nats.Message) -> Reading:
    if message.topic == FORGOTTEN_TOPIC:
        producer, gone, _ = columns.said(message.headers)
        return Reading(producer or "", json.loads(gone or "{}"), message.payload.decode(errors="replace"), FORGOTTEN)
    said = json.loads(message.payload)
    return Reading(said["id"], said["metadata"], said["value"], said["topic"], said.get("age"))
