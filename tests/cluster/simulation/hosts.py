"""Machines of the simulation: on each a node with real pure parts, and what is below them simulated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fumarole.cluster.cluster import Cluster
from fumarole.cluster.identity import NONCE_BYTES, Identity
from fumarole.cluster.lane import Lane
from fumarole.core import headers
from fumarole.core.publication import Publication
from fumarole.doors.flushing import flush
from fumarole.exchange.gathering import Last
from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox
from fumarole.exchange.presence import Speaking
from fumarole.exchange.readings import Reading
from fumarole.fastpath.hot_path import HotPath
from tests.cluster.simulation.clients import Ear
from tests.cluster.simulation.fresh_state import VIEWS, Viewer

if TYPE_CHECKING:
    from tests.cluster.simulation.world import World

TICK = 0.05
WALL = 1.7e9
"""Seconds of the clock on the wall when the simulation begins."""
TOPICS = None, "readings.plant", "readings.secret"
"""Of readings, by how many keys they delete; None: the producer's own."""
WINDOW = 64 * 1024
"""Bytes on the way in one direction of a connection; then the sender waits."""


class End:
    """One end of a connection: what the pump is on a socket."""

    def __init__(self, world: World, host: Host) -> None:
        self.world = world
        self.host = host
        self.lane: Lane | None = None
        self.reader: Any = None
        self.other: End | None = None
        self.outbox: Outbox | None = None
        self.closed = False
        self.on_the_way: deque[bytes | None] = deque()
        """None: the end of it."""
        self.bytes_on_the_way = 0
        self.sent = 0

    def begin(self, lane: Lane) -> None:
        self.lane = lane
        self.adopt(lane.outbox)
        make = self.host.hot_path.peer_link_reader
        self.reader = lane if make is None else make(lane)
        self.host.flush()

    def adopt(self, outbox: Outbox) -> None:
        self.outbox = outbox

    def flush(self) -> None:
        if self.closed or self.lane is None or self.outbox is None:
            return
        if self.lane.close_expected():
            if self.lane.peer is None:
                self._transmit(self.outbox.take())
            self.reset()
            return
        while self.outbox.size and self.bytes_on_the_way < WINDOW:
            self._transmit(self.outbox.take(WINDOW))

    def _transmit(self, data: bytes) -> None:
        if data:
            self.bytes_on_the_way += len(data)
            self.sent += len(data)
            self.world.carry(self, data)

    def reset(self) -> None:
        """Closed by this end: what is on the way from here is gone, and the other end notices, if it can."""
        if not self.closed:
            self.closed = True
            if self.on_the_way:
                self.on_the_way.clear()  # the event that is under way for the first finds the end instead
                self.on_the_way.append(None)
            else:
                self.world.carry(self, None)

    def arrive(self, data: bytes | None) -> None:
        """From the other end; None: it has closed."""
        if self.closed or self.lane is None:
            return
        if data is None:
            self.closed = True
            self.lane.receive_eof()
        else:
            self.reader.receive_data(data)
            while self.reader.unfinished:
                self.reader.go_on()
        self.host.flush()


class Host:
    """A machine with one node on it, and the network as that node sees it."""

    def __init__(self, world: World, name: str, hot_path: HotPath, secret: bytes) -> None:
        self.world = world
        self.name = name
        """Of the machine, which is its address."""
        self.called = name
        """What the node on it calls itself."""
        self.hot_path = hot_path
        self.secret = secret
        self.clock = world.random.uniform(0, 1e6)
        self.is_up = False
        self.paused = False
        self.life = 0
        self.put_off: list[Callable[[], None]] = []
        self.ends: dict[End, None] = {}
        self.ears: list[Ear] = []
        self.speaking = Speaking()
        self.viewers: list[Viewer] = []
        self.cluster: Cluster
        self.node: Node

    def now(self) -> float:
        return self.world.now + self.clock

    def start(self, peers: list[str]) -> None:
        self.is_up, self.paused = True, False
        self.life += 1
        parts = self.hot_path.parts
        clock = HybridClock(lambda: WALL + self.world.now)
        rules = {"default": NamespaceRules(last="all" if self.world.has_fresh_state else "retained")}
        namespaces = Namespaces(rules=rules, parts=parts, clock=clock)
        self.node = Node(self.called, "0", namespaces=namespaces, parts=parts)
        random = self.world.random
        identity = Identity(self.called, "test", "0", self.life, self.name)
        self.cluster = Cluster(
            self.node,
            identity,
            self,
            lambda: random.randbytes(NONCE_BYTES),
            self.now(),
            self.secret,
            link_limit=self.world.link_limit,
        )
        self.cluster.node.namespaces.join("default")
        self.cluster.node.namespaces.timers.run(self.now())
        self.speaking = Speaking()
        self.viewers = [Viewer(self, text) for text in VIEWS] if self.world.has_fresh_state else []
        for peer in peers:
            self.cluster.contact(peer, given=True)
        self._tick(self.life)

    def kill(self) -> None:
        self.is_up = False
        self.put_off.clear()
        for end in list(self.ends):
            end.reset()
        self.ends.clear()
        for ear in self.ears:
            ear.left = self.world.now if ear.left is None else ear.left
        self.ears.clear()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        waiting, self.put_off = self.put_off, []
        for call in waiting:
            self.run(call)

    def run(self, call: Callable[[], None]) -> None:
        """Something happens on this machine, now or when the process goes on."""
        if self.is_up and self.paused:
            self.put_off.append(call)
        elif self.is_up:
            self.cluster.wake(self.now())
            call()

    def _tick(self, life: int) -> None:
        if life != self.life or not self.is_up:
            return

        def tick() -> None:
            self.cluster.tick(self.now())
            self.node.namespaces.timers.run(self.now())
            for end in list(self.ends):
                if end.closed:
                    del self.ends[end]
                elif end.lane is not None:
                    end.lane.tick(self.now())
            self.flush()
            self.world.after(TICK * self.world.random.uniform(0.9, 1.1), lambda: self._tick(life))

        if self.paused:
            self.put_off.append(tick)
        else:
            tick()

    def flush(self) -> None:
        flush(self.node.ready)

    # The network of the cluster.

    def dial(self, address: str, lane: str) -> None:
        world, life = self.world, self.life
        target = world.hosts[address]

        def connect() -> None:
            if life != self.life:
                return
            if not target.is_up or not world.is_open(self, target) or not world.is_open(target, self):
                delay = 1.0 if target.is_up else 0.001
                world.after(delay, lambda: self.run(lambda: self.unreachable(address, lane)))
                return
            near, far = End(world, self), End(world, target)
            near.other, far.other = far, near
            self.ends[near] = None
            target.ends[far] = None
            target.run(lambda: far.begin(target.cluster.accepted(far)))
            self.run(lambda: near.begin(self.cluster.dialed(near, address, lane)))

        world.after(world.latency(), connect)

    def unreachable(self, address: str, lane: str) -> None:
        self.cluster.unreachable(address, lane)

    # Clients.

    def subscribe(self, pattern: str, group: str, last: Last = Last.NONE) -> Ear:
        world = self.world
        ear = Ear(self, len(world.history.ears), pattern, group, last)
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        ear.consumer = exchange.consumer(ear, pattern, group, b"1")
        exchange.subscribe(ear.consumer, last=last)
        self.ears.append(ear)
        world.history.ears.append(ear)
        confirmations = self.node.confirmations
        confirmations.after(confirmations.ticket(), lambda: self._confirmed(ear))
        self.flush()
        return ear

    def _confirmed(self, ear: Ear) -> None:
        ear.confirmed = self.world.now
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        assert ear.consumer is not None
        exchange.send_last(ear.consumer)

    def unsubscribe(self, ear: Ear) -> None:
        ear.left = self.world.now
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        assert ear.consumer is not None
        exchange.unsubscribe(ear.consumer)
        self.ears.remove(ear)
        self.flush()

    def describe(self, producer: str, metadata: dict[str, Any]) -> None:
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        if not self.speaking.is_open:
            self.speaking = Speaking()
        topic = TOPICS[list(metadata.values()).count(None) % len(TOPICS)]
        exchange.producers.hear(Reading(producer, metadata, 1), self.now(), topic, speaking=self.speaking)
        self.flush()

    def hang_up(self) -> None:
        """The connection that speaks for producers is closed; the next description comes by another."""
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        exchange.producers.presence.leave(self.speaking)
        self.flush()

    def forget(self, producer: str) -> None:
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        exchange.producers.forget(producer)
        self.flush()

    def spoken_for(self) -> set[str]:
        """Producers that are online by a connection of this node."""
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        known = exchange.producers.known
        return {each.identity for each in self.speaking.producers if known.get(each.identity) is each}

    def described(self) -> dict[str, dict[str, Any]]:
        """All producers that this node knows of."""
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        return {producer.identity: producer.metadata for producer in exchange.producers}

    def whereabouts(self) -> dict[str, str]:
        """The topic of each one's latest reading."""
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        return {producer.identity: producer.latest()[0] for producer in exchange.producers}

    def publish(self, topic: str, retain: bool = False, is_removal: bool = False) -> None:
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        number = self.world.history.publish(self, topic, retain, is_removal)
        block = headers.build([("Number", str(number))]) if is_removal else b""
        publication = Publication(topic, b"" if is_removal else str(number).encode(), "", block)
        publication.retain = retain
        exchange.publish(exchange.plans().find(topic.encode()), publication)
        self.flush()
