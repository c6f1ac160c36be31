"""The client: publish, subscribe, request, and all other operations of the public API."""
# ruff: noqa: ASYNC109, a request has a timeout parameter

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any
from uuid import uuid4

from fumarole.client.capture import MOST_BYTES, Capture
from fumarole.client.connection import Identity
from fumarole.client.errors import (
    ClientError,
    FlushTimeoutError,
    PayloadTooLargeError,
    QueryRefusedError,
    RefusedError,
    RequestTimeoutError,
)
from fumarole.client.message import Headers, Message
from fumarole.client.opening import Opening
from fumarole.client.producer import Producer, ProducerInfo
from fumarole.client.reconnect import Notice, ReconnectingConnection, ReconnectOptions, log_notice
from fumarole.client.replies import Replies
from fumarole.client.sender import CHUNK
from fumarole.client.servers import DEFAULT_SERVER, parse_servers
from fumarole.client.subscription import BUFFER, BUFFER_BYTES, Subscription
from fumarole.client.topics import EncodedTopics, encode_options, encode_pattern, encode_topic
from fumarole.client.view import ViewSubscription
from fumarole.client.where import Readings
from fumarole.core import headers as header_block
from fumarole.core.limits import MIB
from fumarole.core.query.tree import Value
from fumarole.protocols import nats

STATS = "$FUM.stats"
CONSUMERS = "$FUM.consumers"
CLUSTER = "$FUM.cluster"
PRODUCERS = "$FUM.producers"
LAST = "$FUM.last"
CLOSE_SECONDS = 2.0
"""Seconds for published messages to leave when the client is closed."""

Payload = bytes | str


def connect(
    servers: str | Iterable[str] = DEFAULT_SERVER,
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    name: str = "",
    echo: bool = True,
    timeout: float = 2.0,
    reconnect: bool = True,
    pending: int = 8 * MIB,
    ping_interval: float = 20.0,
    on_notice: Callable[[Notice], None] = log_notice,
    presence: bool = True,
) -> Opening[Client]:
    """A client: `async with connect(…) as client`, or `client = await connect(…)` and `close` later.

    `servers` is one address, several with commas, or a list; they are tried in turn, and again when the connection is
    lost. `docs/how-to/client.md` explains the rest. Raises NoServerError or AuthorizationError when opened.
    """
    identity = Identity(name, user, password, token, echo, tls, presence)
    options = ReconnectOptions(identity, timeout, reconnect, pending, ping_interval, on_notice)
    parsed = parse_servers(servers)

    async def open_client() -> Client:
        reconnecting = ReconnectingConnection(parsed, options)
        await reconnecting.start()
        return Client(reconnecting)

    return Opening(open_client())


class Client:
    """A connected client; `connect` makes one."""

    def __init__(self, reconnecting: ReconnectingConnection) -> None:
        self._reconnecting = reconnecting
        self._sender = reconnecting.sender
        self._topics = EncodedTopics()
        self._replies = Replies(reconnecting, self)

    @property
    def connected(self) -> bool:
        """True while there is a connection. False while the client reconnects."""
        return self._reconnecting.connected

    @property
    def server(self) -> str:
        """The server of the connection, without credentials; empty: there is none at the moment."""
        return "" if self._reconnecting.connection is None else str(self._reconnecting.connection.server)

    @property
    def name(self) -> str:
        """The name of this client at the broker."""
        return self._reconnecting.options.identity.name

    @property
    def losses(self) -> int:
        """Connections that were lost so far. Messages published by others meanwhile did not reach this client."""
        return self._reconnecting.losses

    @property
    def max_payload(self) -> int:
        """The largest payload, with headers, that the server accepts."""
        return self._reconnecting.max_payload

    async def publish(
        self,
        topic: str,
        payload: Payload = b"",
        *,
        headers: Headers | None = None,
        reply: str = "",
        retain: bool = False,
    ) -> None:
        """Sends a message to the subscribers of the topic; it is not confirmed, see `flush`.

        With `retain` the broker keeps it as the newest of its topic, for consumers that subscribe later with `last`;
        an empty payload removes the kept message. While disconnected, the message waits for the next connection, up to
        `pending` bytes; then PendingFullError is raised.
        """
        sender = self._sender
        if retain:
            pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
            headers = [*pairs, ("Retain", "1")]
        sender.add(self._frame(topic, payload, headers, reply))
        if sender.size >= CHUNK:
            await sender.room()

    async def publish_many(self, messages: Iterable[tuple[str, Payload]] | AsyncIterable[tuple[str, Payload]]) -> int:
        """Publishes a stream of (topic, payload), in large writes, at the speed of the socket. Returns their number.

        Disconnected, it waits for the next connection.
        """
        sender = self._sender
        count = 0
        if isinstance(messages, AsyncIterable):
            async for topic, payload in messages:
                await sender.connection_made()
                await self.publish(topic, payload)
                count += 1
            return count
        iterator = iter(messages)
        taken = CHUNK
        while taken >= CHUNK:
            await sender.connection_made()
            frames: list[bytes] = []
            taken = 0
            try:
                taken = self._gather(iterator, frames)
            finally:
                # Messages before an error of the iterator are published.
                sender.add_all(frames, sum(map(len, frames)))
            count += len(frames)
            await sender.room()
        return count

    async def publish_frames(self, chunks: Iterable[tuple[int, bytes]]) -> int:
        """Publishes frames that are already encoded: whole frames, and their number in each chunk.

        For callers that make very many at once. While disconnected, it waits for the next connection.
        """
        sender = self._sender
        count = 0
        for number, frames in chunks:
            await sender.connection_made()
            sender.add_all([frames], len(frames))
            count += number
            await sender.room()
        return count

    def _gather(self, iterator: Iterator[tuple[str, Payload]], frames: list[bytes]) -> int:
        """Frames of the next messages, CHUNK bytes or a little more; fewer when there are no more messages."""
        topics, most = self._topics, self._reconnecting.max_payload
        size = 0
        for topic, payload in iterator:
            data = payload if type(payload) is bytes else _bytes(payload)
            length = len(data)
            if length > most:
                raise _too_large(length, most)
            frame = nats.publish(topics[topic], data)
            frames.append(frame)
            size += len(frame)
            if size >= CHUNK:
                break
        return size

    def subscribe(
        self,
        pattern: str = ">",
        *,
        group: str = "",
        limit: int | None = None,
        buffer: int = BUFFER,
        buffer_bytes: int = BUFFER_BYTES,
        last: bool = False,
        every: float | str | None = None,
    ) -> Opening[Subscription]:
        """A subscription, confirmed by the server when it is opened: `async with` or `await`, then `async for`.

        With `last`, the last values come first: the retained message of every topic, and the last one where the
        namespace keeps those; each has an `age`. With `every`, seconds or a text like `"500ms"`, of each topic only the
        newest message comes, at most once in that time; 0: as often as this client can take it.

        With `group`, its members share the messages. With `limit`, it ends after so many. Up to `buffer` messages, with
        headers and payloads of together `buffer_bytes`, wait to be taken; then the oldest is dropped.
        """
        if (limit is not None and limit < 1) or buffer < 1 or buffer_bytes < 1:
            raise ValueError("limit, buffer and buffer_bytes are at least 1")
        if limit is not None and limit > nats.MOST_AWAITED:
            raise ValueError(f"limit is at most {nats.MOST_AWAITED}; without one, a subscription goes on for ever")
        encoded_group = encode_pattern(group) if group else b""
        reconnecting, encoded = self._reconnecting, encode_options(last, every) + encode_pattern(pattern)

        async def open_subscription() -> Subscription:
            subscription = Subscription(reconnecting, self, encoded, encoded_group, limit or 0, buffer, buffer_bytes)
            await reconnecting.subscribe(subscription)
            return subscription

        return Opening(open_subscription())

    def capture(
        self, pattern: str = ">", *, group: str = "", most_bytes: int = MOST_BYTES, farewells: bool = False
    ) -> Opening[Capture]:
        """A subscription whose messages become columns, many at a time, for recorders.

        A client has one at most. With `most_bytes` waiting to be taken, nothing more is read from the broker. With
        `farewells`, the broker's messages about forgotten producers come too, on `_FORGOTTEN`, in order.
        """
        if self._reconnecting.capture is not None:
            raise ClientError("this client captures already; connect another one")
        reconnecting, encoded = self._reconnecting, encode_pattern(pattern)
        encoded_group = encode_pattern(group) if group else b""
        capture = reconnecting.capture = Capture(reconnecting, encoded, encoded_group, most_bytes, farewells=farewells)

        async def open_capture() -> Capture:
            await capture.open()
            return capture

        return Opening(open_capture())

    async def last(self, pattern: str = ">", *, where: str = "", timeout: float = 5.0) -> AsyncIterator[Message]:
        """The last values: of each topic the retained message, and the last one where the namespace keeps those; with
        `where`, the last reading of each producer that the query selects. Each has an `age`.

        The broker has `timeout` for each. Raises QueryRefusedError, RefusedError and RequestTimeoutError.
        """
        question = json.dumps({"where": where, "topic": pattern})
        inbox = f"_INBOX.{uuid4().hex}"
        async with self.subscribe(inbox) as answers:
            await self.publish(LAST, question, reply=inbox)
            while True:
                try:
                    async with asyncio.timeout(timeout):
                        message = await anext(answers)
                except TimeoutError:
                    raise RequestTimeoutError(f"no more last values within {timeout:g} s") from None
                except StopAsyncIteration:
                    return
                if message.status == "204":
                    return
                if message.age is None:
                    raise_refusal(message.json(), where)
                yield message.of_topic()

    async def request(
        self, topic: str, payload: Payload = b"", timeout: float = 5.0, *, headers: Headers | None = None
    ) -> Message:
        """The first reply. Raises NoResponders at once if there is no responder, TimeoutError if no reply comes."""
        replies = await self.call(topic, payload, 1, timeout, headers=headers)
        if not replies:
            raise RequestTimeoutError(f"no reply to the request to {topic!r} within {timeout:g} s")
        return replies[0]

    async def call(
        self,
        topic: str,
        payload: Payload = b"",
        replies: int | None = None,
        timeout: float = 5.0,
        *,
        headers: Headers | None = None,
    ) -> list[Message]:
        """The replies: as soon as that many are in, else those that came when the time is up, perhaps none.

        `replies=None` waits for all that come in that time. Raises NoResponders at once if there is no responder (R1),
        and TimeoutError if the request could not be sent.
        """
        if replies is not None and replies < 1:
            raise ValueError("replies is at least 1, or None for all that come in time")
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                await self._replies.ready()
        except TimeoutError:
            raise RequestTimeoutError(
                f"no connection within {timeout:g} s, so the request to {topic!r} was not sent"
            ) from None
        with self._replies.collect(topic, replies) as collector, contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self.publish(topic, payload, headers=headers, reply=collector.reply)
                await collector.complete
        return collector.messages

    async def stats(self, timeout: float = 5.0) -> dict[str, Any]:
        """The counters of this client's namespace: received, delivered, dropped by reason."""
        return await self.ask_broker(STATS, timeout=timeout)

    async def consumers(self, timeout: float = 5.0) -> dict[str, Any]:
        """The consumers of this client's namespace that lost most, with the messages that each got and lost."""
        return await self.ask_broker(CONSUMERS, timeout=timeout)

    async def cluster(self, timeout: float = 5.0) -> dict[str, Any]:
        """The cluster as the node of this connection sees it: its peers, and the state of the links to them."""
        return await self.ask_broker(CLUSTER, timeout=timeout)

    async def producers(self, query: str = "", timeout: float = 5.0, *, most: int = 1_000) -> list[ProducerInfo]:
        """The producers that a query selects, or all; the first `most` of them. Raises QueryRefusedError.

        It may take several requests; `timeout` holds for each.
        """
        found: list[ProducerInfo] = []
        skip: int | None = 0
        while skip is not None and len(found) < most:
            page, skip = await self._some_producers(query, skip, timeout)
            found += page
        return found[:most]

    async def all_producers(self, query: str = "", timeout: float = 5.0) -> AsyncIterator[list[ProducerInfo]]:
        """All of them, in answers of up to a thousand. Producers that come or go meanwhile may be missed; after a
        reconnect to another broker, others too."""
        skip: int | None = 0
        while skip is not None:
            page, skip = await self._some_producers(query, skip, timeout)
            yield page

    async def _some_producers(self, query: str, skip: int, timeout: float) -> tuple[list[ProducerInfo], int | None]:
        """The producers of one answer, perhaps none, and the `skip` of the next request; None: there are no more."""
        answer = await self.ask_broker(PRODUCERS, json.dumps({"where": query, "skip": skip}), query, timeout)
        told = answer["producers"]
        return [ProducerInfo(each["id"], each["metadata"], each["value"], each["age"]) for each in told], answer["next"]

    def producer(
        self,
        metadata: Mapping[str, Value] | None = None,
        topic: str | None = None,
        identity: str | None = None,
    ) -> Producer:
        """A source of readings that describes itself by metadata. It chooses its identity, a UUID, unless given one."""
        return Producer(self, self._reconnecting, metadata or {}, topic, identity)

    def where(
        self,
        query: str,
        *,
        topic: str = ">",
        group: str = "",
        buffer: int = BUFFER,
        buffer_bytes: int = BUFFER_BYTES,
        farewells: bool = False,
        last: bool = False,
        every: float | str | None = None,
    ) -> Opening[Readings]:
        """The readings of the producers that a query selects, and the changes of that set: `async with` or `await`.

        With `topic`, only readings on topics of this pattern; with `group`, its members share them. Up to `buffer`
        readings, of together `buffer_bytes`, wait to be taken; then the oldest is dropped. With `farewells`, each
        producer that is forgotten, also one that was not selected, has a last reading on `_FORGOTTEN` that deletes all
        its metadata. With `last`, the last reading of each producer comes first, with its `age`; with `every`, of each
        producer only the newest comes, at most once in that time. Raises QueryRefusedError when opened.
        """
        if buffer < 1 or buffer_bytes < 1:
            raise ValueError("buffer and buffer_bytes are at least 1")

        async def open_readings() -> Readings:
            asked = encode_options(last, every).decode() + topic
            readings = Readings(
                self._reconnecting, self, query, asked, group, buffer, buffer_bytes, farewells=farewells
            )
            await readings.open()
            return readings

        return Opening(open_readings())

    def view(self, text: str) -> Opening[ViewSubscription]:
        """A live view: `select Region, count(*) where Status = 'failed'`. `async with` or `await`, then `async for`.

        `entries` has its entries; the first change has all of them as `new`, later changes have `new` and `gone`
        entries. Raises QueryRefusedError when opened.
        """

        async def open_view() -> ViewSubscription:
            view = ViewSubscription(self._reconnecting, self, text)
            await view.open()
            return view

        return Opening(open_view())

    async def ask_broker(
        self, service: str, payload: Payload = b"", query: str = "", timeout: float = 5.0
    ) -> dict[str, Any]:
        """The broker's own answer to a request. Raises RefusedError if it refuses, for a query with the position."""
        answer = (await self.request(service, payload, timeout)).json()
        if not isinstance(answer, dict):
            raise ClientError(f"{self.server} does not answer {service} as a Fumarole broker does")
        raise_refusal(answer, query)
        return answer

    async def flush(self, timeout: float = 10.0) -> None:
        """Returns when the server has received all that was published.

        Raises RefusedError if it refused something, FlushTimeoutError if it does not confirm in time.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._reconnecting.confirm()
        except TimeoutError:
            raise FlushTimeoutError(timeout) from None
        refusals, self._reconnecting.refusals = self._reconnecting.refusals, []
        if refusals:
            raise RefusedError("; ".join(dict.fromkeys(refusals)))

    async def drain(self, timeout: float = 10.0) -> None:
        """Ends all subscriptions, waits until the arrived messages are taken, and closes. At most so many seconds."""
        everything = (*self._reconnecting.subscribers(), *self._reconnecting.followers)
        taken = [each for each in everything if isinstance(each, Subscription | Readings)]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await asyncio.gather(*(each.drain() for each in taken))
                    await asyncio.gather(*(each.finished() for each in taken))
        finally:
            await self.close()

    async def close(self) -> None:
        """Sends published messages, and closes. Subscriptions end; messages that have arrived can still be taken."""
        seconds = 0.0  # a cancelled close does not wait
        try:
            if self._reconnecting.connected:
                # Closing a socket with unread bytes may discard written ones, so read until the server has them.
                with contextlib.suppress(ClientError, TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await self._reconnecting.confirm()
            seconds = CLOSE_SECONDS
        finally:
            await self._reconnecting.stop(seconds)

    def _frame(self, topic: str, payload: Payload, headers: Headers | None, reply: str) -> bytes:
        data = payload if type(payload) is bytes else _bytes(payload)
        block = b""
        if headers:
            block = header_block.build(headers.items() if isinstance(headers, Mapping) else headers)
        if len(data) + len(block) > self._reconnecting.max_payload:
            raise _too_large(len(data) + len(block), self._reconnecting.max_payload)
        return nats.publish(self._topics[topic], data, encode_topic(reply) if reply else b"", block)


def raise_refusal(answer: dict[str, Any], query: str) -> None:
    """Raises the broker's refusal; for a query, with the position."""
    if "position" in answer and query:
        raise QueryRefusedError(query, answer["position"], answer["found"], answer["expected"])
    if "error" in answer:
        raise RefusedError(answer["error"])


def _bytes(payload: Payload) -> bytes:
    return payload.encode() if isinstance(payload, str) else bytes(payload)


def _too_large(size: int, most: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"{size} bytes, and the server accepts {most}; send less, or raise its limits.payload")
