"""One broker, wired together from its settings: node, doors, credentials, TLS, signals."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import ssl
import sys
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from fumarole import __version__
from fumarole.config.settings import Settings, StandardDoors, Tls
from fumarole.config.values import Address
from fumarole.core.errors import FumaroleError
from fumarole.core.packages import MissingPackageError, absence
from fumarole.doors.chores import ChoreTurns
from fumarole.doors.complaints import Complaints
from fumarole.doors.msgpack import MsgPackDoor
from fumarole.doors.nats import NatsDoor
from fumarole.doors.placement import Placement
from fumarole.doors.vigil import Vigil
from fumarole.exchange.namespaces import Namespaces, default_rules
from fumarole.exchange.node import Node
from fumarole.fastpath import engine
from fumarole.server.clustering import Clustering
from fumarole.server.credentials import Credentials
from fumarole.store.keeper import Keeper
from fumarole.store.producers import StoreError

if TYPE_CHECKING:
    from fumarole.doors.kubemq import KubemqDoor
    from fumarole.server.workers import Worker

log = logging.getLogger(__name__)

UNPAUSED_WRITES = {(3, 12, 1), (3, 13, 0)}
"""Versions of Python whose transports never pause a writer (CVE-2024-12254)."""

GARBAGE_THRESHOLDS = 10_000, 20, 500
"""New objects between two searches for cycles; of so many searches one goes deeper, and of so many of those one goes
through everything: with a million consumers that takes seconds."""


DOOR_EXTRAS = {"kubemq": "kubemq"}
"""Doors that need more than the base install, and the extra of each."""


class CannotServeError(FumaroleError):
    """The broker cannot start; the text says why, for a person."""


class Door(Protocol):
    """What the broker does with its doors."""

    address: tuple[str, int]
    scheme: str

    async def open(self, host: str, port: int, placement: Placement | None = None) -> None: ...
    def cut_off(self) -> None: ...
    async def drain(self, seconds: float) -> None: ...


def openable(settings: Settings) -> Settings:
    """The same settings without the standard doors whose packages are not installed; each is logged.

    Raises MissingPackageError for a door that was named.
    """
    shut = {}
    for door, extra in DOOR_EXTRAS.items():
        reason = absence(extra) if getattr(settings.doors, door) else ""
        if reason and not isinstance(settings.doors, StandardDoors):
            raise MissingPackageError(reason)
        if reason:
            log.info("left shut: %s", reason)
            shut[door] = ()
    return msgspec.structs.replace(settings, doors=msgspec.structs.replace(settings.doors, **shut))


class Broker:
    """`start`, then serve until `stop`."""

    def __init__(self, settings: Settings, worker: Worker | None = None) -> None:
        self._settings = settings
        self._worker = worker
        self.engine = engine.best()
        rules = dict(settings.namespaces)
        if settings.doors.kubemq:
            # There are no connections on that door to keep its namespace: it stays, like those that are configured.
            rules.setdefault(settings.kubemq.namespace, default_rules(settings.kubemq.namespace))
        # What is durable is kept by the first of several workers: it knows all that the others know (C6).
        keeps = worker is None or worker.number == 0
        namespaces = Namespaces(
            limits=settings.limits,
            rules=rules,
            allowed=None if settings.allowed_namespaces is None else frozenset(settings.allowed_namespaces),
            parts=self.engine.parts,
            are_kept=keeps,
        )
        self.node = Node(
            name=settings.node or made_up_name(),
            version=__version__,
            limits=settings.limits,
            namespaces=namespaces,
            parts=self.engine.parts,
            authentication=settings.users is not None,
        )
        ChoreTurns(self.node)
        self._keeper = Keeper(settings.data, namespaces, Complaints(log)) if keeps else None
        self.doors: list[Door] = []
        self._clustering = None
        if settings.cluster is not None or worker is not None:
            self._clustering = Clustering(settings, self.node, self.engine, worker)

    async def start(self) -> None:
        """Opens every door. Raises CannotServeError, with none of them left open."""
        _allow_many_files()
        settings = self._settings
        tls = None if settings.tls is None else _tls_context(settings.tls)
        credentials = None if settings.users is None else Credentials(settings.users)
        check = None
        if credentials is not None:
            check = lambda given: credentials.check(given.user, given.password, given.token)  # noqa: E731
        await self._recall()
        if self._clustering is not None:
            await self._join(self._clustering)
        for address in settings.doors.nats:
            await self._open("NATS", NatsDoor(self.node, self.engine.nats_reader, tls, check), address)
        for address in settings.doors.msgpack:
            await self._open(
                "MsgPack",
                MsgPackDoor(self.node, self.engine.msgpack_reader, settings.msgpack.namespace, tls, check),
                address,
            )
        for address in settings.doors.kubemq:
            await self._open("KubeMQ", self._kubemq_door(credentials), address)
        if self._worker is not None:
            self._worker.placement.begin(self._worker.number)
        if self._clustering is not None:
            self._clustering.opened(self.doors)

    async def _recall(self) -> None:
        """What producers said of themselves before the broker was started (M3)."""
        if self._keeper is None:
            return
        try:
            await self._keeper.load()
        except StoreError as error:
            await self.stop()
            raise CannotServeError(str(error)) from None
        self._keeper.start()

    async def _join(self, clustering: Clustering) -> None:
        """Before any client is let in: what it asks for must be known everywhere, and it must find everybody (C2)."""
        try:
            await clustering.start()
        except OSError as error:
            await self.stop()
            raise CannotServeError(f"cannot listen on {self._settings.cluster}: {error.strerror or error}") from None

    async def _open(self, name: str, door: Door, address: Address) -> None:
        try:
            await door.open(address.host, address.port, None if self._worker is None else self._worker.placement)
        except OSError as error:
            await self.stop()
            raise CannotServeError(f"cannot listen on {address}: {error.strerror or error}") from None
        self.doors.append(door)
        host, port = door.address
        log.info("%s door open on %s:%d%s", name, host, port, " with TLS" if self._settings.tls else "")

    def _kubemq_door(self, credentials: Credentials | None) -> KubemqDoor:
        # Whatever peers do wrong is theirs to hear, not the log's. The library reads this when it is first imported.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        from fumarole.doors.kubemq import Certificate, KubemqDoor

        tls, certificate = self._settings.tls, None
        if tls is not None:
            # grpc.aio cannot ask for certificates that clients need not have: `optional` is not to ask.
            required = tls.client_authority is not None and tls.client_certificates == "required"
            authority = tls.client_authority.read_bytes() if required and tls.client_authority else None
            certificate = Certificate(tls.key.read_bytes(), tls.certificate.read_bytes(), authority)
        check = None if credentials is None else lambda token: credentials.check(None, None, token)
        return KubemqDoor(self.node, self._settings.kubemq.namespace, certificate, check)

    async def stop(self) -> None:
        """Drains every door: no new connections, outboxes flushed, then closed."""
        seconds = self._settings.limits.drain
        if self._worker is not None:
            self._worker.placement.end()
        if self._clustering is not None:
            await self._clustering.leave()
        await asyncio.gather(*(door.drain(seconds) for door in self.doors))
        self.doors.clear()
        if self._clustering is not None:
            await self._clustering.close()
        if self._keeper is not None:
            await self._keeper.close()


async def serve(
    settings: Settings, started: Callable[[Broker], None] | None = None, worker: Worker | None = None
) -> None:
    """Runs a broker until one of the `stopping_signals`."""
    if sys.version_info[:3] in UNPAUSED_WRITES:
        log.warning("this Python has CVE-2024-12254: slow TLS clients can use up memory; any other release is better")
    broker = Broker(settings, worker)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    broker.node.batch_done = Vigil(loop.call_soon).batch_done
    for number in stopping_signals():
        loop.add_signal_handler(number, stopping.set)
    # What messages leave behind is freed by counting, so looking for cycles can be rare.
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.collect()
    await broker.start()
    # What is here now stays. It is not searched once more: others may have told of a million consumers.
    gc.freeze()
    log.info("fumarole %s, hot path: %s", __version__, broker.engine.name)
    if settings.bridges:
        log.info("[[bridges]] of the configuration are not run here: fumarole bridge --config FILE runs them")
    if started is not None:
        started(broker)
    await stopping.wait()
    log.info("stopping: %d connections to drain", broker.node.connections)
    await broker.stop()


def stopping_signals() -> list[signal.Signals]:
    """What asks this process to stop. Its terminal's end too, unless it was started to outlive that (nohup)."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


def made_up_name() -> str:
    """Of a node that was given none. No two are alike; process ids are, where each has a container of its own."""
    return f"fumarole-{uuid.uuid4().hex[:12]}"


def _allow_many_files() -> None:
    """Every connection is a file; the soft limit is often far below what the system would allow."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_authority is not None:
            context.load_verify_locations(tls.client_authority)
    except (OSError, ssl.SSLError) as error:
        raise CannotServeError(f"TLS certificate, key or authority not usable: {error}") from None
    wanted = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    context.verify_mode = wanted[tls.client_certificates]
    return context
