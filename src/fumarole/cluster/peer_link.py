"""The sockets of a cluster: the listener, dialing, the clock, and the policies of node links.

What a lane means is in the pure modules beside this one. Bytes are moved by the pump that clients have too
(doors/pump.py). A link differs from a client in this:

    read size          256 KiB, always: a link brings the messages of many clients
    before a batch     the cluster learns the time, so that what is too old is not delivered (C4)
    flushing           at once, never together with others
    busy polling       after batches of the data lane only: a heartbeat is followed by nothing
    overflow           the lane is refused, and with it the peer is lost
    the end            `LinkClosing`
"""

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
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, cast

from fumarole.cluster.cluster import LINK_OUTBOX, Cluster
from fumarole.cluster.identity import DATA, NONCE_BYTES, Identity
from fumarole.cluster.lane import Lane
from fumarole.cluster.pulse import USUAL, Timing
from fumarole.doors.closing import Closing
from fumarole.doors.ending import EndAtOnce
from fumarole.doors.flushing import FlushAtOnce, flush
from fumarole.doors.log_limiter import LogLimiter
from fumarole.doors.pump import Policies, Pump
from fumarole.doors.read_size import fixed
from fumarole.doors.turn_limit import NO_LIMIT
from fumarole.exchange.node import Node

log = logging.getLogger(__name__)

TICK = 0.05
DIAL_SECONDS = 1.0
TLS_SECONDS = 3.0
"""For the TLS handshake, which comes before the handshake of the link."""
READ_BUFFER = 256 * 1024
WRITE_CHUNK = 256 * 1024
LAST_WORDS = 1.0
"""Seconds that a refusal gets to leave."""
UNIX = "unix:"
"""What the address of a socket in the file system begins with."""


class PeerLink:
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
        self._connections: set[PeerConnection] = set()
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
        self._flushing = FlushAtOnce(node.ready, node.late)
        self._read_size = fixed(READ_BUFFER)
        node.wake = self.cluster.wake
        node.look = self._look
        self._poll = select.poll()
        self._polled: dict[int, PeerConnection] = {}
        """By descriptor, the connections that messages leave by."""
        self._changed = asyncio.Event()
        self.cluster.changed = self._change
        self.on_change: Callable[[], None] = lambda: None

    async def open(self, address: str, peers: tuple[str, ...], reached_at: str = "") -> None:
        """Listens, and starts dialing the peers. Raises OSError where the address cannot be had.

        Peers dial `reached_at`, where that is not the address itself.
        """
        loop = asyncio.get_running_loop()
        make = lambda: PeerConnection(self).pump  # noqa: E731
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
        """The doors are open at these addresses, for clients of other nodes too."""
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
            connection.pump.close()
        await asyncio.sleep(0)
        self.cluster.close()
        for task in self._dialing:
            task.cancel()
        for connection in list(self._connections):
            connection.pump.abort()

    def policies(self, batch_done: Callable[[], None]) -> Policies:
        """How a connection to a peer is treated."""
        return Policies(
            ready=self.node.ready,
            before_batch=self.cluster.wake,
            flushing=self._flushing,
            batch_done=batch_done,
            read_size=self._read_size,
            write_chunk=WRITE_CHUNK,
            rest_chunk=WRITE_CHUNK,
            closing=LinkClosing,
            ending=EndAtOnce(),
            turn_limit=NO_LIMIT,
            cut=_cut,
            release=lambda _: None,
        )

    # The network of the cluster.

    def dial(self, address: str, lane: str) -> None:
        task = asyncio.create_task(self._dial(address, lane))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    async def _dial(self, address: str, lane: str) -> None:
        loop = asyncio.get_running_loop()
        make = lambda: PeerConnection(self, address, lane).pump  # noqa: E731
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
            self.cluster.warn("peer at %s: TLS failed: %s", address, error.reason or type(error).__name__)
            self.cluster.unreachable(address, lane, "TLS failed")
        except (OSError, ValueError) as error:
            self.cluster.unreachable(address, lane, reason(error))

    def connected(self, connection: PeerConnection) -> None:
        self._connections.add(connection)
        if connection.descriptor >= 0 and connection.dials(DATA):
            self._polled[connection.descriptor] = connection
            self._poll.register(connection.descriptor, select.POLLRDHUP)

    def disconnected(self, connection: PeerConnection) -> None:
        self._connections.discard(connection)
        if connection.descriptor >= 0 and self._polled.get(connection.descriptor) is connection:
            del self._polled[connection.descriptor]
            self._poll.unregister(connection.descriptor)

    def _look(self) -> None:
        """A peer that has hung up gets nothing more, though the loop may read its end only later (G3)."""
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
                connection.pump.tick(now)
            flush(self.node.ready)
            await asyncio.sleep(TICK)


class PeerConnection:
    """One socket to a peer, and the lane on it."""

    def __init__(self, link: PeerLink, address: str = "", lane: str = "") -> None:
        self._link = link
        self._dialed = address, lane
        self.lane: Lane = cast(Lane, None)
        self.descriptor = -1
        self.pump = Pump(self, link.policies(self._batch_done))

    # What the pump asks.

    def connected(self, pump: Pump, transport: asyncio.Transport) -> None:
        cluster = self._link.cluster
        plain = transport.get_extra_info("socket")
        if plain is not None:
            self.descriptor = plain.fileno()
            _set_options(plain, cluster.timing.silence)
        self._link.connected(self)
        cluster.now = monotonic()
        if self._dialed[0]:
            self.lane = cluster.dialed(pump, *self._dialed)
        else:
            peer = transport.get_extra_info("peername")
            host = peer[0] if isinstance(peer, tuple) else ""
            self.lane = cluster.accepted(pump, host, self._link.is_guarded or not host or is_loopback(host))
        make = self._link.make_reader
        is_plain = transport.get_extra_info("sslcontext") is None
        pump.begin(self.lane, self.lane if make is None else make(self.lane), self.descriptor if is_plain else -1)

    def disconnected(self, pump: Pump) -> None:  # noqa: ARG002
        self._link.disconnected(self)
        self._link.cluster.now = monotonic()

    def authenticate(self, pump: Pump) -> None:
        """A lane has no claim: its peer proves itself in the handshake."""
        raise AssertionError(pump)

    def _batch_done(self) -> None:
        if self.lane.name == DATA:  # a heartbeat is not followed by anything soon
            self._link.node.batch_done()

    # What the link asks.

    def dials(self, lane: str) -> bool:
        """Is it this lane, and did this node dial it?"""
        return self._dialed[1] == lane

    def hung_up(self) -> None:
        """The other end has closed, which asyncio will say too."""
        self._link.disconnected(self)
        self.lane.receive_eof()


class LinkClosing(Closing):
    """The end of one connection to a peer.

    A refusal is sent, and has a second to leave. Where a peer was admitted and is lost, nothing that is under way may
    arrive: it belongs to a time that is over.
    """

    __slots__ = ("_lane",)

    last_words = LAST_WORDS

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self._lane = lane

    def receive_eof(self, transport: asyncio.Transport) -> bool:  # noqa: ARG002
        return False

    def discards(self) -> bool:
        return self._lane.peer is not None

    def finish(self, transport: asyncio.Transport) -> None:
        self.by = inf
        transport.close()

    def abort(self, transport: asyncio.Transport) -> None:
        plain = transport.get_extra_info("socket")
        if plain is not None and not transport.is_closing():
            with contextlib.suppress(OSError, ValueError):  # it may just have been closed
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def _cut(lane: Lane) -> None:
    lane.fail("the link does not take what is to be sent")


def _set_options(plain: socket.socket, silence: float) -> None:
    if plain.family in (socket.AF_INET, socket.AF_INET6):
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(silence * 1000))


def reason(error: Exception) -> str:
    """Why a peer could not be reached, in a few words."""
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
