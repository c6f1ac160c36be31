"""The base of every door on a byte stream: a listener, its connections, their timeouts, and their users."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import inf
from time import monotonic
from typing import Any

from fumarole.doors.closing import Closing
from fumarole.doors.ending import EndInTurns
from fumarole.doors.flushing import FlushTogether, flush
from fumarole.doors.log_limiter import LogLimiter
from fumarole.doors.logins import Logins, TooLateError, TooManyLoginsError
from fumarole.doors.placement import Placement
from fumarole.doors.pump import Policies, Pump
from fumarole.doors.read_size import ReadSize, adaptive
from fumarole.doors.release import release
from fumarole.doors.slow_consumers import SlowConsumers
from fumarole.doors.standstill import StandstillCheck
from fumarole.doors.turn_limit import TurnLimit
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.sessions.reader import Reader
from fumarole.sessions.stream import UNANSWERED_PINGS, RemoteAddress, StreamSession

warn = LogLimiter(logging.getLogger(__name__))

TICK = 0.5
"""Seconds between two looks at the clock."""
MOMENT = 0.0001
"""Seconds of each turn of the loop for telling connections the time."""
BACKLOG = 4096
LONGEST_KEEPALIVE = 32_767
"""Seconds: what Linux takes."""
READ_SIZE = adaptive(128 * 1024, 4 * 1024)
SMALL_READ_SIZE = adaptive(64 * 1024, 4 * 1024)
ROOM_FOR_READS = 4
"""Times the largest read that the smallest outbox must have room for. Else a consumer that keeps up would lose a part
of what one batch brings, because outboxes are flushed after it."""
WRITE_CHUNK = 128 * 1024
REST_CHUNK = 64 * 1024

TURN_LIMIT = "turn limit"
TOO_MANY = "maximum connections exceeded"
TOO_MANY_LOGINS = "Authentication Timeout: too many logins wait, try again later"

MakeReader = Callable[[Any], Reader]


def keep_alive(listening: Any, idle: float) -> None:
    """Connections that are accepted here end when their peer has lost its power or its network.

    Not every protocol can ask for a sign of life, so the kernel does: after so many seconds of silence, and as long
    after each probe. The peer's kernel answers, so a live client may be silent for ever. Connections inherit this.
    """
    seconds = min(max(1, round(idle)), LONGEST_KEEPALIVE)
    wanted = {
        "TCP_KEEPIDLE": seconds,
        "TCP_KEEPALIVE": seconds,  # the same on macOS
        "TCP_KEEPINTVL": seconds,
        "TCP_KEEPCNT": UNANSWERED_PINGS,
    }
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in wanted.items():
        if hasattr(socket, name):  # no system has all of them
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def client_policies(node: Node) -> Policies:
    """The policies for connections of clients."""
    return Policies(
        ready=node.ready,
        before_batch=StandstillCheck(node).before_batch,
        flushing=FlushTogether(node.ready, node.late, _smallest_outbox(node) // ROOM_FOR_READS),
        batch_done=node.batch_done,
        read_size=_read_size(node),
        write_chunk=WRITE_CHUNK,
        rest_chunk=REST_CHUNK,
        closing=lambda _: Closing(),
        ending=EndInTurns(),
        turn_limit=_turn_limit(node),
        cut=SlowConsumers(node).cut,
        release=release,
    )


def _turn_limit(node: Node) -> TurnLimit:
    """One for all doors of a node, as they share the loop."""
    limit = node.shared.setdefault(TURN_LIMIT, TurnLimit())
    assert isinstance(limit, TurnLimit)
    return limit


def _read_size(node: Node) -> ReadSize:
    return READ_SIZE if _smallest_outbox(node) >= ROOM_FOR_READS * len(READ_SIZE.space) else SMALL_READ_SIZE


def _smallest_outbox(node: Node) -> int:
    return min(exchange.outbox_limit for exchange in node.namespaces)


class StreamDoor(ABC):
    """A listener for the clients of one protocol."""

    scheme: str
    greets = False
    """The server speaks first, in plain text, and TLS begins after that; otherwise it begins with the connection."""

    def __init__(
        self,
        node: Node,
        make_reader: MakeReader | None = None,
        tls: ssl.SSLContext | None = None,
        logins: Logins | None = None,
    ) -> None:
        self._node = node
        self._make_reader = make_reader
        self._tls = tls
        self._logins = logins
        self._policies = client_policies(node)
        self._pumps: set[Pump] = set()
        self._adopted: set[Pump] = set()
        """Connections that another process has just given to this one."""
        self._empty = asyncio.Event()
        self._empty.set()
        self._addresses: Counter[str] = Counter()
        self._pump_address: dict[Pump, str] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock: asyncio.Task[None] | None = None
        self.address = ("", 0)
        self._placement: Placement | None = None
        """The sockets by which other processes share this door."""
        self._place = 0
        """The number of this door there."""

    def sessions(self) -> Iterator[tuple[StreamSession, str]]:
        """The sessions of the connections that are open now, each with the address of its client. It may take its time:
        those that have ended meanwhile are left out."""
        for pump in list(self._pumps):
            address = self._pump_address.get(pump)
            if address is not None and isinstance(pump.session, StreamSession):
                yield pump.session, address

    async def open(self, host: str, port: int, placement: Placement | None = None) -> None:
        """Listens, with `placement` as others on this machine may. Raises OSError where the address cannot be had."""
        loop = asyncio.get_running_loop()
        tls = None if self.greets else self._tls
        timeout = None if tls is None else self._node.limits.tls_handshake
        if placement is not None and tls is None:  # once TLS has begun, a connection is not handed over any more
            self._placement = placement
            self._place = placement.add_door(lambda made: self._start(self._adopt(made)))
        self._server = await loop.create_server(
            lambda: Pump(self, self._policies),
            host,
            port,
            backlog=BACKLOG,
            reuse_port=placement is not None,
            ssl=tls,
            ssl_handshake_timeout=timeout,
            start_serving=False,
        )
        for listening in self._server.sockets:
            keep_alive(listening, self._node.limits.idle)
        await self._server.start_serving()
        name = self._server.sockets[0].getsockname()
        self.address = (name[0], name[1])
        self._clock = asyncio.create_task(self._tick())

    def cut_off(self) -> None:
        """Ends every connection at once: what its client said may be too old, and so may be what waits for it."""
        for pump in list(self._pumps):
            pump.session.close()
            pump.session.outbox.clear()
            pump.abort()

    def close_entrance(self) -> None:
        """No new connections. Those that are there go on."""
        if self._server is not None:
            self._server.close()

    def send_away(self, most: int) -> None:
        """Ends so many connections; what is in their outboxes leaves first."""
        for pump in [pump for pump in self._pumps if not pump.session.close_expected()][:most]:
            self._send_away(pump.session)
            self._node.ready.append(pump)
        flush(self._node.ready)

    def _send_away(self, session: Any) -> None:
        """Ends the session of a client that is to go elsewhere."""
        session.close()

    async def renew(self, tls: ssl.SSLContext | None, logins: Logins | None, users: Mapping[str, User]) -> None:
        """The configuration was loaded again (A7). `users`: by name, those whose connections go on, under these rules.

        Certificates are those of new connections.
        """
        self._logins = logins
        await self._renew_tls(tls)
        for pump in list(self._pumps):
            session = pump.session
            assert isinstance(session, StreamSession)
            user = None if session.user is None else users.get(session.user.name)
            if user is not None:
                session.renew(user)
            elif session.user is not None or (self._node.authentication and session.exchange is not None):
                session.fail(session.NOT_ADMITTED)
            session.regulate()
            pump.renewed()
        flush(self._node.ready)

    async def _renew_tls(self, tls: ssl.SSLContext | None) -> None:
        if (tls is None) != (self._tls is None):
            return  # that waits for a restart
        self._tls = tls
        old = self._server
        if old is None or tls is None or self.greets:
            return
        # asyncio keeps the context that a server was opened with. So the same sockets get a new server.
        for listening in old.sockets:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: Pump(self, self._policies),
                sock=socket.socket(fileno=os.dup(listening.fileno())),
                backlog=BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=self._node.limits.tls_handshake,
            )
        old.close()

    async def drain(self, seconds: float) -> None:
        """No new connections; what is in the outboxes leaves; then every connection is closed."""
        if self._server is not None:
            self._server.close()
        deadline = asyncio.get_running_loop().time() + seconds
        for pump in list(self._pumps):
            self._send_away(pump.session)
            pump.closing.by = deadline
        flush(self._node.ready)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)
        for pump in list(self._pumps):
            pump.abort()
        await asyncio.sleep(0)
        if self._clock is not None:
            self._clock.cancel()
        for task in self._tasks:
            task.cancel()

    @abstractmethod
    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> StreamSession:
        """A session for a new connection."""

    @abstractmethod
    def refusal(self, text: str) -> bytes:
        """The error for a connection that gets no session."""

    # What pumps ask.

    def connected(self, pump: Pump, transport: asyncio.Transport) -> None:
        if self._placement is not None and pump not in self._adopted:
            descriptor = transport.get_extra_info("socket").fileno()
            if self._placement.hand_over(self._place, descriptor):
                transport.abort()  # this process's hold on it, not the connection
                return
        peer_name = transport.get_extra_info("peername") or ("", 0)
        address = str(peer_name[0])
        limits = self._node.limits
        if self._node.connections >= limits.connections or self._addresses[address] >= limits.connections_per_address:
            self._node.refused_connections += 1
            warn("connection from %s refused: %s", address, TOO_MANY)
            transport.write(self.refusal(TOO_MANY))
            transport.close()
            return
        self._count(1)
        self._addresses[address] += 1
        self._pumps.add(pump)
        self._empty.clear()
        self._pump_address[pump] = address
        secure = self._tls is not None
        if secure and self.greets:
            pump.pause_writing()
        asks = self._tls is not None and self._tls.verify_mode is ssl.CERT_REQUIRED
        own = (transport.get_extra_info("sockname") or self.address)[0]
        remote = RemoteAddress(str(own), self.address[1], address, secure, asks=asks)
        session = self.session(remote, asyncio.get_running_loop().time(), pump)
        reader: Reader = session if self._make_reader is None else self._make_reader(session)
        pump.begin(session, reader, -1 if secure else transport.get_extra_info("socket").fileno())
        if secure and self.greets:
            pump.upgrade()
            self._start(self._begin_tls(pump, transport))

    def disconnected(self, pump: Pump) -> None:
        self._pumps.discard(pump)
        if not self._pumps:
            self._empty.set()
        address = self._pump_address.pop(pump)
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
        self._count(-1)

    def _count(self, by: int) -> None:
        self._node.connections += by
        self._node.connections_by_door[self.scheme] += by
        if self._placement is not None:
            self._placement.note(self._node.connections)

    async def _adopt(self, made: socket.socket) -> None:
        """A connection that another process was given, and that should rather be here."""
        pump = Pump(self, self._policies)
        self._adopted.add(pump)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: pump, made)
        except OSError:
            made.close()  # its client has gone meanwhile
        finally:
            self._adopted.discard(pump)

    def authenticate(self, pump: Pump) -> None:
        if isinstance(pump.session, StreamSession) and pump.session.waits_for_nodes:
            return
        self._start(self._authenticate(pump))

    async def _authenticate(self, pump: Pump) -> None:
        session = pump.session
        assert isinstance(session, StreamSession)
        user = None
        try:
            if session.claim is not None and self._logins is not None:
                user = await self._logins.verify(session.claim, self._pump_address.get(pump, "?"))
        except TooManyLoginsError:
            session.fail(TOO_MANY_LOGINS)
        except TooLateError:
            session.fail("Authentication Timeout")
        finally:  # a client whose credentials were not verified is refused, also after an error
            session.admit(user)
            pump.admitted()

    async def _begin_tls(self, pump: Pump, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        assert self._tls is not None
        if transport.is_closing():
            return
        # A client answers INFO at once, and what it says then is for TLS: so reading stops before INFO leaves (not
        # earlier: it begins only after `connection_made`), and nothing else leaves before TLS has begun.
        transport.pause_reading()
        if pump.spoke_early():  # in plain text, and it must not be taken for something that came over TLS
            warn("%s spoke before TLS had begun", self._pump_address.get(pump, "?"))
            pump.resume_writing()  # a client that has begun with TLS learns from INFO why that fails
            transport.close()
            return
        pump.resume_writing()
        pump.pause_writing()
        try:
            upgraded = await loop.start_tls(
                transport, pump, self._tls, server_side=True, ssl_handshake_timeout=self._node.limits.tls_handshake
            )
        except (TimeoutError, OSError, ssl.SSLError) as error:
            warn("TLS handshake with %s failed: %s", self._pump_address.get(pump, "?"), type(error).__name__)
            transport.abort()
            if pump in self._pumps:
                pump.connection_lost(None)
            return
        if upgraded is not None:
            pump.upgraded(upgraded)

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK)
            now = loop.time()
            self._node.tick(now)
            if self._placement is not None:
                self._placement.tick(now)
            await self._tell_time(now)
            for _ in self._node.expire(now):
                flush(self._node.ready)
                await asyncio.sleep(0)
                if loop.time() > now + TICK:  # sessions must know what time it is, too: the rest is due the next time
                    break

    async def _tell_time(self, now: float) -> None:
        """Ticks every connection. That takes 3 ms for 1,000 of them, so others have their turn in between."""
        loop = asyncio.get_running_loop()
        end = monotonic() + MOMENT
        for pump in list(self._pumps):
            if pump in self._pumps:
                pump.tick(now)
            if monotonic() >= end:
                flush(self._node.ready)
                await asyncio.sleep(0)
                is_late = loop.time() > now + TICK  # then the rest hears it at once
                end = inf if is_late else monotonic() + MOMENT
        flush(self._node.ready)
