"""One end of one connection between two nodes: the handshake, then frames.

Each node dials each other twice, once for each lane, and is dialed twice: what a node has to say to a peer, it says on
the data lane that it dialed itself, and the answers (how much the peer knows by now) come back on it. So there is never
a question which of two connections counts.

    dialing node                    dialed node
    hello  ──────────────────────▶
           ◀──────────────────────  hello
    proof  ──────────────────────▶
           ◀──────────────────────  proof, and the addresses of the others
    changes, whole, messages … ──▶
           ◀──────────────────────  known

A lane has the verbs of a session (`receive_data`, `tick`, …). It is a `Reader`, and the `PeerLinkFallback` of a
compiled one (sessions/reader.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fumarole.cluster.identity import check_hello, check_proof, prove, shown
from fumarole.core.errors import FumaroleError
from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import BEFORE_GROUP, Exchange
from fumarole.exchange.outbox import Outbox, Overflow
from fumarole.exchange.plans import Plans
from fumarole.protocols.cluster_protocol import (
    MESSAGE_BYTES,
    ClusterProtocolError,
    Forwarded,
    Frame,
    Hello,
    LinkProtocol,
    Proof,
    Refusal,
    Rest,
    Spoken,
    frame,
)
from fumarole.protocols.stream import Data
from fumarole.sessions.stream import State

if TYPE_CHECKING:
    from fumarole.cluster.cluster import Cluster
    from fumarole.cluster.peer import Peer

HANDSHAKE_BYTES = 64 * 1024
"""Outbox of a lane whose peer has proved nothing."""
HANDSHAKE_SECONDS = 2.0
REASON = 128
"""Characters of a peer's sentence that are shown."""
WORK_OF_A_FRAME = 10


class Lane:
    """START until both have proved themselves, then OPEN, at last CLOSED."""

    claim = None
    waits_for_room = False
    unfinished = False

    def __init__(
        self,
        cluster: Cluster,
        owner: Any,
        *,
        dialed: str = "",
        lane: str = "",
        host: str = "",
        trusted: bool = True,
    ) -> None:
        self.node = cluster.node
        self.cluster = cluster
        self.state = State.START
        self.peer: Peer | None = None
        self.address = dialed
        """The address that this node dialed; empty: the other node dialed."""
        self.dialed = bool(dialed)
        self.name = lane
        self.heard = False
        self.spent = 0
        self.marked: float | None = None
        """What comes now was said at this time of the peer's clock, or later."""
        self.remote_host = host
        self.why = ""
        """Why it ended, where that was said."""
        self.other: Hello | None = None
        self._own: Hello | None = None
        self._trusted = trusted
        """Is this address allowed, where there is no secret?"""
        self._deadline = cluster.now + HANDSHAKE_SECONDS
        self._protocol = LinkProtocol(max(self.node.limits.payload, MESSAGE_BYTES))
        self.exchange: Exchange | None = None
        self.plans: Plans | None = None
        parts = self.node.parts
        self.outbox: Outbox = parts.outbox(
            HANDSHAKE_BYTES, Overflow.DISCONNECT, parts.counters(), self.node.ready, owner
        )
        self._rested: dict[tuple[str, str], float] = {}
        """When the peer was last told that a group has no room here."""
        self._keys: dict[bytes, tuple[Exchange, tuple[str, ...]]] = {}
        if dialed:
            self._say_hello()

    # The verbs of the pump.

    def receive_data(self, data: Data) -> None:
        self.heard = True
        self.spent = 0
        if self.state is State.CLOSED:
            return
        self._protocol.receive_data(data)
        try:
            while not self.close_expected() and (event := self._protocol.next_event()) is not None:
                self.spent += WORK_OF_A_FRAME
                if isinstance(event, Forwarded):
                    self._deliver(event)
                elif self.state is State.OPEN:
                    assert self.peer is not None
                    self.peer.take(self, event)
                else:
                    self._shake_hands(event)
        except ClusterProtocolError as error:
            # Bytes that are no frame: the other end is no node, or another door of a node.
            doubt = "; is it the `cluster` address of the other node?" if self.dialed and self.other is None else ""
            self.refuse(error.kind + doubt, *error.details)

    def wanted(self) -> int:
        return self._protocol.wanted()

    def reclaim(self) -> bytes:
        return self._protocol.reclaim()

    def go_on(self) -> None:
        """Nothing is ever put off."""

    def receive_eof(self) -> None:
        self.close()

    def close_expected(self) -> bool:
        return self.state is State.CLOSED

    def tick(self, now: float) -> None:
        if self.state is State.START and now > self._deadline:
            self.refuse("the handshake took too long")

    def fail(self, text: str) -> None:
        """Something here is wrong with this lane; the peer is told so."""
        self.refuse(text)

    def refuse(self, kind: str, *details: object) -> None:
        """Tells the peer why, says so here too, and ends."""
        if self.state is not State.CLOSED:
            self.outbox.push(frame(Refusal(kind % details)))
            # A kind of line for each reason: noise, or another's mistake, must not keep unsaid why a node is refused.
            what = "%s: " if self.other is None else "%s is refused: "
            self.cluster.warn(what + kind, self.whom(), *details)
            self.why = kind % details
            self.cluster.refused += 1
            self.close()

    def refill(self) -> None:
        """A lane makes nothing only when there is room for it."""

    def close(self) -> None:
        if self.state is not State.CLOSED:
            self.state = State.CLOSED
            self.cluster.closed(self)
            self.node.ready.append(self.outbox.owner)

    def push(self, what: Frame) -> None:
        if self.state is not State.CLOSED:
            self.outbox.push(frame(what))

    def whom(self) -> str:
        """The other end, for people."""
        if self.other is not None:
            return f"node {shown(self.other.node)} at {self.address or self.remote_host or 'a local socket'}"
        return f"peer at {self.address or self.remote_host or 'a local socket'}"

    # The handshake.

    def _say_hello(self) -> None:
        self._own = self.cluster.hello(self.name)
        self.push(self._own)

    def _shake_hands(self, said: Frame) -> None:
        if isinstance(said, Refusal):
            self.cluster.warn("%s refused this node: %s", self.whom(), shown(said.reason, REASON))
            self.why = f"refused: {shown(said.reason, REASON)}"
            self.close()
        elif isinstance(said, Hello) and self.other is None:
            self.other = said
            if not self.dialed:
                self.name = said.lane
                if not self._trusted:
                    raise ClusterProtocolError(
                        "without a cluster secret or TLS, only nodes of the same machine are let in"
                    )
                self._say_hello()
            assert self._own is not None
            check_hello(self._own, said)
            if said.lane != self.name:
                raise ClusterProtocolError("the answer is for another lane")
            if self.dialed:
                self.cluster.meets(self, said.node)
                self.push(Proof(prove(self.cluster.secret, "dialed", self._own, said)))
        elif isinstance(said, Proof) and self.other is not None:
            assert self._own is not None
            if self.dialed:
                check_proof(self.cluster.secret, "accepted", self._own, self.other, said)
            else:
                check_proof(self.cluster.secret, "dialed", self.other, self._own, said)
            self.cluster.admit(self)
            if not self.dialed:
                digest = prove(self.cluster.secret, "accepted", self.other, self._own)
                self.push(Proof(digest, self.cluster.addresses()))
            self._protocol.trusted = True
            self.state = State.OPEN
            self.cluster.opened(self, said.peers)
        else:
            raise ClusterProtocolError("the handshake is out of order")

    # Messages.

    def is_stale(self) -> bool:
        """Is what comes now too old to be delivered? It may have waited on the way, or in a loop that stood still."""
        if self.marked is None or self.peer is None:
            return False
        return self.peer.lateness.of(self.marked, self.cluster.now) > self.cluster.timing.oldest

    def find(self, key: bytes) -> tuple[Exchange, tuple[str, ...]] | None:
        """The exchange and the groups that a key means; None: there is no such namespace here, as yet."""
        found = self._keys.get(key)
        if found is not None and found[0].is_alive:
            return found
        name, *groups = key.split(BEFORE_GROUP)
        exchange = self.cluster.exchange(name)
        if exchange is None:
            self._keys.pop(key, None)
            return None
        if len(self._keys) >= KEYS_KEPT:
            self._keys.clear()
        found = self._keys[key] = exchange, tuple(group.decode("utf-8", "replace") for group in groups)
        return found

    def _deliver(self, event: Forwarded) -> None:
        if self.plans is None:
            raise ClusterProtocolError("a message that has no place here")
        found = self._find_fresh(event.key)
        if found is None:
            return
        exchange, groups = found
        try:
            plan = exchange.own_plans().find(event.topic)
            publication = Publication(event.topic.decode(), event.payload, event.reply.decode(), event.headers)
        except (FumaroleError, UnicodeDecodeError):
            self.count_late(found)
            return
        assert self.peer is not None
        publication.node = self.peer.name
        exchange.deliver(plan, publication, groups, self.nearly_full)

    def nearly_full(self, exchange: Exchange, group: str, members: tuple[Consumer, ...]) -> None:
        """The members of a group that are here will soon have no room. The peer chooses others, for a while (G3)."""
        now = self.cluster.now
        if now - self._rested.get((exchange.name, group), -REST) < REST / 2:
            return
        if not any(member.outlet.has_room(exchange.reserve) for member in members):
            if len(self._rested) >= KEYS_KEPT:
                self._rested.clear()
            self._rested[exchange.name, group] = now
            self.push(Rest(exchange.name, group, REST))

    def deliver_reading(self, said: Spoken) -> None:
        """A message that is a reading (C6)."""
        found = self._find_fresh(said.key)
        if found is None:
            return
        try:
            assert self.peer is not None
            self.cluster.metadata.deliver(said, *found, self.nearly_full, self.peer.name)
        except FumaroleError:
            self.count_late(found)

    def _find_fresh(self, key: bytes) -> tuple[Exchange, tuple[str, ...]] | None:
        """What the key of a message means; None: it is not to be delivered, and that is counted."""
        assert self.peer is not None
        self.peer.received += 1
        found = self.find(key)
        if found is None or self.is_stale():
            self.count_late(found)
            return None
        return found

    def count_late(self, found: tuple[Exchange, tuple[str, ...]] | None) -> None:
        """A message is not delivered: it is too old, or of a namespace or on a topic that this node does not have."""
        assert self.peer is not None
        if self.is_stale():
            self.peer.too_old += 1
        elif found is None:
            self.peer.astray += 1
        if found is not None:
            found[0].counters.strayed += 1


KEYS_KEPT = 4_096
REST = 0.5
"""Seconds for which a group whose members are full is left in peace."""
