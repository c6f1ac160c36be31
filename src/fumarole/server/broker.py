"""One broker, wired together from its settings: node, doors, credentials, TLS, signals."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import logging
import os
import resource
import secrets
import ssl
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from fumarole import __version__
from fumarole.config.consistency import first_line
from fumarole.config.settings import Settings, StandardDoors, Tls, Traces
from fumarole.config.values import Address
from fumarole.core.errors import FumaroleError
from fumarole.core.packages import MissingPackageError, absence, need
from fumarole.doors.busy_poll import BusyPoll
from fumarole.doors.flushing import flush
from fumarole.doors.log_limiter import LogLimiter, plain
from fumarole.doors.logins import Logins
from fumarole.doors.registry import DOORS, Door, Listener, Wiring
from fumarole.doors.slices import SliceRunner
from fumarole.doors.stream import TOO_MANY
from fumarole.doors.timers import TimerRunner
from fumarole.doors.tls_alerts import AlertingObject
from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.namespaces import NamespaceRules, Namespaces, default_rules
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.tracer import Tracer
from fumarole.fastpath import hot_path
from fumarole.server.clustering import Clustering
from fumarole.server.cookies import SignedCookies
from fumarole.server.credentials import Credentials
from fumarole.server.descriptor_watch import DescriptorWatch
from fumarole.server.memory_watch import MemoryWatch
from fumarole.server.reload import Load, staying, waiting_for_restart
from fumarole.server.signals import Signals
from fumarole.server.trace_export import TraceExport
from fumarole.store.keeper import Keeper
from fumarole.store.producers import StoreError
from fumarole.store.retained import RetainedKeeper

if TYPE_CHECKING:
    from fumarole.server.workers import Worker

log = logging.getLogger(__name__)

UNPAUSED_WRITES = {(3, 12, 1), (3, 13, 0)}
"""Versions of Python whose transports never pause a writer (CVE-2024-12254)."""

LAME_DUCK_GRACE, LAME_DUCK_SHARE = 0.25, 0.75
"""Parts of the drain time: when clients begin to be sent away, and when all are."""
LAME_DUCK_LOOK = 0.05
"""Seconds between two checks for remaining clients."""
NONCE_BYTES = 16
"""Bytes of the nonce that a client signs with its nkey."""
GARBAGE_THRESHOLDS = 10_000, 5, 2_000
"""New objects between two searches for cycles; of so many searches one goes deeper, through 60,000 objects, and of so
many of those one goes through everything: with a million consumers that takes seconds."""


class CannotServeError(FumaroleError):
    """The broker cannot start; the text has the reason."""


def openable(settings: Settings) -> Settings:
    """The same settings without the standard doors whose packages are not installed; each is logged.

    Raises MissingPackageError for a door that was named.
    """
    shut: dict[str, tuple[Address, ...]] = {}
    for door in DOORS.values():
        reason = absence(door.extra) if settings.doors.of(door.name) else ""
        if reason and not isinstance(settings.doors, StandardDoors):
            raise MissingPackageError(reason)
        if reason:
            log.info("left shut: %s", reason)
            shut[door.name] = ()
    if any(user.nkey is not None for user in settings.users or ()):
        need("nkeys")
    return msgspec.structs.replace(settings, doors=msgspec.structs.replace(settings.doors, **shut))


class Broker:
    """`start`, then serve until `stop`."""

    def __init__(self, settings: Settings, worker: Worker | None = None) -> None:
        self._settings = settings
        self._worker = worker
        self.hot_path = hot_path.best()
        # The first of several workers writes the durable files: it has the state of all workers (C6).
        keeps = worker is None or worker.number == 0
        namespaces = Namespaces(
            limits=settings.limits,
            rules=_rules(settings),
            allowed=_allowed(settings),
            parts=self.hot_path.parts,
            are_kept=keeps,
            clock=HybridClock(time.time),
            grammar=settings.grammar,
        )
        self.node = Node(
            name=settings.node or made_up_name(),
            version=__version__,
            limits=settings.limits,
            namespaces=namespaces,
            parts=self.hot_path.parts,
            authentication=settings.users is not None,
        )
        namespaces.clock.node = self.node.name
        warn = LogLimiter(log)
        self.node.journal.hear = lambda event: warn("refused %s: %s", plain(event.client), plain(event.text))
        self.node.nonce = _nonce(settings)
        SliceRunner(self.node)
        TimerRunner(self.node)
        MemoryWatch(self.node)
        DescriptorWatch(self.node)
        self._trace_export: TraceExport | None = None
        if settings.traces.endpoint is not None:
            tracer = Tracer(self.node.name, time.time_ns, secrets.token_bytes)
            namespaces.trace(tracer)
            self._trace_export = _trace_export(settings.traces, tracer)
        self._keeper = Keeper(settings.data, namespaces, LogLimiter(log)) if keeps else None
        self._retained_keeper = RetainedKeeper(settings.data, namespaces, LogLimiter(log)) if keeps else None
        self.doors: list[Listener] = []
        self._alpn: list[tuple[str, ...]] = []
        """Of each of them."""
        self._logins: Logins | None = None
        self._clustering = None
        if settings.cluster is not None or worker is not None:
            self._clustering = Clustering(settings, self.node, self.hot_path, worker)

    async def start(self) -> None:
        """Opens every door. Raises CannotServeError, with none of them left open."""
        _allow_many_files()
        settings = self._settings
        cookies = None
        if settings.users is not None:
            logins = self._logins = Logins(Credentials(settings.users))
            cookies = SignedCookies(lambda: logins.verifier, self._cookie_secret(), time.time)
        if self._trace_export is not None:
            self._trace_export.start()
        await self._recall()
        if self._clustering is not None:
            await self._join(self._clustering)
        for name, address in settings.doors.addresses():
            door = DOORS[name]
            wiring = Wiring(
                node=self.node,
                hot_path=self.hot_path,
                settings=settings.door(name),
                tls=None if settings.tls is None else _tls_context(settings.tls, door.alpn),
                logins=self._logins,
                cookies=cookies,
                settings_of=settings.door,
                opened=self.doors,
                handshake_first=settings.tls is not None and settings.tls.handshake_first,
            )
            await self._open(door, wiring, address)
        if self._worker is not None:
            self._worker.placement.begin(self._worker.number)
        if self._clustering is not None:
            self._clustering.opened(self.doors)

    def _cookie_secret(self) -> bytes:
        """The same on every node of a cluster that has a secret, and in all workers of a node."""
        path = self._settings.links.secret_file
        if path is not None:
            return first_line(path)
        return secrets.token_bytes(32) if self._worker is None else self._worker.secret

    async def _recall(self) -> None:
        """Loads the metadata of producers from before the start of the broker (M3)."""
        if self._keeper is None:
            return
        try:
            await self._keeper.load()
        except StoreError as error:
            await self.stop()
            raise CannotServeError(str(error)) from None
        self._keeper.start()
        if self._retained_keeper is not None:
            await self._retained_keeper.load()
            self._retained_keeper.start()

    async def _join(self, clustering: Clustering) -> None:
        """Before any client is let in: its consumers must be known everywhere, and it must find all others (C2)."""
        try:
            await clustering.start()
        except OSError as error:
            await self.stop()
            raise CannotServeError(f"cannot listen on {self._settings.cluster}: {error.strerror or error}") from None

    async def _open(self, door: Door, wiring: Wiring, address: Address) -> None:
        listener = door.make(wiring)
        try:
            await listener.open(address.host, address.port, None if self._worker is None else self._worker.placement)
        except OSError as error:
            await self.stop()
            raise CannotServeError(f"cannot listen on {address}: {error.strerror or error}") from None
        self.doors.append(listener)
        self._alpn.append(door.alpn)
        host, port = listener.address
        log.info("%s door open on %s:%d%s", door.title, host, port, " with TLS" if self._settings.tls else "")

    async def reload(self, settings: Settings) -> list[str]:
        """These settings are in force now. Which of them wait for a restart. Raises CannotServeError: none is."""
        old = self._settings
        if any(user.nkey is not None for user in settings.users or ()):
            need("nkeys")
        contexts = [None if settings.tls is None else _tls_context(settings.tls, alpn) for alpn in self._alpn]
        waiting = waiting_for_restart(old, settings)
        users: dict[str, User] = {}
        if settings.users is not None and self._logins is not None:
            credentials = Credentials(settings.users)
            self._logins.renew(credentials)
            users = staying(old.users, settings.users, credentials.users)
            self.node.nonce = _nonce(settings)
        self.node.limits = settings.limits
        self.node.namespaces.renew(settings.limits, _rules(settings), _allowed(settings))
        for door, tls in zip(self.doors, contexts, strict=True):
            await door.renew(tls, self._logins, users)
        self._end_surplus()
        logging.getLogger().setLevel(settings.log.level.upper())
        self._settings = settings
        return waiting

    def _end_surplus(self) -> None:
        """More connections than the limit allows now: the newest end."""
        surplus = self.node.connections - self.node.limits.connections
        if surplus > 0:
            sessions = (session for door in self.doors for session, _ in door.sessions())
            for session in heapq.nlargest(surplus, sessions, key=lambda session: session.client_id):
                session.fail(TOO_MANY)
            flush(self.node.ready)

    async def lame_duck(self) -> None:
        """New clients are refused. The others are notified, and disconnected little by little, until none is left or
        the drain time is over (A7). Then `stop`."""
        loop = asyncio.get_running_loop()
        seconds = self._settings.limits.drain
        began, most = loop.time(), max(1, self.node.connections)
        for door in self.doors:
            door.close_entrance()
            inform = getattr(door, "inform", None)
            if inform is not None:
                inform(lame_duck=True)
        while self.node.connections and (passed := loop.time() - began) < seconds * LAME_DUCK_SHARE:
            await asyncio.sleep(LAME_DUCK_LOOK)
            # The first quarter is for clients that leave by themselves.
            due = most * max(0.0, passed / seconds - LAME_DUCK_GRACE) / (LAME_DUCK_SHARE - LAME_DUCK_GRACE)
            too_many = self.node.connections - round(most - due)
            for door in self.doors:
                if too_many > 0:
                    door.send_away(too_many)
        await self.stop(max(1.0, seconds - (loop.time() - began)))

    async def stop(self, seconds: float | None = None) -> None:
        """Drains every door: no new connections, outboxes flushed, then closed."""
        if seconds is None:
            seconds = self._settings.limits.drain
        if self._worker is not None:
            self._worker.placement.end()
        if self._clustering is not None:
            await self._clustering.leave()
        await asyncio.gather(*(door.drain(seconds) for door in self.doors))
        self.doors.clear()
        if self._logins is not None:
            self._logins.close()
        if self._clustering is not None:
            await self._clustering.close()
        if self._keeper is not None:
            await self._keeper.close()
        if self._retained_keeper is not None:
            await self._retained_keeper.close()
        if self._trace_export is not None:
            await self._trace_export.close()


def _rules(settings: Settings) -> dict[str, NamespaceRules]:
    rules = dict(settings.namespaces)
    for door in DOORS.values():
        if door.keeps_namespace and settings.doors.of(door.name):
            namespace = settings.door(door.name).namespace
            rules.setdefault(namespace, default_rules(namespace, settings.grammar))
    return rules


def _allowed(settings: Settings) -> frozenset[str] | None:
    return None if settings.allowed_namespaces is None else frozenset(settings.allowed_namespaces)


def _trace_export(settings: Traces, tracer: Tracer) -> TraceExport:
    try:
        return TraceExport(settings, tracer)
    except (OSError, ValueError, ssl.SSLError) as error:
        raise CannotServeError(f"traces.headers_file or traces.authority not usable: {error}") from None


def _nonce(settings: Settings) -> Callable[[], str] | None:
    if not any(user.nkey is not None for user in settings.users or ()):
        return None
    return partial(secrets.token_urlsafe, NONCE_BYTES)


async def serve(
    settings: Settings,
    started: Callable[[Broker], None] | None = None,
    worker: Worker | None = None,
    load: Load | None = None,
) -> None:
    """Runs a broker until a signal ends it (server/signals.py). `load` reads its configuration again."""
    if sys.version_info[:3] in UNPAUSED_WRITES:
        log.warning("this Python has CVE-2024-12254: slow TLS clients can use up memory; any other release is better")
    broker = Broker(settings, worker)
    loop = asyncio.get_running_loop()
    broker.node.batch_done = BusyPoll(loop.call_soon).batch_done
    signals = Signals(broker, load, 0 if worker is None else os.getppid())
    signals.listen()
    # Reference counting frees the objects of messages, so the cycle collector can run rarely.
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.collect()
    await broker.start()
    # The objects of now stay, perhaps a million consumers of other nodes: the collector need not search them again.
    gc.freeze()
    log.info("fumarole %s, hot path: %s", __version__, broker.hot_path.name)
    if settings.bridges:
        log.info("[[bridges]] of the configuration are not run here: fumarole bridge --config FILE runs them")
    if started is not None:
        started(broker)
    if await signals.asked_to_end():
        log.info("lame duck: %d connections have %g s to leave", broker.node.connections, settings.limits.drain)
        await broker.lame_duck()
    else:
        log.info("stopping: %d connections to drain", broker.node.connections)
        await broker.stop()


def made_up_name() -> str:
    """A random name for a node without one. A process id would not be unique, because each container has its own."""
    return f"fumarole-{uuid.uuid4().hex[:12]}"


def _allow_many_files() -> None:
    """Every connection is a file; the soft limit is often far below what the system would allow."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tls_context(tls: Tls, alpn: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.sslobject_class = AlertingObject
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 1  # enough to come again with; two, as OpenSSL has it, make a handshake 7 % dearer
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_authority is not None:
            context.load_verify_locations(tls.client_authority)
    except (OSError, ssl.SSLError) as error:
        raise CannotServeError(f"TLS certificate, key or authority not usable: {error}") from None
    wanted = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    context.verify_mode = wanted[tls.client_certificates]
    if alpn:
        context.set_alpn_protocols(alpn)
    return context
