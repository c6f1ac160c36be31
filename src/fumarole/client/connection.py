"""One connection to one server: a pump around the pure `ClientProtocol`, from the greeting to the end.

Messages go straight to those who asked for them, in the callback in which they arrived. A PING is answered here; a PONG
answers the oldest question that is open, so a question is how anything sent before it is confirmed.
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
"""What the transport may hold for the socket before it asks writers to pause."""
UNANSWERED_PINGS = 2
TOO_MUCH = "it said more than a greeting before it was answered"
LIMITS = Limits(control_line=1 * MIB)
"""A server's INFO may be long, and its control line may be set above our own default."""
# What servers say about a SUB and about a PUB. Whatever else they say is about the connection, and ends it.
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
    """What a client says about itself to every server; a server's own credentials go before these."""

    name: str = ""
    user: str | None = None
    password: str | None = None
    token: str | None = None
    echo: bool = True
    tls: ssl.SSLContext | None = None

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
        """The socket takes nothing more for now."""
        self.closed = False
        self.reason = ""
        """Why it was closed, as far as known."""
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

    # What asyncio calls.

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
        # Who waits for an answer that came with them goes on only after this.
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
                answer.exception()  # the waiter may have gone, which is no fault
        self._questions.clear()
        self._gone.set_result(None)
        self._lost(self)

    # What its owner calls.

    def write(self, data: bytes) -> None:
        """Hands bytes to the socket. From here on they are sent at most once."""
        if not self.closed:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """What the server sends waits in the socket, and then with the server."""
        if self._reading and not self.closed:
            self._reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading and not self.closed:
            self._reading = True
            self._transport.resume_reading()

    def hand_back(self, rest: bytes) -> None:
        """Puts the protocol back in the place of a sieve; `rest` is what the sieve had begun to read."""
        self.protocol.receive_data(rest)
        self.receive = self._receive
        self.resume_reading()

    def ask(self, *before: bytes) -> asyncio.Future[None]:
        """Sends frames and a PING. The answer means that the server has done all that; it may be a RefusedError."""
        (answer,) = self.ask_each([b"".join(before)])
        return answer

    def ask_each(self, several: list[bytes]) -> list[asyncio.Future[None]]:
        """The same with a PING behind each of several, all in one write."""
        questions = [_Question(self._loop.create_future()) for _ in several]
        self._questions += questions
        self.write(b"".join([frames + nats.PING for frames in several]))
        return [question.answer for question in questions]

    def keep_alive(self, interval: float) -> None:
        """From now on a server that is silent for this long is asked for a sign of life, and left if it gives none."""
        self._heartbeat = self._loop.call_later(interval, self._beat, interval)

    def abort(self, reason: str) -> None:
        """Ends the connection at once."""
        self.reason = self.reason or reason
        self._transport.abort()

    async def close(self, seconds: float) -> None:
        """Ends the connection when what was written has left, or when the time is up."""
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

    # The rest of what a server says.

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
            # The server is to know that this client is alive. While nothing is read here, its own silence is no fault.
            self._unanswered += self._reading
            self.ask()
        self.keep_alive(interval)

    # The beginning.

    def _receive_greeting(self, data: bytes) -> list[nats.Event]:
        """INFO, or an error. No server says more before it is answered; an attacker on the way might, in front of TLS.

        Some ask a client that takes a second or two for a sign of life. CONNECT is one.
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
        """INFO, perhaps TLS, CONNECT, and a PING whose answer says that the client is in."""
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
            # A client that asked for TLS must never be served without.
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
    """A connection on which the client was let in. Raises OSError, TimeoutError or ClientError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
        _, connection = await loop.create_connection(
            lambda: Connection(server, hearers, refused, writable, informed, lost), server.host, server.port
        )
        try:
            await connection.greet(identity)
            if connection.closed:  # in the same moment in which it let us in
                raise DisconnectedError(str(server), connection.reason)
        except BaseException:
            connection.abort("it was given up")
            raise
    return connection


def failure_text(error: BaseException) -> str:
    """Why a server could not be reached, in a few words."""
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
