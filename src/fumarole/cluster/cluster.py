"""The cluster as one node sees it: its peers, which of them are live, and what each has confirmed.

There is no leader and no log. Every node tells every other what consumers it has: first all of them, then each change,
on one ordered connection. A change is confirmed to a client when each live node has answered that it knows it (C2); a
node that is not live is not waited for, and gets everything anew when it comes back. Since each node is the only one
that speaks of its own consumers, and counts are told as they are and not as differences, nothing has to be agreed upon.

    client      node a                     node b           node c
    SUB x  ──▶  ticket 8
                changes 8  ──────────────▶ known 8 ──▶
                           ────────────────────────────────▶ known 8 ──▶
    PING   ──▶  (8 not reached: the PONG is kept)
                both have answered
          ◀──   PONG

Joining needs one address. The dialed node says in its proof which others it knows, and a node dials every one it has
heard of; the dialed node dials back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import chain, count, tee
from typing import Any, Protocol

from fumarole.cluster.client_ids import ClusterClientIds
from fumarole.cluster.contacts import Contact, Contacts, seen_from_here
from fumarole.cluster.counts import CountsTold, add_numbers
from fumarole.cluster.fresh_state import FreshState
from fumarole.cluster.identity import DATA, Identity
from fumarole.cluster.lane import Lane
from fumarole.cluster.metadata import Metadata, author
from fumarole.cluster.peer import Peer, traffic_report
from fumarole.cluster.pulse import USUAL, Timing
from fumarole.cluster.registry import Own
from fumarole.cluster.strangers import Strangers
from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.protocols.cluster_protocol import (
    Changes,
    ClusterProtocolError,
    Doors,
    Frame,
    Hello,
    Leaving,
    frame,
    message,
    slices,
)

LINK_OUTBOX = 16 * 1024 * 1024


class Network(Protocol):
    """What carries lanes: sockets, or a simulation of them."""

    def dial(self, address: str, lane: str) -> None:
        """Connects to this address. Then `Cluster.dialed` makes the lane; or `Cluster.unreachable` hears of it."""


class Cluster:
    """One node's view. `tick` it, give it lanes, and it keeps the node's exchanges in step with the others'."""

    def __init__(
        self,
        node: Node,
        identity: Identity,
        network: Network,
        nonce: Callable[[], bytes],
        now: float,
        secret: bytes = b"",
        timing: Timing = USUAL,
        warn: Callable[..., None] = lambda *_: None,
        announce: Callable[..., None] = lambda *_: None,
        link_limit: int = LINK_OUTBOX,
        siblings: str = "",
    ) -> None:
        self.node = node
        self.identity = identity
        self.network = network
        self.secret = secret
        self.timing = timing
        self.warn = warn
        self.announce = announce
        self.link_limit = link_limit
        self.now = now
        self.own = Own()
        self.peers: dict[str, Peer] = {}
        self.refused = 0
        self.evicted = 0
        """Peers that were given up."""
        self._past: Counter[str] = Counter()
        """Messages to and from peers that are evicted."""
        self.changed: Callable[[], None] = lambda: None
        """Called when a peer comes or goes."""
        self.stood_still: Callable[[float], None] = lambda _: None
        """Called after this node has slept for so long."""
        self._siblings = siblings
        """What the names of the other workers of this node begin with; empty: there are none."""
        self._nonce = nonce
        self._contacts = Contacts(network.dial, self._is_open)
        self._strangers = Strangers()
        self._evicted: set[str] = set()
        """Peers that are gone since the last tick."""
        self._leftovers: list[Peer] = []
        """Peers that are gone, and whose consumers are not all forgotten yet."""
        self._ticket = 0
        self._reached = 0
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        """A heap by ticket, since those of different clients may cross. Of one ticket the first to come is first."""
        self._arrivals = count()
        self._last_tick = now
        self._next_beat = now
        self._counts = CountsTold(node, self._broadcast, now, bool(siblings))
        self._leaving = False
        written_by = author(identity.node, identity.incarnation)
        self.metadata = metadata = Metadata(node.namespaces, written_by, self._broadcast, node.limits)
        node.namespaces.replicate(
            self._consumer_changed,
            metadata.described,
            metadata.forgotten,
            metadata.came,
            metadata.whereabouts.changed,
        )
        node.namespaces.clock.node = identity.node
        self.fresh_state = FreshState(node.namespaces, self._broadcast, self.peers.values)
        self.client_ids = ClusterClientIds(node.client_ids, self.peers.values)
        node.confirmations = self

    # Confirmations (C2).

    def ticket(self) -> int:
        return self._ticket

    def is_reached(self, ticket: int) -> bool:
        return ticket <= self._reached

    def after(self, ticket: int, call: Callable[[], None]) -> None:
        if ticket <= self._reached:
            call()
        else:
            heappush(self._waiting, (ticket, next(self._arrivals), call))

    def advance(self) -> None:
        """A peer has confirmed a ticket, or is not waited for any more."""
        known = [peer.known for peer in self.peers.values() if peer.known is not None]
        self._reached = max(self._reached, min(known, default=self._ticket))
        while self._waiting and self._waiting[0][0] <= self._reached:
            heappop(self._waiting)[2]()

    def _consumer_changed(self, exchange: Exchange, consumer: Consumer, by: int) -> None:
        entry = self.own.change(exchange, consumer, by)
        if self._leaving:
            return
        self._ticket += 1
        if self.peers:
            self._broadcast(Changes(self._ticket, (entry,)))
        if not any(peer.known is not None for peer in self.peers.values()):
            self._reached = self._ticket

    def everything(self) -> Iterator[Frame]:
        """All that this node has to say, for a peer that has just come."""
        for some in slices(self.own):
            yield Changes(0, some)
        yield from self.metadata.everything()
        yield from self.fresh_state.everything()
        yield from self.client_ids.everything()

    def _broadcast(self, what: Frame) -> None:
        said = frame(what)
        for peer in self.peers.values():
            if (True, DATA) in peer.lanes:
                peer.outbox.push(said)

    # Lanes.

    def hello(self, lane: str) -> Hello:
        return self.identity.hello(lane, self._nonce())

    def contact(self, address: str, given: bool = False) -> None:
        """A node may be reached there."""
        if address != self.identity.address:
            self._contacts.add(address, self.now, given)

    def addresses(self) -> tuple[str, ...]:
        """Of every live node, for others to dial."""
        return tuple(peer.address for peer in self.peers.values() if peer.address)

    def open_doors(self, clients: tuple[str, ...]) -> None:
        """From now on clients may come here."""
        self.identity.clients = clients
        self._broadcast(Doors(clients))

    def clients_elsewhere(self) -> list[str]:
        """Where clients may go instead of here."""
        others = (peer for peer in self.peers.values() if not peer.leaving and not self._is_sibling(peer))
        reached = (address for peer in others for address in peer.clients_from_here())
        return [address for address in dict.fromkeys(reached) if address not in self.identity.clients]

    def _is_sibling(self, peer: Peer) -> bool:
        """Is it another worker of this node?"""
        return bool(self._siblings) and peer.name.startswith(self._siblings)

    def dialed(self, owner: Any, address: str, lane: str) -> Lane:
        """A connection that this node dialed is open."""
        return Lane(self, owner, dialed=address, lane=lane)

    def accepted(self, owner: Any, host: str = "", trusted: bool = True) -> Lane:
        """A peer has connected, from this host; empty: by a local socket."""
        lane = Lane(self, owner, host=host, trusted=trusted)
        if not self._strangers.add(lane):
            lane.refuse("there are too many connections that have proved nothing yet")
        return lane

    def unreachable(self, address: str, lane: str, why: str = "") -> None:
        """No node answered there."""
        self._contacts.fail(address, lane, self.now, why)

    def admit(self, lane: Lane) -> None:
        """The peer has proved that it belongs here. May it have this lane? Raises ClusterProtocolError."""
        hello = lane.other
        assert hello is not None
        if hello.node == self.identity.node:
            if hello.incarnation == self.identity.incarnation:
                self._contacts.mark_own(lane.address)
                raise ClusterProtocolError("this is the same node")
            raise ClusterProtocolError("there is another node with the name %r", hello.node)
        peer = self.peers.get(hello.node)
        if peer is None:
            return
        if peer.hello.incarnation != hello.incarnation:
            # Either it was started again, and the old connections will be found dead any moment, or it is another.
            if peer.pulse.silence(self.now) < self.timing.doubt:
                raise ClusterProtocolError("there is a live node with the name %r already", hello.node)
            self.evict(peer, "it was started again")
        elif (lane.dialed, lane.name) in peer.lanes:
            self.evict(peer, "it has connected anew")

    def opened(self, lane: Lane, addresses: tuple[str, ...]) -> None:
        """Both have proved themselves."""
        assert lane.other is not None
        self._strangers.remove(lane)
        hello = lane.other
        peer = self.peers.get(hello.node)
        if peer is None:
            peer = self.peers[hello.node] = Peer(self, hello)
        peer.attach(lane)
        if lane.dialed:
            self._contacts.succeed(lane.address, self.now)
        else:
            peer.address = seen_from_here(hello.address, lane.remote_host)
            self.contact(peer.address)
            self._contacts.name(peer.address, peer.name)  # there may have been another before
        for address in addresses:
            self.contact(address)
        if peer.is_linked():
            peer.tick(self.now)
            self.changed()

    def closed(self, lane: Lane) -> None:
        """A lane is no more. Where it belonged to a peer, that is gone (C4: a connection lost is noticed at once)."""
        self._strangers.remove(lane)
        if lane.dialed:
            self._contacts.fail(lane.address, lane.name, self.now, lane.why, was_open=lane.peer is not None)
        peer = lane.peer
        if (
            peer is None
            or self.peers.get(peer.name) is not peer
            or peer.lanes.get((lane.dialed, lane.name)) is not lane
        ):
            return
        if peer.leaving and (lane.dialed or lane.name != DATA):
            del peer.lanes[lane.dialed, lane.name]  # what it has forwarded before it left is still to come
        else:
            self.evict(peer, "it has left" if peer.leaving else "a connection was lost")

    def evict(self, peer: Peer, why: str) -> None:
        """Takes the peer out of the cluster: its consumers are removed, and no confirmation waits for it."""
        if self.peers.get(peer.name) is not peer:
            return
        del self.peers[peer.name]
        self.evicted += 1
        if peer.is_whole or peer.is_linked() or peer.known is not None:
            self.announce("node %s is gone: %s", ascii(peer.name), why)
        peer.close()
        self._past += peer.traffic()
        self.remove_consumers(peer)
        self.metadata.evict(peer.name)
        self.fresh_state.evict(peer.name)
        self.client_ids.evict(peer.name)
        self._evicted.add(peer.name)
        self.advance()
        self.changed()

    def remove_consumers(self, peer: Peer) -> None:
        """Its consumers are no more. Very many are forgotten a part at a time, and get nothing meanwhile."""
        if not peer.others.clear():
            self._leftovers.append(peer)

    def joined(self, peer: Peer) -> None:
        """A peer has sent its whole state."""
        self.announce("node %s is here with %d consumers", ascii(peer.name), peer.others.consumers)
        self.changed()

    def is_settled(self) -> bool:
        """Was every contact tried, and has every node that was reached told everything?"""
        return self._contacts.are_settled() and all(
            peer.is_linked() and peer.is_settled() for peer in self.peers.values()
        )

    # Time.

    def tick(self, now: float) -> None:
        """Time passes; to be called several times between two beats."""
        self.wake(now)
        late = now - self._last_tick - self.timing.beat
        if late > 0:
            for peer in self.peers.values():
                peer.pulse.forgive(late)
        self._last_tick = now
        self.node.late_after = now + self.timing.oldest
        for peer in list(self.peers.values()):
            if peer.pulse.silence(now) > self.timing.eviction:
                self.evict(peer, f"nothing was heard of it for {peer.pulse.silence(now):.1f} s")
            else:
                peer.tick(now)
                peer.advance()
        if now >= self._next_beat:
            self._next_beat = now + self.timing.beat
            for peer in self.peers.values():
                peer.beat(now)
        if self._evicted:
            self._tell_again(self._evicted)
            self._evicted = set()
        self.metadata.tick(now)
        self.fresh_state.tick()
        self._counts.tick(now, self.peers.keys())
        while self._leftovers and self._leftovers[0].others.clear():
            self._leftovers.pop(0)
        if not self._leaving:
            self._contacts.dial(now)

    def _tell_again(self, gone: set[str]) -> None:
        """Sends what these have said to each other peer: it may not have it. Each frame is made once for all."""
        others = [peer for peer in self.peers.values() if (True, DATA) in peer.lanes]
        frames_of = chain(self.fresh_state.said_by(gone), self.metadata.said_by(gone))
        said = (b"" if some is None else frame(some) for some in frames_of)
        for peer, frames in zip(others, tee(said, len(others)), strict=True):
            peer.say_in_time(frames)

    def wake(self, now: float) -> None:
        """Something happens at this time; to be called before anything that has come is looked at."""
        self.now = now
        late = now - self._last_tick - self.timing.beat
        if late > self.timing.eviction:
            self._last_tick = now
            self._start_again(late)

    def _start_again(self, late: float) -> None:
        """This node has slept for so long that the others have evicted it. Messages under way to it are too old."""
        self.warn("this node stood still for %.1f s, and joins again", late)
        self.identity.incarnation += 1
        for peer in list(self.peers.values()):
            self.evict(peer, "this node stood still")
        self.stood_still(late)

    def meets(self, lane: Lane, node: str) -> None:
        """The node that was dialed. The lane is closed where it is not needed."""
        if not self._contacts.is_wanted(lane.address, lane.name, node):
            lane.close()

    def _is_open(self, node: str, lane: str) -> bool:
        """Did this node dial this lane of that node, and is it open?"""
        peer = self.peers.get(node)
        return peer is not None and (True, lane) in peer.lanes

    # Messages.

    def exchange(self, name: bytes) -> Exchange | None:
        """The exchange of a namespace; None: there is none such here, and so no consumer in it."""
        return self.node.namespaces.get(name.decode("utf-8", "replace"))

    def encode(self, key: bytes, publication: Publication) -> bytes:
        """A message on the wire."""
        if publication.reading is not None:
            return self.metadata.encode(key, publication)
        return message(
            publication.topic.encode(), key, publication.reply.encode(), publication.headers, publication.payload
        )

    # Leaving.

    def leave(self) -> int:
        """This node is about to stop: the others are to choose its consumers no more. The ticket of that."""
        self._ticket += 1
        self._broadcast(Leaving(self._ticket))
        self._leaving = True
        self.advance()
        return self._ticket

    def close(self) -> None:
        """The end."""
        self._leaving = True
        for peer in list(self.peers.values()):
            self.evict(peer, "this node stops")

    # For people.

    def missing(self) -> list[Contact]:
        """What is looked for: known nodes that are gone, and addresses where no node was found yet."""
        return self._contacts.missing(self.peers)

    def sum_up(self, namespace: str, numbers: dict[str, Any]) -> None:
        """Adds the latest counters of the other workers of this node."""
        for peer in self.peers.values():
            if self._is_sibling(peer):
                add_numbers(numbers, peer.counted.get(namespace, {}))

    def counted_elsewhere(self, namespace: str) -> dict[str, dict[str, Any]]:
        """The latest counters of each other node, by its name."""
        return {
            peer.name: dict(peer.counted.get(namespace, {}))
            for peer in sorted(self.peers.values(), key=lambda peer: peer.name)
            if not peer.leaving
        }

    def web_address(self, node: str) -> str | None:
        """Where the web door of another node is: http://HOST:PORT. None: there is no such node, or it has none."""
        peer = self.peers.get(node)
        found = [] if peer is None else [each for each in peer.clients_from_here() if "://" in each]
        return found[0] if found else None

    def report(self) -> dict[str, Any]:
        return {
            "node": self.identity.node,
            "cluster": self.identity.cluster,
            "version": self.identity.version,
            "address": self.identity.address,
            "incarnation": self.identity.incarnation,
            "consumers": self.own.consumers,
            "changes": self._ticket,
            "unconfirmed": self._ticket - self._reached,
            "refused": self.refused,
            "lost": self.evicted,
            **traffic_report(sum((peer.traffic() for peer in self.peers.values()), self._past)),
            "peers": [peer.report(self.now) for peer in sorted(self.peers.values(), key=lambda peer: peer.name)],
            "missing": [each.report(self.now) for each in sorted(self.missing(), key=lambda each: each.address)],
        }
