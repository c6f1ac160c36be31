"""The connection to a broker: one connection at a time, replaced when it breaks, with the subscriptions carried over.

connected ──lost──▶ reconnecting: each server in turn, then a pause, longer each time ──▶ connected
    │     sent away      │
    └──────stop──────────┴──▶ ended: for good
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from fumarole.client.backoff import delays
from fumarole.client.connection import Connection, Deliver, Identity, failure_text, open_connection
from fumarole.client.errors import (
    AuthorizationError,
    ClientError,
    ClosedError,
    DisconnectedError,
    NoServerError,
    RequestTimeoutError,
)
from fumarole.client.sender import Sender
from fumarole.client.servers import Server, Servers
from fumarole.core.limits import MIB
from fumarole.protocols import nats

log = logging.getLogger("fumarole.client")

CLOSED = "the client is closed; connect again"
SENT_AWAY = "it is about to stop, and sent its clients away"
AT_ONCE = 500
"""Subscriptions in flight. A node of a cluster that has to keep very many answers for one client disconnects it."""


class Disconnected(NamedTuple):
    """The connection was lost; the client reconnects."""

    server: str
    reason: str

    def __str__(self) -> str:
        return f"lost the connection to {self.server} ({self.reason}), reconnecting"


class Reconnected(NamedTuple):
    """The client is connected again, with every subscription."""

    server: str

    def __str__(self) -> str:
        return f"connected again, to {self.server}"


class Refused(NamedTuple):
    """The server refused a publication, or a subscription after a reconnect."""

    text: str

    def __str__(self) -> str:
        return f"the server refused: {self.text}"


Notice = Disconnected | Reconnected | Refused


def log_notice(notice: Notice) -> None:
    """The default for notices: log them."""
    log.log(logging.INFO if isinstance(notice, Reconnected) else logging.WARNING, "%s", notice)


@dataclass(frozen=True, slots=True)
class ReconnectOptions:
    """Options of the connection. Times are seconds, sizes bytes."""

    identity: Identity = field(default_factory=Identity)
    timeout: float = 2.0
    """For one server to answer and accept the client."""
    reconnect: bool = True
    pending: int = 8 * MIB
    """Bytes of publications that are kept while disconnected."""
    ping_interval: float = 20.0
    """Silence after which the server gets a PING; after two unanswered ones the client leaves it."""
    on_notice: Callable[[Notice], None] = log_notice


class Subscriber(Protocol):
    """The part of a subscription that is needed to make it again on another connection."""

    sid: bytes
    pattern: bytes
    group: bytes

    def remaining(self) -> int:
        """The number of messages still to come; 0: no limit."""

    @property
    def deliver(self) -> Deliver: ...

    def end(self, error: ClientError | None) -> None:
        """Ends the subscription: by request, or because of this error."""


class Capturing(Subscriber, Protocol):
    """A subscription that takes its messages out of the bytes before the protocol parses them."""

    def begin(self, connection: Connection) -> None: ...


class Follower(Protocol):
    """A part that is called when the connection is lost, and when there is one again."""

    def lost(self) -> None: ...

    def returned(self) -> None: ...

    def end(self, error: ClientError | None) -> None:
        """Called when there will be no connection any more."""


class ReconnectingConnection:
    """The connection of a client, and the subscriptions that it makes again after a reconnect."""

    def __init__(self, servers: list[Server], options: ReconnectOptions) -> None:
        self.options = options
        self.sender = Sender(options.pending)
        self.refusals: list[str] = []
        """The first few publications that were refused since the last flush."""
        self.connection: Connection | None = None
        self.max_payload = MIB
        self.losses = 0
        """Lost connections. The server may not have received what was sent before the last loss."""
        self.followers: set[Follower] = set()
        self.capture: Capturing | None = None
        self._servers = Servers(servers)
        self._last: Server | None = None
        """The server that accepted the client last."""
        self._subscribers: dict[bytes, Subscriber] = {}
        self._last_sid = 0
        self._ended = ""
        self._connected = asyncio.Event()
        self._subscribing = asyncio.Semaphore(AT_ONCE)
        self._reconnecting: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self.connection is not None

    async def start(self) -> None:
        """The first connection: each server is tried once. Raises NoServerError or AuthorizationError."""
        self._begin(await self._any_server())

    async def stop(self, seconds: float) -> None:
        """Ends the connection. Written bytes have this long to leave."""
        connection, self.connection = self.connection, None
        # A caller that comes while the socket closes finds the end already.
        self._end(CLOSED, None)
        if connection is not None:
            await connection.close(seconds)
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.wait([self._reconnecting])

    async def wait_connected(self) -> Connection:
        """The connection, as soon as there is one. Raises ClosedError if there will be none."""
        while self.connection is None:
            if self._ended:
                raise ClosedError(self._ended)
            await self._connected.wait()
        return self.connection

    async def confirm(self) -> None:
        """Returns when the server has handled everything that was sent. Raises DisconnectedError or ClosedError."""
        connection = await self.wait_connected()
        await connection.ask(self.sender.take())

    def subscribers(self) -> list[Subscriber]:
        """All subscriptions at this moment."""
        return list(self._subscribers.values())

    def new_sid(self) -> bytes:
        """A new sid, unique within this client."""
        self._last_sid += 1
        return b"%d" % self._last_sid

    async def subscribe(self, *subscribers: Subscriber) -> None:
        """Returns when the server has confirmed them (D5). Raises RefusedError, DisconnectedError or ClosedError."""
        async with self._subscribing:
            connection = await self.wait_connected()
            if self.capture is not None and self.capture in subscribers:
                self.capture.begin(connection)
            self._subscribers |= {subscriber.sid: subscriber for subscriber in subscribers}
            frames = [frame for subscriber in subscribers for frame in self._frames(connection, subscriber)]
            try:
                await connection.ask(self.sender.take(), *frames)
            except BaseException:
                for subscriber in subscribers:
                    self.unsubscribe(subscriber)
                raise

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Removes a subscription."""
        if self._subscribers.pop(subscriber.sid, None) is not None and self.connection is not None:
            self.connection.write(nats.unsubscribe(subscriber.sid))

    async def drain(self, subscriber: Subscriber) -> None:
        """Unsubscribes, and returns when all messages that the server sent before have arrived."""
        connection = self.connection
        try:
            if connection is not None and subscriber.sid in self._subscribers:
                with contextlib.suppress(DisconnectedError):
                    await connection.ask(self.sender.take(), nats.unsubscribe(subscriber.sid))
        finally:
            self.forget(subscriber)

    def forget(self, subscriber: Subscriber) -> None:
        """The subscription has reached its limit, at the server too."""
        self._subscribers.pop(subscriber.sid, None)

    async def repeat(self, ask: Callable[[], Awaitable[None]], end: Callable[[ClientError], None]) -> None:
        """Repeats a request after a reconnect, until it is answered; a refusal goes to `end`.

        When the connection is lost again meanwhile, it returns: the next reconnect calls it again.
        """
        while True:
            try:
                await ask()
            except (ConnectionError, RequestTimeoutError):
                if not self.connected:
                    return
            except ClientError as error:
                end(error)
                return
            else:
                return

    # Loss of the connection, and reconnect.

    async def _any_server(self) -> Connection:
        failures: dict[str, str] = {}
        refusals: list[AuthorizationError] = []
        for server in self._servers.in_turn(self._last):
            try:
                connection = await open_connection(
                    server,
                    self.options.identity,
                    self.options.timeout,
                    self._subscribers,
                    self._refused,
                    self.sender.writable,
                    self._informed,
                    self._lost,
                )
            except AuthorizationError as error:
                refusals.append(error)
                failures[str(server)] = "it refused the credentials"
            except TimeoutError as error:
                failures[str(server)] = f"{failure_text(error)} within {self.options.timeout:g} s"
            except (OSError, ValueError, ClientError) as error:  # ValueError: an invalid host name
                failures[str(server)] = failure_text(error)
            else:
                self._last = server
                connection.keep_alive(self.options.ping_interval)
                return connection
        if len(refusals) == len(failures):
            raise refusals[0]
        raise NoServerError(failures)

    def _begin(self, connection: Connection) -> None:
        """Takes a connection into use."""
        self.connection = connection
        self.max_payload = int(connection.info.get("max_payload", MIB))
        self._servers.learn(connection.server, connection.info.get("connect_urls"))
        self.sender.begin(connection)
        self._connected.set()

    def _subscribe_again(self, connection: Connection, several: list[Subscriber]) -> list[asyncio.Future[None]]:
        answers = connection.ask_each([b"".join(self._frames(connection, subscriber)) for subscriber in several])
        for subscriber, answer in zip(several, answers, strict=True):
            answer.add_done_callback(partial(self._subscribed_again, subscriber))
        return answers

    def _frames(self, connection: Connection, subscriber: Subscriber) -> list[bytes]:
        """A capture also says that it is one: its connection gets a larger outbox."""
        frames = [nats.subscribe(subscriber.pattern, subscriber.sid, subscriber.group)]
        if subscriber is self.capture:
            greeting = self.options.identity.greeting(connection.server)
            frames.insert(0, nats.connect({**greeting, "capture": True}))
        if remaining := subscriber.remaining():
            frames.append(nats.unsubscribe(subscriber.sid, remaining))
        return frames

    def _subscribed_again(self, subscriber: Subscriber, answer: asyncio.Future[None]) -> None:
        error = None if answer.cancelled() else answer.exception()
        if isinstance(error, ClientError) and not isinstance(error, ConnectionError):
            self._subscribers.pop(subscriber.sid, None)
            subscriber.end(error)
            self.options.on_notice(Refused(str(error)))

    def _informed(self, connection: Connection) -> None:
        """The server has sent the addresses of other nodes, and perhaps asks its clients to go there now."""
        if connection is self.connection:
            self._servers.learn(connection.server, connection.info.get("connect_urls"))
            if connection.info.get("ldm") and self.options.reconnect and len(self._servers) > 1:
                connection.reason = SENT_AWAY
                self._go_on_without(connection)

    def _lost(self, connection: Connection) -> None:
        if connection is self.connection:
            self._go_on_without(connection)

    def _go_on_without(self, connection: Connection) -> None:
        self.connection = None
        self.losses += 1
        self._connected.clear()
        self.sender.pause()
        if self.options.reconnect:
            self._reconnecting = asyncio.create_task(self._reconnect(connection))
            self.options.on_notice(Disconnected(str(connection.server), connection.reason))
        else:
            reason = f"the connection to {connection.server} was lost ({connection.reason}); connect again"
            self._end(reason, ClosedError(reason))

    async def _reconnect(self, last: Connection) -> None:
        await self._hear_out(last)
        for follower in tuple(self.followers):
            follower.lost()
        for delay in delays(random.random):
            await asyncio.sleep(delay)
            with contextlib.suppress(NoServerError, AuthorizationError, DisconnectedError):
                connection = await self._any_server()
                await self._begin_again(connection)
                return

    async def _hear_out(self, connection: Connection) -> None:
        """Leaves a server that sends its clients away, once the messages in both directions have arrived."""
        if not connection.closed:
            try:
                with contextlib.suppress(ClientError):
                    await connection.ask()
            finally:
                await connection.close(self.options.timeout)

    async def _begin_again(self, connection: Connection) -> None:
        """Makes the subscriptions again, and then takes the connection into use. Raises DisconnectedError."""
        if self.capture is not None:
            self.capture.begin(connection)
        subscribers = self.subscribers()
        answers: list[asyncio.Future[None]] = []
        try:
            for first in range(0, len(subscribers), AT_ONCE):
                if answers:
                    await asyncio.wait(answers)
                if connection.closed:
                    raise DisconnectedError(str(connection.server), connection.reason)
                answers = self._subscribe_again(connection, subscribers[first : first + AT_ONCE])
        except BaseException:
            connection.abort("it was given up")
            raise
        for subscriber in subscribers:
            if subscriber.sid not in self._subscribers:  # it was closed meanwhile
                connection.write(nats.unsubscribe(subscriber.sid))
        self._reconnecting = None
        self._begin(connection)
        if answers:
            await asyncio.wait(answers)
        if self.connection is connection:
            for follower in tuple(self.followers):
                follower.returned()
            self.options.on_notice(Reconnected(str(connection.server)))

    def _refused(self, text: str) -> None:
        if len(self.refusals) < KEPT_REFUSALS:
            self.refusals.append(text)
        self.options.on_notice(Refused(text))

    def _end(self, reason: str, error: ClientError | None) -> None:
        self._ended = self._ended or reason
        self.sender.end(reason)
        subscribers = self.subscribers()
        self._subscribers.clear()
        for subscriber in subscribers:
            subscriber.end(error)
        for follower in tuple(self.followers):
            follower.end(error)
        self._connected.set()


KEPT_REFUSALS = 16
