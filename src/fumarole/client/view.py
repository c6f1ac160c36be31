"""A live view: the distinct values of some metadata keys over the producers that a query selects, and their changes.

A request to `$FUM.view` is answered with the entries of the view and a topic for its changes. The broker keeps that
topic only while it has a consumer. So after a reconnect the request is sent again, and the difference is one change.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from fumarole.client.errors import ClientError
from fumarole.client.reconnect import ReconnectingConnection
from fumarole.client.topics import encode_pattern
from fumarole.core.query.tree import Value
from fumarole.protocols import nats

VIEW = "$FUM.view"
Entry = tuple[Value | None, ...]
"""The values of the keys; with `count(*)` the count is the last. None: a producer does not have the key."""


class ViewChange(NamedTuple):
    """Entries that came, and entries that went."""

    new: tuple[Entry, ...]
    gone: tuple[Entry, ...]


class Asking(Protocol):
    """Sends a request to the broker."""

    async def ask_broker(self, service: str, payload: bytes | str = b"", query: str = "") -> dict[str, Any]: ...


class ViewSubscription:
    """`async for change in view`; `view.entries` has its entries. `client.view` makes one."""

    def __init__(self, reconnecting: ReconnectingConnection, broker: Asking, text: str) -> None:
        self.text = text
        self.sid = reconnecting.new_sid()
        self.pattern = b""
        self.group = b""
        self._reconnecting = reconnecting
        self._broker = broker
        self._entries: dict[tuple[tuple[type, Any], ...], Entry] = {}
        self._changes: deque[ViewChange] = deque()
        self._arrived = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._ended = False
        self._error: ClientError | None = None

    @property
    def entries(self) -> list[Entry]:
        """The entries now, with every change that has arrived, taken or not."""
        return list(self._entries.values())

    def __aiter__(self) -> ViewSubscription:
        return self

    async def __anext__(self) -> ViewChange:
        while not self._changes:
            if self._ended:
                raise self._error or StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._changes.popleft()

    async def open(self) -> None:
        """Returns when the broker has answered. The first change has all entries, if there are any."""
        await self._ask()
        self._reconnecting.followers.add(self)

    async def close(self) -> None:
        """Ends the view."""
        if self.pattern:
            self._reconnecting.unsubscribe(self)
        self.end(None)

    async def _ask(self) -> None:
        answer = await self._broker.ask_broker(VIEW, self.text, self.text)
        before, now = self._entries, {_key(entry): tuple(entry) for entry in answer["New"]}
        self._change((now[key] for key in now.keys() - before.keys()), (before[k] for k in before.keys() - now.keys()))
        self.sid = self._reconnecting.new_sid()
        self.pattern = encode_pattern(answer["topic"])
        await self._reconnecting.subscribe(self)

    def _change(self, new: Iterable[Entry], gone: Iterable[Entry]) -> None:
        change = ViewChange(tuple(map(tuple, new)), tuple(map(tuple, gone)))
        if change.new or change.gone:
            for entry in change.gone:
                self._entries.pop(_key(entry), None)
            self._entries.update((_key(entry), entry) for entry in change.new)
            self._changes.append(change)
            self._arrived.set()

    # Called by the connection.

    def remaining(self) -> int:
        return 0

    def deliver(self, messages: list[nats.Message]) -> None:
        for message in messages:
            said = json.loads(message.payload)
            self._change(said["New"], said["Del"])

    def lost(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._reconnecting.forget(self)

    def returned(self) -> None:
        self._asking = asyncio.create_task(self._reconnecting.repeat(self._ask, self.end))

    def end(self, error: ClientError | None) -> None:
        self._reconnecting.followers.discard(self)
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()
        if not self._ended:
            self._ended, self._error = True, error
            self._arrived.set()

    async def drain(self) -> None:
        """Ends it; changes that were sent before can still be taken."""
        with contextlib.suppress(ClientError):
            await self.close()

    async def finished(self) -> None:
        """Nothing to wait for."""


def _key(entry: Iterable[Value | None]) -> tuple[tuple[type, Any], ...]:
    """1 and true are two; 5 and 5.0 are one."""
    return tuple((bool if isinstance(each, bool) else str if isinstance(each, str) else float, each) for each in entry)
