"""The AMQP side: two connections, the bindings that routes need, and two ways to publish.

**Connections.** One consumes and one publishes, so that a broker which takes nothing more in still gives. Both are made
again, with backoff, for as long as the bridge runs; what was wanted is then declared and bound again (B5).

**Bindings.** `wanted` says which keys should be bound; a pass compares that with what is bound, and does the
difference. A queue is there as long as something is bound to it (B3). Nothing else changes bindings, so a reconnect is
only a pass that begins with nothing.

**Publishing.** AMQP answers a mistake by closing the channel, and with it goes what others had published on it just
then. So an exchange is published to carefully first: one message at a time, on a channel of its own, confirmed. Once
that went well its messages take the quick way, in batches. A client's messages never overtake each other: while one
of them waits its turn on the careful way, those behind it do too. Clients take turns there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.abc import ChannelFrame, DeliveredMessage
from yarl import URL

from fumarole.bridge.connections import (
    FAILURES,
    BridgeConnection,
    FrameTransport,
    ReadyProperties,
    close_connection,
    open_channel,
)
from fumarole.bridge.errors import BridgeRefusedError
from fumarole.bridge.fields import encode_properties
from fumarole.bridge.frames import RAW, Deliveries, publication
from fumarole.bridge.operations import AWAY, BEHIND, Send
from fumarole.bridge.waiters import Waiters
from fumarole.bridge.xmq_routes import DIRECT, TOPIC
from fumarole.core.limits import MIB

log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 10.0
REPLY_SECONDS: Final = 10.0
"""Seconds in which the broker must answer one request."""
SHORTEST_BACKOFF, LONGEST_BACKOFF = 0.1, 5.0
HEARTBEAT: Final = 10
"""Seconds between signs of life, so that a broker which hangs is noticed within half a minute."""
FULL: Final = 1 * MIB
"""Bytes that wait for the broker before clients are no longer read."""
MOST_OUT: Final = 8 * MIB
"""Bytes that wait for the broker before all is refused: room for what one client had on the careful way, and more."""
MOST_WAITING: Final = 4 * MIB
"""Bytes of one client on the careful way."""
MOST_WAITING_ALL: Final = 64 * MIB
"""The limit for all clients together."""
WEIGHT: Final = 512
"""An upper estimate of a message's memory besides its payload."""
MOST_KNOWN: Final = 4096
"""Exchanges that are known to exist."""
MOST_AT_ONCE: Final = 500
"""Messages of one client that follow on the quick way before it is another's turn."""
MANY_BINDS: Final = 64
"""Binds that are sent before one is waited for."""


@dataclass(frozen=True, slots=True)
class AmqpOptions:
    """The address of the broker, and the names of exchanges and queues there."""

    url: str
    name: str
    topic_exchange: str
    direct_exchange: str
    direct_queue: str
    topic_queue: str
    reply_queue: str


@dataclass(slots=True)
class Waiting:
    """A message on the confirmed channel, and the callback for its result (None: success)."""

    send: Send | None
    """None: nothing is sent, only the turn is waited for."""
    property_list: bytes
    message_id: str
    """Not empty: without a receiver it is a failure."""
    done: Callable[[str | None], None]

    @property
    def weight(self) -> int:
        return WEIGHT + len(self.property_list) + (0 if self.send is None else len(self.send.payload))


class Row:
    """The messages of one client on the careful way."""

    __slots__ = ("messages", "weight")

    def __init__(self) -> None:
        self.messages: deque[Waiting] = deque()
        self.weight = 0


class AmqpSide:
    """The bridge's place in an AMQP broker."""

    def __init__(
        self,
        options: AmqpOptions,
        wanted: Callable[[str], set[str]],
        deliver: Callable[[str, str, bytes, bytes], None],
        changed: Callable[[bool], None],
    ) -> None:
        """`wanted(kind)` are keys to bind; `deliver(kind, key, properties, body)`, and `REPLIES` is a kind."""
        self.options = options
        self.user = URL(options.url).user or "guest"
        self.ready = False
        self.bindings: dict[str, set[str]] = {TOPIC: set(), DIRECT: set()}
        self.lost = 0
        """Messages that were taken from clients and could not be handed over."""
        self.deliveries = Deliveries()
        self._wanted = wanted
        self._deliver = deliver
        self._changed = changed
        self._consumers: dict[str, str] = {}
        self._pass_wanted = asyncio.Event()
        self._pass_waiters = Waiters()
        self._known: dict[str, bytes] = {}
        self._careful: dict[Any, Row] = {}
        self._careful_weight = 0
        self._careful_wanted = asyncio.Event()
        self._out: list[bytes] = []
        self._out_size = 0
        self._out_of: set[Any] = set()
        """The clients that sent these messages."""
        self._writing_of: set[Any] = set()
        """And those that are being written."""
        self._out_wanted = asyncio.Event()
        self._out_waiters = Waiters()
        self._room = asyncio.Event()
        self._consume_channel: Any = None
        self._quick: Any = None
        self._publishing: AbstractConnection | None = None

    # Called by the bridge.

    def publish(
        self, client: Any, send: Send, property_list: bytes, done: Callable[[str | None], None], message_id: str = ""
    ) -> None:
        """Publishes; `done` may be called at once or later. With a `message_id`, it needs a receiver."""
        if not self.ready:
            raise BridgeRefusedError(AWAY)
        waiting = self._careful.get(client)
        exchange = self._known.get(send.exchange)
        if waiting is None and exchange is not None and not message_id:
            done(self._publish_quickly(client, exchange, send, property_list))
            return
        if (0 if waiting is None else waiting.weight) > MOST_WAITING or self._careful_weight > MOST_WAITING_ALL:
            raise BridgeRefusedError("too many messages are waiting for the broker; send more slowly")
        self._wait(client, Waiting(send, property_list, message_id, done))

    def _wait(self, client: Any, waiting: Waiting) -> None:
        row = self._careful.setdefault(client, Row())
        row.messages.append(waiting)
        row.weight += waiting.weight
        self._careful_weight += waiting.weight
        self._careful_wanted.set()

    def _publish_quickly(self, client: Any, exchange: bytes, send: Send, property_list: bytes) -> str | None:
        """Passes the result to `done`."""
        size = self._out_size
        if size > MOST_OUT:
            return BEHIND
        quick = self._quick
        frames = publication(
            quick.number,
            exchange,
            send.key.encode(),
            property_list,
            send.payload,
            quick.connection.connection_tune.frame_max,
        )
        self._out.append(frames)
        self._out_of.add(client)
        self._out_size = size = size + len(frames)
        self._out_wanted.set()
        if size > FULL:
            self._room.clear()
        return None

    @property
    def full(self) -> bool:
        """True when too much waits for the broker."""
        return self._out_size > FULL

    async def room(self) -> None:
        """Returns when the broker has taken what waits for it."""
        await self._room.wait()

    def rebind(self) -> None:
        """The wanted bindings have changed."""
        self._pass_wanted.set()

    async def settled(self, client: Any) -> None:
        """Returns when what is wanted now is bound, and what the client published handed over.

        Raises BridgeRefusedError while the broker is away.
        """
        if not self.ready:
            raise BridgeRefusedError(AWAY)
        bound = self._pass_waiters.add()
        self._pass_wanted.set()
        if client in self._careful:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wait(client, Waiting(None, b"", "", lambda _: None if turn.done() else turn.set_result(None)))
            await turn
        if client in self._out_of or client in self._writing_of:
            written = self._out_waiters.add()
            self._out_wanted.set()
            await written
        await bound

    async def run(self) -> None:
        """Until cancelled."""
        backoff, told = SHORTEST_BACKOFF, False
        place = str(URL(self.options.url).with_user(None).with_password(None))
        while True:
            reason = "it closed the connection"
            try:
                await self._connected(place)
            except FAILURES as error:
                reason = str(error)[:200] or type(error).__name__
            if self.ready:
                backoff, told = SHORTEST_BACKOFF, False
            self._lose()
            if not told:
                log.warning("no AMQP broker at %s: %s; trying again", place, reason)
                told = True
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, LONGEST_BACKOFF)

    async def _connected(self, place: str) -> None:
        """One life of the connections."""
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(CONNECT_SECONDS):
                consuming, publishing = await self._open(stack)
                self._consume_channel = await open_channel(consuming, confirmed=False)
                self._publishing = publishing
                await self._open_quick()
                for exchange, kind in ((self.options.topic_exchange, TOPIC), (self.options.direct_exchange, DIRECT)):
                    await self._declare(consuming, exchange, kind)
                await self._consume(self.options.reply_queue, REPLIES)
            await self._one_pass()
            self._room.set()
            self.ready = True
            log.info("connected to the AMQP broker at %s", place)
            self._changed(True)
            works: list[Awaitable[Any]] = [
                consuming.transport.connection.closing,  # type: ignore[union-attr]
                publishing.transport.connection.closing,  # type: ignore[union-attr]
                self._consume_channel.closing,
                *(asyncio.ensure_future(work) for work in (self._keep_bound(), self._flush(), self._carefully())),
            ]
            tasks = [asyncio.ensure_future(work) for work in works]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = None if task.cancelled() else task.exception()
                    if isinstance(error, asyncio.CancelledError):
                        # The library raises this for a broker that hangs. Unhandled, it would end the bridge.
                        raise TimeoutError("it gives no sign of life")
                    if error is not None:
                        raise error
            finally:
                for task in tasks[3:]:
                    task.cancel()
                await asyncio.gather(*tasks[3:], return_exceptions=True)

    async def _open(self, stack: contextlib.AsyncExitStack) -> tuple[AbstractConnection, AbstractConnection]:
        url = URL(self.options.url).update_query(heartbeat=HEARTBEAT)
        self.deliveries = Deliveries()
        opened = []
        for what in ("consuming", "publishing"):
            properties: Any = {"connection_name": f"fumarole bridge {self.options.name}, {what}"}
            transport = FrameTransport(self.deliveries) if what == "consuming" else None
            connection = BridgeConnection(url, client_properties=properties, transport_factory=transport)
            stack.push_async_callback(close_connection, connection)
            await connection.connect()
            opened.append(connection)
        return opened[0], opened[1]

    async def _declare(self, connection: AbstractConnection, exchange: str, kind: str) -> None:
        """An exchange that is there is taken as it is; one that is not is made."""
        channel = await open_channel(connection, confirmed=False)
        try:
            await channel.exchange_declare(exchange, passive=True, timeout=REPLY_SECONDS)
            await channel.close()
        except aiormq.exceptions.ChannelNotFoundEntity:
            channel = await open_channel(connection, confirmed=False)
            await channel.exchange_declare(exchange, exchange_type=kind, durable=True, timeout=REPLY_SECONDS)
            await channel.close()

    def _lose(self) -> None:
        """There is no broker just now. Nothing that was under way is tried again."""
        was_ready, self.ready = self.ready, False
        self._empty_out(AWAY)
        self._known.clear()
        for bound in self.bindings.values():
            bound.clear()
        self._consumers.clear()
        self._pass_waiters.refuse(AWAY)
        careful, self._careful, self._careful_weight = self._careful, {}, 0
        for row in careful.values():
            for waiting in row.messages:
                waiting.done(AWAY)
        if was_ready:
            self._changed(False)

    # Bindings.

    async def _keep_bound(self) -> None:
        while True:
            await self._pass_wanted.wait()
            await self._one_pass()

    async def _one_pass(self) -> None:
        self._pass_wanted.clear()
        waiting = len(self._pass_waiters)
        for kind, queue, exchange in (
            (TOPIC, self.options.topic_queue, self.options.topic_exchange),
            (DIRECT, self.options.direct_queue, self.options.direct_exchange),
        ):
            await self._bind_as_wanted(kind, queue, exchange)
        self._pass_waiters.tell(waiting)

    async def _bind_as_wanted(self, kind: str, queue: str, exchange: str) -> None:
        channel, bound, wanted = self._consume_channel, self.bindings[kind], self._wanted(kind)
        if wanted and kind not in self._consumers:
            await self._consume(queue, kind)
        missing = [key for key in wanted if key not in bound]
        for number, key in enumerate(missing, 1):
            # Waiting for each answer would take a thousand times as long as the broker needs.
            wait = number % MANY_BINDS == 0 or number == len(missing)
            await channel.queue_bind(queue, exchange, key, nowait=not wait, timeout=REPLY_SECONDS)
            bound.add(key)
        if not wanted and kind in self._consumers:
            # The queue goes with its consumer, and its bindings with it.
            await channel.basic_cancel(self._consumers.pop(kind), timeout=REPLY_SECONDS)
            bound.clear()
        for key in [key for key in bound if key not in wanted]:
            await channel.queue_unbind(queue, exchange, key, timeout=REPLY_SECONDS)
            bound.discard(key)

    async def _consume(self, queue: str, kind: str) -> None:
        """An exclusive queue of the bridge. It ends with the connection, and its messages with it."""
        channel = self._consume_channel
        deliver = self._deliver

        async def take(message: DeliveredMessage) -> None:
            headers: Any = message.header.properties.headers
            deliver(kind, message.delivery.routing_key or "", bytes(headers[RAW]), message.body)  # type: ignore[union-attr]

        await channel.queue_declare(queue, exclusive=True, auto_delete=True, timeout=REPLY_SECONDS)
        answer = await channel.basic_consume(queue, take, no_ack=True, timeout=REPLY_SECONDS)
        self._consumers[kind] = answer.consumer_tag

    # The quick way.

    async def _flush(self) -> None:
        while True:
            await self._out_wanted.wait()
            self._out_wanted.clear()
            while self._quick.write_queue.full():  # noqa: ASYNC110 - the library's queue has no event for it
                await asyncio.sleep(0)
            # The library answers a close before it calls the channel closed. To write on it in between would end the
            # whole connection, so nothing may be awaited from here to the write.
            if self._quick.is_closed or self._quick._close_exception is not None:
                await self._reopen_quick()
                continue
            batch, self._out, size = self._out, [], self._out_size
            self._writing_of, self._out_of = self._out_of, set()
            waiting = len(self._out_waiters)
            if batch:
                drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._quick.write_queue.put_nowait(ChannelFrame(b"".join(batch), False, drained))
                await drained
                self._out_size -= size
                if self._out_size <= FULL:
                    self._room.set()
                self._writing_of = set()
            self._out_waiters.tell(waiting)

    async def _open_quick(self) -> None:
        assert self._publishing is not None
        self._quick = await open_channel(self._publishing, confirmed=False)
        # The end of this channel is noticed at once, not with the next message.
        self._quick.closing.add_done_callback(self._quick_ended)

    def _quick_ended(self, closing: asyncio.Future[Any]) -> None:
        if not closing.cancelled():
            closing.exception()
        self._out_wanted.set()

    async def _reopen_quick(self) -> None:
        """An exchange was there, and is not any more. What was meant for that channel goes with it."""
        self._empty_out(GONE)
        self._known.clear()
        await self._open_quick()

    def _empty_out(self, reason: str) -> None:
        """The messages that wait to be written are lost."""
        self.lost += len(self._out)
        self._out, self._out_size = [], 0
        self._out_of, self._writing_of = set(), set()
        self._out_waiters.refuse(reason)
        self._room.set()

    # The careful way.

    async def _carefully(self) -> None:
        assert self._publishing is not None
        channel = await open_channel(self._publishing, confirmed=True)
        while True:
            await self._careful_wanted.wait()
            if not self._careful:
                self._careful_wanted.clear()
                continue
            client = next(iter(self._careful))
            row = self._careful[client]
            refusal = await self._publish_carefully(channel, row.messages[0])
            self._take(row).done(refusal)
            if channel.is_closed or channel._close_exception is not None:
                channel = await open_channel(self._publishing, confirmed=True)
            for _ in range(MOST_AT_ONCE):
                if not row.messages or self._needs_care(row.messages[0]):
                    break
                waiting = self._take(row)
                send, refusal = waiting.send, None
                if send is not None:
                    refusal = self._publish_quickly(client, self._known[send.exchange], send, waiting.property_list)
                waiting.done(refusal)
            # It is the next one's turn.
            del self._careful[client]
            if row.messages:
                self._careful[client] = row

    def _take(self, row: Row) -> Waiting:
        waiting = row.messages.popleft()
        row.weight -= waiting.weight
        self._careful_weight -= waiting.weight
        return waiting

    def _needs_care(self, waiting: Waiting) -> bool:
        return waiting.send is not None and (bool(waiting.message_id) or waiting.send.exchange not in self._known)

    async def _publish_carefully(self, channel: Any, waiting: Waiting) -> str | None:
        send = waiting.send
        if send is None:
            return None
        try:
            await channel.basic_publish(
                send.payload,
                exchange=send.exchange,
                routing_key=send.key,
                properties=ReadyProperties(waiting.property_list, waiting.message_id),
                mandatory=bool(waiting.message_id),
                timeout=REPLY_SECONDS,
            )
        except aiormq.exceptions.PublishError:
            return NO_RECEIVER
        except aiormq.exceptions.ChannelNotFoundEntity:
            return f"there is no exchange {send.exchange[:80]!r}"
        except TimeoutError:
            # A broker that is short of memory or disk reads nothing from publishers; consumers are not affected.
            return BEHIND
        except (aiormq.exceptions.AMQPChannelError, aiormq.exceptions.DeliveryError) as error:
            return f"the broker refused it: {str(error)[:200]}"
        if len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[send.exchange] = send.exchange.encode()
        return None


REPLIES: Final = "replies"
NO_RECEIVER: Final = "no receiver: no queue is bound for that exchange and key"
GONE: Final = "messages were lost: an exchange that was published to is not there any more"


def with_reply(send: Send, reply_to: str, correlation: str, message_id: str) -> bytes:
    """The property list of a call."""
    properties = {**send.properties, "reply_to": reply_to, "correlation_id": correlation, "message_id": message_id}
    return encode_properties(properties, send.headers)
