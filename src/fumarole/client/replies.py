"""Requests and their replies: one private inbox for all requests of a client (R1).

The inbox is the pattern `_INBOX.<random>.*`; each request gets a topic of its own in it, `_INBOX.<random>.<number>`, by
which its replies are told apart. The server answers a request without a responder with an empty message of status 503.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from fumarole.client.errors import ClientError, NoResponders, RefusedError
from fumarole.client.message import Message, Publisher
from fumarole.client.reconnect import ReconnectingConnection
from fumarole.core import headers
from fumarole.protocols import nats

NO_RESPONDERS = "503"


class Collector:
    """The replies to one request."""

    def __init__(self, topic: str, reply: str, wanted: int | None) -> None:
        self.reply = reply
        self.messages: list[Message] = []
        self._topic = topic
        self._wanted = wanted
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the wanted number of replies is in, or when none can come."""

    def add(self, message: Message) -> None:
        """Adds a reply."""
        if not self.complete.done():
            self.messages.append(message)
            if len(self.messages) == self._wanted:
                self.complete.set_result(None)

    def no_responder(self) -> None:
        """The server has answered that there is no responder."""
        self.fail(NoResponders(self._topic))

    def fail(self, error: ClientError) -> None:
        """No more replies will come."""
        if not self.complete.done():
            self.complete.set_exception(error)


class Replies:
    """The inbox. It subscribes with the first request."""

    def __init__(self, reconnecting: ReconnectingConnection, publisher: Publisher) -> None:
        self._prefix = f"_INBOX.{secrets.token_hex(11)}."
        self.sid = reconnecting.new_sid()
        self.pattern = f"{self._prefix}*".encode()
        self.group = b""
        self._reconnecting = reconnecting
        self._publisher = publisher
        self._subscribing: asyncio.Task[None] | None = None
        self._collectors: dict[bytes, Collector] = {}
        self._last = 0

    async def ready(self) -> None:
        """Returns when replies can arrive. Raises what a subscribe raises."""
        if self._subscribing is None:
            self._subscribing = asyncio.create_task(self._reconnecting.subscribe(self))
            self._subscribing.add_done_callback(self._subscribed)
        try:
            # Several requests may wait for the same subscribe; cancelling one must not cancel it for the others.
            await asyncio.shield(self._subscribing)
        except RefusedError as error:
            raise RefusedError(
                f"this user may not receive replies; it needs `_INBOX.>` under `subscribe` ({error})"
            ) from None

    def _subscribed(self, subscribing: asyncio.Task[None]) -> None:
        # The waiter may have been cancelled. The next one tries again.
        failed = subscribing.cancelled() or subscribing.exception() is not None
        if failed and self._subscribing is subscribing:
            self._subscribing = None

    @contextmanager
    def collect(self, topic: str, wanted: int | None) -> Iterator[Collector]:
        """In this block, replies to one request are collected; later ones are ignored."""
        self._last += 1
        collector = Collector(topic, f"{self._prefix}{self._last}", wanted)
        key = collector.reply.encode()
        self._collectors[key] = collector
        try:
            yield collector
        finally:
            del self._collectors[key]

    # Called by the connection.

    def remaining(self) -> int:
        return 0

    def deliver(self, messages: list[nats.Message]) -> None:
        for event in messages:
            collector = self._collectors.get(event.topic)
            if collector is None:
                continue
            if event.headers and not event.payload and headers.status(event.headers).startswith(NO_RESPONDERS):
                collector.no_responder()
            else:
                collector.add(Message(event, self._publisher))

    def end(self, error: ClientError | None) -> None:
        self._subscribing = None
        for collector in self._collectors.values():
            collector.fail(error or ClientError("the client was closed while it waited for a reply"))
