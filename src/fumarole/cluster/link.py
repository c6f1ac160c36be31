"""Lanes over sockets: the listener, the dialing, the clock. All that a lane means is in the pure parts beside this."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import select
import socket
import ssl
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, cast

from fumarole.cluster.cluster import LINK_OUTBOX, Cluster
from fumarole.cluster.identity import DATA, NONCE_BYTES, Identity
from fumarole.cluster.lane import Lane
from fumarole.cluster.pulse import USUAL, Timing
from fumarole.doors.log_limiter import LogLimiter
from fumarole.doors.pump import flush
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox

log = logging.getLogger(__name__)

TICK = 0.05
DIAL_SECONDS = 1.0
TLS_SECONDS = 3.0
"""For the handshake of TLS, before that of the link begins."""
LONG_BATCH = 0.02
"""Seconds after which it is the others' turn."""
READ_BUFFER = 256 * 1024
WRITE_CHUNK = 256 * 1024
LAST_WORDS = 1.0
"""Seconds that a refusal gets to leave."""
UNIX = "unix:"
"""What the address of a socket in the file system begins with."""

_buffer = memoryview(bytearray(READ_BUFFER))


class Link:
    """The network of a `Cluster`: `open` it, and in the end `close` it."""

    def __init__(
        self,
        node: Node,
        identity: Identity,
        secret: bytes = b"",
        timing: Timing = USUAL,
        make_reader: Callable[[Lane], Any] | None = None,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        siblings: str = "",
        outbox: int = LINK_OUTBOX,
    ) -> None:
        self.node = node
        self.make_reader = make_reader
        self.is_guarded = bool(secret) or server_tls is not None
        self._server_tls = server_tls
        self._client_tls = client_tls
        self._server: asyncio.Server | None = None
        self._dialing: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._clock: asyncio.Task[None] | None = None
        self.cluster = Cluster(
            node,
            identity,
            self,
            partial(os.urandom, NONCE_BYTES),
            monotonic(),
            secret,
            timing,
            LogLimiter(log),
            log.info,
            siblings=siblings,
            link_limit=outbox,
        )
        node.wake = self.cluster.wake
        node.look = self._look
        self._poll = select.poll()
        self._polled: dict[int, Connection] = {}
        """By descriptor, the connections that messages leave by."""
        self._changed = asyncio.Event()
        self.cluster.changed = self._change
        self.on_change: Callable[[], None] = lambda: None

    async def open(self, address: str, peers: tuple[str, ...], reached_at: str = "") -> None:
        """Listens, and begins to look for the others. Raises OSError where the address cannot be had.

        Others are told to come to `reached_at`, where that is not the address itself.
        """
        loop = asyncio.get_running_loop()
        make = lambda: Connection(self)  # noqa: E731
        if address.startswith(UNIX):
            self._server = await loop.create_unix_server(make, address.removeprefix(UNIX))
            self.cluster.identity.address = address
        else:
            host, port = split_address(address)
            limit = TLS_SECONDS if self._server_tls else None
            self._server = await loop.create_server(
                make, host, port, ssl=self._server_tls, ssl_handshake_timeout=limit, ssl_shutdown_timeout=limit
            )
            if port == 0:
                port = self._server.sockets[0].getsockname()[1]
            self.cluster.identity.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.cluster.identity.address = reached_at or self.cluster.identity.address
        for peer in peers:
            self.cluster.contact(peer, given=True)
        self._clock = asyncio.create_task(self._tick())

    async def join(self, seconds: float) -> bool:
        """Waits until this node and all that it can reach know each other's consumers. False: not in this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.cluster.is_settled():
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), TICK)
        return self.cluster.is_settled()

    def tell_clients(self, clients: tuple[str, ...]) -> None:
        """The doors are open: there is where clients of other nodes may come."""
        self.cluster.open_doors(clients)
        flush(self.node.ready)

    async def leave(self, seconds: float) -> None:
        """Tells the others that this node stops, and waits until they know."""
        known = asyncio.Event()
        self.cluster.after(self.cluster.leave(), known.set)
        flush(self.node.ready)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(known.wait(), seconds)

    async def close(self, seconds: float) -> None:
        """What has been forwarded leaves; then all connections end."""
        if self._server is not None:
            self._server.close()
        deadline = monotonic() + seconds
        while any(peer.outbox.size for peer in self.cluster.peers.values()) and monotonic() < deadline:
            flush(self.node.ready)
            await asyncio.sleep(TICK / 5)
        if self._clock is not None:
            self._clock.cancel()
        for connection in list(self._connections):
            connection.end_well()
        await asyncio.sleep(0)
        self.cluster.close()
        for task in self._dialing:
            task.cancel()
        for connection in list(self._connections):
            connection.abort()

    # The network of the cluster.

    def dial(self, address: str, lane: str) -> None:
        task = asyncio.create_task(self._dial(address, lane))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    async def _dial(self, address: str, lane: str) -> None:
        loop = asyncio.get_running_loop()
        make = lambda: Connection(self, address, lane)  # noqa: E731
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                if address.startswith(UNIX):
                    await loop.create_unix_connection(make, address.removeprefix(UNIX))
                else:
                    host, port = split_address(address)
                    await loop.create_connection(
                        make, host, port, ssl=self._client_tls, server_hostname=host if self._client_tls else None
                    )
        except ssl.SSLError as error:
            self.cluster.complain("peer at %s: TLS failed: %s", address, error.reason or type(error).__name__)
            self.cluster.unreachable(address, lane, "TLS failed")
        except (OSError, ValueError) as error:
            self.cluster.unreachable(address, lane, reason(error))

    def connected(self, connection: Connection) -> None:
        self._connections.add(connection)
        if connection.socket is not None and connection.dials(DATA):
            self._polled[connection.socket] = connection
            self._poll.register(connection.socket, select.POLLRDHUP)

    def disconnected(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection.socket is not None and self._polled.get(connection.socket) is connection:
            del self._polled[connection.socket]
            self._poll.unregister(connection.socket)

    def _look(self) -> None:
        """Who has hung up gets nothing more, though the loop may come to hear of it only later (G3)."""
        for descriptor, _ in self._poll.poll(0) if self._polled else ():
            self._polled[descriptor].hung_up()

    def _change(self) -> None:
        self._changed.set()
        self.on_change()

    async def _tick(self) -> None:
        while True:
            now = monotonic()
            self.cluster.tick(now)
            for connection in list(self._connections):
                connection.tick(now)
            flush(self.node.ready)
            await asyncio.sleep(TICK)


class Connection(asyncio.BufferedProtocol):
    """One socket and its lane. Owns the outbox that leaves by it."""

    def __init__(self, link: Link, address: str = "", lane: str = "") -> None:
        self._link = link
        self._dialed = address, lane
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.lane: Lane = cast(Lane, None)
        self._reader: Any = None
        self._outbox: Outbox = cast(Outbox, None)
        self._send: Callable[[int], bool] | None = None
        self.socket: int | None = None
        self._descriptor = -1
        """The same, where nothing stands between it and the outbox."""
        self._paused = False
        self._busy = 0.0
        """Seconds spent on it since others had their turn."""
        self._over = False
        self._last_words: float | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        cluster = self._link.cluster
        plain = transport.get_extra_info("socket")
        if plain is not None and plain.family in (socket.AF_INET, socket.AF_INET6):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(cluster.timing.silence * 1000))
        if plain is not None:
            self.socket = plain.fileno()
            if transport.get_extra_info("sslcontext") is None:
                self._descriptor = self.socket
        self._link.connected(self)
        cluster.now = monotonic()
        if self._dialed[0]:
            self.lane = cluster.dialed(self, *self._dialed)
        else:
            peer = transport.get_extra_info("peername")
            host = peer[0] if isinstance(peer, tuple) else ""
            self.lane = cluster.accepted(self, host, self._link.is_guarded or not host or is_loopback(host))
        self.adopt(self.lane.outbox)
        make = self._link.make_reader
        self._reader = self.lane if make is None else make(self.lane)
        flush(self._link.node.ready)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        began = monotonic()
        self._link.cluster.wake(began)
        self._reader.receive_data(_buffer[:nbytes])
        self._after(began)

    def _after(self, began: float) -> None:
        flush(self._link.node.ready)
        if self.lane.name == DATA:  # heartbeats are answered by nobody at once
            self._link.node.batch_done()
        self._busy += monotonic() - began
        if (self._busy > LONG_BATCH or self._reader.unfinished) and not self._transport.is_closing():
            # A lane that always has more to read is read many times in a row; now it is the others' turn, and the
            # heartbeats'.
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._busy = 0.0
        if self._transport.is_closing():
            return
        if self._reader.unfinished:
            began = monotonic()
            self._reader.go_on()
            self._after(began)
        if not self._reader.unfinished and not self._busy > LONG_BATCH:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        self.lane.receive_eof()
        flush(self._link.node.ready)
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._paused = True
        self._link.disconnected(self)
        self._link.cluster.now = monotonic()
        self.lane.close()
        flush(self._link.node.ready)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.flush()

    # What the link asks.

    def dials(self, lane: str) -> bool:
        """Is it this lane, and was it us who dialed?"""
        return self._dialed[1] == lane

    def hung_up(self) -> None:
        """The other end has closed, which asyncio will say too."""
        self._link.disconnected(self)
        self.lane.receive_eof()

    # What outboxes and lanes call.

    def adopt(self, outbox: Outbox) -> None:
        """From now on it is this outbox that leaves here."""
        self._outbox = outbox
        self._send = getattr(outbox, "send", None) if self._descriptor >= 0 else None
        self._transport.set_write_buffer_limits(high=0 if self._send else WRITE_CHUNK)

    def flush(self) -> None:
        if self._over:
            return
        closing = self.lane.close_expected()
        if self._outbox.overflowed and not closing:
            self.lane.fail("the link does not take what is to be sent")
            return
        if closing and self.lane.peer is not None:
            self.abort()
            return
        while self._outbox.size and not self._paused:
            if self._send is not None and self._send(self._descriptor):
                break
            self._transport.write(self._outbox.take(WRITE_CHUNK))
        if closing and not self._outbox.size and not self._paused:
            self._over = True
            self._transport.close()

    def tick(self, now: float) -> None:
        self.lane.tick(now)
        if self.lane.close_expected() and not self._over:
            self._last_words = self._last_words or now + LAST_WORDS
            if now > self._last_words:
                self.abort()

    def end_well(self) -> None:
        """This node stops: what is in the socket may still arrive."""
        self._over = True
        self._transport.close()

    def abort(self) -> None:
        """Nothing that is under way is to arrive: it belongs to a time that is over."""
        self._over = True
        plain = self._transport.get_extra_info("socket")
        if plain is not None and not self._transport.is_closing():
            with contextlib.suppress(OSError, ValueError):  # it may just have been closed
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


def reason(error: Exception) -> str:
    """Why somebody could not be reached, in a few words."""
    match error:
        case TimeoutError():
            return "no answer"
        case socket.gaierror():
            return "unknown host"
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
        case _:
            return str(error)


def split_address(address: str) -> tuple[str, int]:
    """HOST:PORT or [v6]:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def remove_socket(address: str) -> None:
    """What a process that was killed has left behind."""
    if address.startswith(UNIX):
        Path(address.removeprefix(UNIX)).unlink(missing_ok=True)
