"""One connection to one server: a pump around the pure `ClientProtocol`, from the greeting to the end.

Messages go straight to their subscriptions, in the callback in which they arrived. A PING is answered here. A PONG
answers the oldest open PING of this client, so a PING confirms everything that was sent before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from fumarole import __version__
from fumarole.client.errors import AuthorizationError, ClientError, DisconnectedError, RefusedError
from fumarole.client.servers import Server
from fumarole.core.limits import KIB, MIB, Limits
from fumarole.protocols import nats

WRITE_BUFFER = 256 * KIB
"""Bytes that the transport may hold before it pauses writers."""
UNANSWERED_PINGS = 2
TOO_MUCH = "it said more than a greeting before it was answered"
LIMITS = Limits(control_line=1 * MIB)
"""A server's INFO may be long, and its control line may be set above our own default."""
# Errors of servers about a SUB and about a PUB. Every other error is about the connection, and ends it.
_OF_SUBSCRIBE = re.compile(
    r"Invalid Subject|Permissions Violation for Subscription|maximum subscriptions exceeded", re.IGNORECASE
)
_OF_PUBLISH = re.compile(r"Invalid Publish Subject|Invalid Reading|Permissions Violation for Publish", re.IGNORECASE)
_OF_LOGIN = re.compile(r"Authorization Violation|Authentication|User Authentication", re.IGNORECASE)


class Hearer(Protocol):
    """The receiver of the messages of one subscription."""

    @property
    def deliver(self) -> Deliver: ...


Deliver = Callable[[list[nats.Message]], None]


class _Arrived(dict[bytes, list[nats.Message]]):
    """Messages by subscription. Hearers that deliver to the same place share a list, so their messages keep order."""

    def __init__(self, hearers: Mapping[bytes, Hearer]) -> None:
        super().__init__()
        self.by_place: dict[Deliver, list[nats.Message]] = {}
        self._hearers = hearers

    def __missing__(self, sid: bytes) -> list[nats.Message]:
        hearer = self._hearers.get(sid)
        messages = self[sid] = [] if hearer is None else self.by_place.setdefault(hearer.deliver, [])
        return messages


@dataclass(frozen=True, slots=True)
class Identity:
    """The options and credentials of a client for every server; credentials in a server's address go before these."""

    name: str = ""
    user: str | None = None
    password: str | None = None
    token: str | None = None
    echo: bool = True
    tls: ssl.SSLContext | None = None
    presence: bool = True

    def greeting(self, server: Server) -> dict[str, Any]:
        """The options of CONNECT."""
        own = server.user is not None or server.token is not None
        login = server if own else self
        options = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "echo": self.echo,
            "presence": None if self.presence else False,
            "lang": "python",
            "version": __version__,
            "protocol": 1,
            "name": self.name or None,
            "user": login.user,
            "pass": login.password,
            "auth_token": login.token,
        }
        return {key: value for key, value in options.items() if value is not None}


@dataclass(slots=True)
class _Question:
    """A PING on its way. Where it follows a SUB, a refusal that comes before its answer is that SUB's."""

    answer: asyncio.Future[None]
    refusal: str = ""


class Connection(asyncio.Protocol):
    """Bytes between one socket and one protocol."""

    def __init__(
        self,
        server: Server,
        hearers: Mapping[bytes, Hearer],
        refused: Callable[[str], None],
        writable: Callable[[], None],
        informed: Callable[[Connection], None],
        lost: Callable[[Connection], None],
    ) -> None:
        self.server = server
        self.info: dict[str, Any] = {}
        self.paused = False
        """True while the socket takes no more bytes."""
        self.closed = False
        self.reason = ""
        """The reason for which it was closed, if known."""
        self._hearers = hearers
        self._refused = refused
        self._writable = writable
        self._informed = informed
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self.protocol = nats.ClientProtocol(LIMITS)
        self.receive: Callable[[bytes], list[nats.Event]] = self._receive_greeting
        """The parser of incoming bytes. A sieve that takes messages out of them first is put in its place."""
        self._reading = True
        self._transport = cast(asyncio.Transport, None)
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._questions: deque[_Question] = deque()
        self._heard = False
        self._unanswered = 0
        self._heartbeat: asyncio.TimerHandle | None = None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        arrived = _Arrived(self._hearers)
        for event in self.receive(data):
            if type(event) is nats.Message:
                arrived[event[1]].append(event)
            else:
                self._control(event)
        # Tasks that wait for an answer in these bytes continue only after this.
        for deliver, messages in arrived.by_place.items():
            deliver(messages)
        if self.protocol.close_expected():
            self.abort("it does not speak the NATS protocol")

    def _receive(self, data: bytes) -> list[nats.Event]:
        self.protocol.receive_data(data)
        return self.protocol.events_received()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._writable()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed:
            return
        self.closed = True
        self.reason = self.reason or (failure_text(exc) if exc else "it closed the connection")
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        error = DisconnectedError(str(self.server), self.reason)
        for answer in (self._greeted, *(question.answer for question in self._questions)):
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # the waiter may have been cancelled
        self._questions.clear()
        self._gone.set_result(None)
        self._lost(self)

    # Called by the owner.

    def write(self, data: bytes) -> None:
        """Hands bytes to the socket. They are sent at most once."""
        if not self.closed:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Stops reading. Bytes from the server wait in the socket, and then at the server."""
        if self._reading and not self.closed:
            self._reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading and not self.closed:
            self._reading = True
            self._transport.resume_reading()

    def hand_back(self, rest: bytes) -> None:
        """Replaces a sieve by the protocol; `rest` is the bytes that the sieve had begun to read."""
        self.protocol.receive_data(rest)
        self.receive = self._receive
        self.resume_reading()

    def ask(self, *before: bytes) -> asyncio.Future[None]:
        """Sends frames and a PING. Its answer means that the server has handled them; it may be a RefusedError."""
        (answer,) = self.ask_each([b"".join(before)])
        return answer

    def ask_each(self, several: list[bytes]) -> list[asyncio.Future[None]]:
        """The same for several frames, with a PING behind each, all in one write."""
        questions = [_Question(self._loop.create_future()) for _ in several]
        self._questions += questions
        self.write(b"".join([frames + nats.PING for frames in several]))
        return [question.answer for question in questions]

    def keep_alive(self, interval: float) -> None:
        """From now on a server that is silent for this long gets a PING, and is left if it does not answer."""
        self._heartbeat = self._loop.call_later(interval, self._beat, interval)

    def abort(self, reason: str) -> None:
        """Ends the connection at once."""
        self.reason = self.reason or reason
        self._transport.abort()

    async def close(self, seconds: float) -> None:
        """Ends the connection when the written bytes have left, or when the time is up."""
        if not self.closed:
            self.reason = "it was closed here"
            self._transport.close()
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await asyncio.shield(self._gone)
            finally:
                self._transport.abort()
            await self._gone

    # Other operations of the server.

    def _control(self, event: nats.Event) -> None:
        match event:
            case nats.Ping():
                self.write(nats.PONG)
            case nats.Pong():
                self._answer()
            case nats.Info():
                self.info = event.options
                self._informed(self)
            case nats.Refusal():
                self._refusal(event.text)
            case _:
                pass

    def _answer(self) -> None:
        self._unanswered = 0
        if self._questions:
            question = self._questions.popleft()
            if question.answer.done():
                pass
            elif question.refusal:
                question.answer.set_exception(RefusedError(question.refusal))
            else:
                question.answer.set_result(None)

    def _refusal(self, text: str) -> None:
        if self._questions and _OF_SUBSCRIBE.match(text):
            self._questions[0].refusal = text
        elif _OF_SUBSCRIBE.match(text) or _OF_PUBLISH.match(text):
            self._refused(text)
        else:
            self.reason = text

    def _beat(self, interval: float) -> None:
        if self._heard:
            self._heard, self._unanswered = False, 0
        elif self._unanswered >= UNANSWERED_PINGS:
            self.abort("it gives no sign of life")
            return
        else:
            # The PING shows the server that this client is alive. While nothing is read here, silence does not count.
            self._unanswered += self._reading
            self.ask()
        self.keep_alive(interval)

    # The beginning.

    def _receive_greeting(self, data: bytes) -> list[nats.Event]:
        """INFO, or an error. No server sends more before CONNECT; an attacker on the way might, before TLS.

        Some servers send a PING to a client that takes a second or two. CONNECT answers it.
        """
        events = self._receive(data)
        for event in events:
            match event:
                case nats.Info():
                    self.info = event.options
                case nats.Refusal():
                    self.abort(event.text)
                case nats.Ping():
                    pass
                case _:
                    self.abort(TOO_MUCH)
        if self.protocol.wanted() and (events or self._greeted.done()):
            self.abort(TOO_MUCH)
        if events and not self.reason and not self._greeted.done():
            self._greeted.set_result(None)
        return []

    async def greet(self, identity: Identity) -> None:
        """INFO, perhaps TLS, CONNECT, and a PING whose answer means that the server accepts the client."""
        await self._greeted
        if self.server.tls or identity.tls is not None or self.info.get("tls_required"):
            await self._begin_tls(identity.tls)
        self.receive = self._receive
        try:
            await self.ask(nats.connect(identity.greeting(self.server)))
        except DisconnectedError:
            if _OF_LOGIN.match(self.reason):
                raise AuthorizationError(str(self.server), self.reason) from None
            raise

    async def _begin_tls(self, context: ssl.SSLContext | None) -> None:
        if not (self.info.get("tls_required") or self.info.get("tls_available")):
            # A client with TLS never goes on without it.
            raise ClientError(f"{self.server} does not offer TLS, which this client was told to use")
        context = context or ssl.create_default_context()
        name = self.server.certified or self.server.host
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=name)
        if transport is None:
            raise ConnectionResetError
        self.connection_made(transport)


async def open_connection(
    server: Server,
    identity: Identity,
    seconds: float,
    hearers: Mapping[bytes, Hearer],
    refused: Callable[[str], None],
    writable: Callable[[], None],
    informed: Callable[[Connection], None],
    lost: Callable[[Connection], None],
) -> Connection:
    """A connection on which the server has accepted the client. Raises OSError, TimeoutError or ClientError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
        _, connection = await loop.create_connection(
            lambda: Connection(server, hearers, refused, writable, informed, lost), server.host, server.port
        )
        try:
            await connection.greet(identity)
            if connection.closed:  # lost at the moment in which the server accepted the client
                raise DisconnectedError(str(server), connection.reason)
        except BaseException:
            connection.abort("it was given up")
            raise
    return connection


def failure_text(error: BaseException) -> str:
    """The reason for which a server could not be reached, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, TimeoutError) and error.errno is None:
        return "no answer"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, DisconnectedError):
        return error.reason
    if isinstance(error, OSError):
        # asyncio puts several addresses of one host, each with its own error, into one text.
        number = error.errno or next((int(code) for code in re.findall(r"\[Errno (\d+)\]", str(error))), None)
        return os.strerror(number).lower() if number else str(error) or type(error).__name__
    return str(error)
