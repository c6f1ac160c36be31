"""The NATS door: a listener, its connections, their time, and who they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fumarole.doors.pump import Pump, Reader, flush
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.protocols import nats
from fumarole.sessions.nats import Credentials, NatsSession, Peer

log = logging.getLogger(__name__)

TICK = 0.5
"""Seconds between two looks at the clock."""
BACKLOG = 4096
CHECKERS = 2
"""Threads that look at credentials."""
WAITING_CHECKS = 256
"""Credentials that may wait for them; more are refused."""

Check = Callable[[Credentials], User | None]
"""Blocking: takes as long as a password hash takes."""
MakeReader = Callable[[NatsSession], Reader]


class NatsDoor:
    """Where NATS clients come in."""

    def __init__(
        self,
        node: Node,
        make_reader: MakeReader | None = None,
        tls: ssl.SSLContext | None = None,
        check: Check | None = None,
    ) -> None:
        self._node = node
        self._make_reader = make_reader
        self._tls = tls
        self._check = check
        self._pumps: set[Pump] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._addresses: Counter[str] = Counter()
        self._pump_address: dict[Pump, str] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._executor: ThreadPoolExecutor | None = None
        self._clock: asyncio.Task[None] | None = None
        self.address = ("", 0)

    async def open(self, host: str, port: int) -> None:
        """Listens. Raises OSError where the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Pump(self._node, self), host, port, backlog=BACKLOG)
        name = self._server.sockets[0].getsockname()
        self.address = (name[0], name[1])
        self._clock = asyncio.create_task(self._tick())

    async def drain(self, seconds: float) -> None:
        """No new connections; what is in the outboxes leaves; then every connection is closed."""
        if self._server is not None:
            self._server.close()
        for pump in list(self._pumps):
            pump.session.close()
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
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    # What pumps ask.

    def connected(self, pump: Pump, transport: asyncio.Transport) -> None:
        peer_name = transport.get_extra_info("peername") or ("", 0)
        address = str(peer_name[0])
        limits = self._node.limits
        if self._node.connections >= limits.connections or self._addresses[address] >= limits.connections_per_address:
            self._node.refused_connections += 1
            transport.write(nats.error("maximum connections exceeded"))
            transport.close()
            return
        self._node.connections += 1
        self._addresses[address] += 1
        self._pumps.add(pump)
        self._empty.clear()
        self._pump_address[pump] = address
        secure = self._tls is not None
        if secure:
            transport.pause_reading()
        peer = Peer(self.address[0], self.address[1], address, secure)
        session = NatsSession(self._node, peer, asyncio.get_running_loop().time(), pump)
        reader: Reader = session
        send = None
        if self._make_reader is not None:
            reader = self._make_reader(session)
            if not secure:
                outbox, descriptor = session.outbox, transport.get_extra_info("socket").fileno()
                send = lambda: outbox.send(descriptor)  # type: ignore[attr-defined]  # noqa: E731
        pump.begin(session, reader, send)
        if secure:
            self._start(self._begin_tls(pump, transport))

    def disconnected(self, pump: Pump) -> None:
        self._pumps.discard(pump)
        if not self._pumps:
            self._empty.set()
        address = self._pump_address.pop(pump)
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
        self._node.connections -= 1

    def authenticate(self, pump: Pump) -> None:
        self._start(self._authenticate(pump))

    async def _authenticate(self, pump: Pump) -> None:
        session = pump.session
        assert isinstance(session, NatsSession)
        user = None
        credentials = session.credentials
        if self._check is not None and credentials is not None:
            if len(self._tasks) > WAITING_CHECKS:
                log.warning("too many logins at once, one was refused")
            else:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(CHECKERS, "credentials")
                loop = asyncio.get_running_loop()
                user = await loop.run_in_executor(self._executor, self._check, credentials)
        session.admit(user)
        pump.admitted()

    async def _begin_tls(self, pump: Pump, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        assert self._tls is not None
        try:
            upgraded = await loop.start_tls(
                transport, pump, self._tls, server_side=True, ssl_handshake_timeout=self._node.limits.tls_handshake
            )
        except (TimeoutError, OSError, ssl.SSLError) as error:
            log.info("TLS handshake with %s failed: %s", self._pump_address.get(pump, "?"), type(error).__name__)
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
            for pump in list(self._pumps):
                pump.tick(now)
            flush(self._node.ready)
