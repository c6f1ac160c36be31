"""A broker's part in a cluster: its link to the others, made from the settings."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fumarole.cluster.identity import Identity
from fumarole.cluster.peer_link import UNIX, PeerLink, remove_socket
from fumarole.cluster.pulse import Timing
from fumarole.config.consistency import first_line
from fumarole.config.settings import Links, Settings
from fumarole.config.values import Address
from fumarole.doors.http import HttpDoor
from fumarole.doors.nats import NatsDoor
from fumarole.doors.registry import Listener
from fumarole.exchange.node import Node
from fumarole.fastpath.hot_path import HotPath

if TYPE_CHECKING:
    from fumarole.server.workers import Worker

log = logging.getLogger(__name__)

JOIN_SECONDS = 30.0
"""A snapshot of a million consumers takes a while. No client is accepted before."""
LEAVE_SECONDS = 0.5
"""Seconds for clients to leave by themselves after they are told that this node stops."""


class Clustering:
    """`start` before the doors are open, `opened` when they are, `leave` before they close, `close` in the end."""

    def __init__(self, settings: Settings, node: Node, hot_path: HotPath, worker: Worker | None = None) -> None:
        self._settings = settings
        self._node = node
        self._appoint_heir = hot_path.appoint_heir
        self._address, self._peers = _addresses(settings, worker)
        links = settings.links
        self._reached_at = "" if links.address is None else str(_next(links.address, worker))
        # Workers are nodes to each other, though to clients they are one.
        name = node.name if worker is None else f"{node.name}/{worker.number}"
        siblings = "" if worker is None else f"{node.name}/"
        identity = Identity(name, links.name, node.version, time.time_ns())
        server_tls, client_tls = _tls(links)
        secret = b"" if links.secret_file is None else first_line(links.secret_file)
        timing = Timing(links.silence)
        self._link = PeerLink(
            node, identity, secret, timing, hot_path.peer_link_reader, server_tls, client_tls, siblings, links.outbox
        )
        self._link.on_change = self._change
        self._link.cluster.stood_still = self._stand_still
        self._doors: list[Listener] = []
        node.cluster = self._link.cluster
        node.cluster_name = "" if settings.cluster is None else links.name

    async def start(self) -> None:
        """Joins. Raises OSError where the address cannot be had."""
        settings = self._settings
        if self._appoint_heir is not None:
            self._appoint_heir()
        remove_socket(self._address)
        await self._link.open(self._address, self._peers, self._reached_at)
        is_open = self._link.is_guarded or self._address.startswith(UNIX)
        guard = "" if is_open else "; without a secret or TLS, only nodes of this machine are let in"
        log.info(
            "node %s of cluster %s on %s%s",
            self._node.name,
            settings.links.name,
            self._link.cluster.identity.address,
            guard,
        )
        # All objects made here stay: a garbage collection over them would stop the heartbeats.
        gc.disable()
        try:
            joined = await self._link.join(JOIN_SECONDS)
        finally:
            gc.enable()
        if not joined:
            log.warning("not all of the cluster could be heard in %g s; going on without", JOIN_SECONDS)
        if settings.peer and not self._link.cluster.peers:
            tried = (f"{each.address} ({each.why})" for each in self._link.cluster.missing())
            log.warning("joined no node: %s; still trying", ", ".join(tried) or "no peer but itself")

    def opened(self, doors: Sequence[Listener]) -> None:
        """Clients of other nodes may come here, should theirs go away."""
        self._link.tell_clients(tuple(_told(door) for door in doors if isinstance(door, NatsDoor | HttpDoor)))
        self._doors = list(doors)
        self._change()

    def _stand_still(self, seconds: float) -> None:
        """C4: messages that clients sent before may be too old to deliver. Clients reconnect, here or elsewhere."""
        if seconds > self._link.cluster.timing.oldest - self._link.cluster.timing.beat:
            for door in self._doors:
                door.cut_off()

    def _change(self) -> None:
        found = self._link.cluster.clients_elsewhere()
        web = [address for address in found if "://" in address]
        reachable = [address for address in found if "://" not in address]
        if (reachable, web) != (self._node.reachable, self._node.reachable_web):
            self._node.reachable, self._node.reachable_web = reachable, web
            for door in self._nats_doors():
                door.inform()

    def _nats_doors(self) -> list[NatsDoor | HttpDoor]:
        return [door for door in self._doors if isinstance(door, NatsDoor | HttpDoor)]

    async def leave(self) -> None:
        """Other nodes choose no consumers of this node any more, and clients are disconnected. Accepted messages still
        leave."""
        await self._link.leave(self._settings.links.silence)
        for door in self._nats_doors():
            door.inform(lame_duck=True)
        if self._node.connections and (self._node.reachable or self._node.reachable_web):
            await asyncio.sleep(LEAVE_SECONDS)

    async def close(self) -> None:
        await self._link.close(self._settings.links.silence)


def _addresses(settings: Settings, worker: Worker | None) -> tuple[str, tuple[str, ...]]:
    """The address of this process for other nodes, and the addresses that it dials."""
    peers = tuple(map(str, settings.peer))
    if worker is None:
        return str(settings.cluster), peers
    if settings.cluster is None:
        others = [number for number in range(worker.of) if number != worker.number]
        return worker.address(worker.number), tuple(map(worker.address, others))
    # Each worker is a node of the cluster, on a port of its own: the first on the one that is configured.
    host, port = settings.cluster.host, settings.cluster.port
    siblings = [str(Address(host, port + number)) for number in range(worker.of)]
    return siblings.pop(worker.number), (*siblings, *peers)


def _next(address: Address, worker: Worker | None) -> Address:
    return address if worker is None else Address(address.host, address.port + worker.number)


def _told(door: NatsDoor | HttpDoor) -> str:
    """The address of a door that other nodes send to their clients: without a scheme for NATS clients."""
    address = _shown(*door.address)
    return address if isinstance(door, NatsDoor) else f"{door.scheme}://{address}"


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(links: Links) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    if links.certificate is None or links.key is None or links.authority is None:
        return None, None
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        context = ssl.create_default_context(purpose, cafile=str(links.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(links.certificate, links.key)
        context.verify_mode = ssl.CERT_REQUIRED
        contexts.append(context)
    return contexts[0], contexts[1]
