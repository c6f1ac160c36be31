"""A cluster in one process: the real pure parts, on a network, clocks and faults that a seed decides.

Every node has a real `Cluster`, real exchanges and (by the seed) the compiled or the plain loops; what is simulated is what
is below: connections are ordered and lose nothing while they last, bytes take a while, come in pieces, wait while the way is
cut, and are gone when either end resets. Clocks of nodes have nothing to do with each other.

Clients are simulated too, and write down everything: what was published when and where, what was confirmed, what arrived.
`History.faults` then says what must not have happened, by the numbers of the invariants S1 to S9.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fumarole.cluster.cluster import Cluster
from fumarole.cluster.identity import NONCE_BYTES, Identity
from fumarole.cluster.lane import Lane
from fumarole.core.publication import Publication
from fumarole.core.topic import matches, parse_wildcards
from fumarole.doors.pump import flush
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox
from fumarole.fastpath.engine import PLAIN, Engine, compiled

TICK = 0.05
WINDOW = 64 * 1024
"""Bytes on the way in one direction of a connection; then the sender waits."""
NOTICED = 2.3
"""Seconds after which a fault is noticed by everybody, ticks and delays included."""
HEALED = 3.0
"""Seconds after which all is as if there had been no fault (C4)."""
TOPICS = ["a.x", "a.y", "b.x", "b.y.z", "c"]
PATTERNS = ["a.*", "a.x", "b.>", "*.x", ">", "c", "b.y.z"]


class End:
    """One end of a connection: what the asyncio link's `Connection` is in real life."""

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
        make = self.host.engine.link_reader
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


class Ear:
    """A consumer's connection, as an outlet that writes down what it hears."""

    echo = True

    def __init__(self, host: Host, name: int, pattern: str, group: str) -> None:
        self.host = host
        self.name = name
        self.label = str(name)
        self.pattern = pattern
        self.group = group
        self.asked = host.world.now
        self.confirmed: float | None = None
        self.left: float | None = None
        self.life = host.life
        self.room = 1 << 30
        self.heard: list[tuple[float, int]] = []
        self.consumer: Consumer | None = None

    def has_room(self, weight: int) -> bool:
        return weight <= self.room

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self.heard.append((self.host.world.now, int(publication.payload)))


class Host:
    """A machine with one node on it, and the network as that node sees it."""

    def __init__(self, world: World, name: str, engine: Engine, secret: bytes) -> None:
        self.world = world
        self.name = name
        self.engine = engine
        self.secret = secret
        self.clock = world.random.uniform(0, 1e6)
        self.is_up = False
        self.paused = False
        self.life = 0
        self.put_off: list[Callable[[], None]] = []
        self.ends: dict[End, None] = {}
        self.ears: list[Ear] = []
        self.cluster: Cluster
        self.node: Node

    def now(self) -> float:
        return self.world.now + self.clock

    def start(self, peers: list[str]) -> None:
        self.is_up, self.paused = True, False
        self.life += 1
        parts = self.engine.parts
        self.node = Node(self.name, "0", namespaces=Namespaces(parts=parts), parts=parts)
        random = self.world.random
        identity = Identity(self.name, "test", "0", self.life, self.name)
        self.cluster = Cluster(
            self.node, identity, self, lambda: random.randbytes(NONCE_BYTES), self.now(), self.secret
        )
        self.cluster.node.namespaces.join("default")
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

    def subscribe(self, pattern: str, group: str) -> Ear:
        world = self.world
        ear = Ear(self, len(world.history.ears), pattern, group)
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        ear.consumer = exchange.consumer(ear, pattern, group, b"1")
        exchange.subscribe(ear.consumer)
        self.ears.append(ear)
        world.history.ears.append(ear)
        confirmations = self.node.confirmations
        confirmations.after(confirmations.ticket(), lambda: setattr(ear, "confirmed", world.now))
        self.flush()
        return ear

    def unsubscribe(self, ear: Ear) -> None:
        ear.left = self.world.now
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        assert ear.consumer is not None
        exchange.unsubscribe(ear.consumer)
        self.ears.remove(ear)
        self.flush()

    def publish(self, topic: str) -> None:
        exchange = self.node.namespaces.get("default")
        assert exchange is not None
        number = self.world.history.publish(self, topic)
        exchange.publish(exchange.plans().find(topic.encode()), Publication(topic, str(number).encode()))
        self.flush()


@dataclass
class Published:
    at: float
    host: Host
    topic: str
    life: int


@dataclass
class History:
    """All that clients saw, and what faults there were."""

    published: list[Published] = field(default_factory=list)
    ears: list[Ear] = field(default_factory=list)
    touched: list[tuple[float, float, frozenset[str]]] = field(default_factory=list)
    """From when to when which nodes were not themselves; a cut touches both of its sides."""

    def publish(self, host: Host, topic: str) -> int:
        self.published.append(Published(host.world.now, host, topic, host.life))
        return len(self.published) - 1

    def is_calm(self, at: float, names: set[str], before: float = HEALED, after: float = 0.5) -> bool:
        """Was no fault near these nodes, before or just after?"""
        return not any(begin - after <= at <= end + before and names & nodes for begin, end, nodes in self.touched)

    def is_noticed(self, at: float, names: set[str]) -> bool:
        """The same, or has the fault been there for so long that everybody has noticed?"""
        return not any(
            (begin - 0.5 <= at <= begin + NOTICED or end - 0.5 <= at <= end + HEALED) and names & nodes
            for begin, end, nodes in self.touched
        )

    def faults(self) -> list[str]:
        found: list[str] = []
        got: dict[int, list[Ear]] = defaultdict(list)
        for ear in self.ears:
            waited = (ear.confirmed or ear.left or ear.host.world.now) - ear.asked
            if waited > NOTICED and self.is_calm(ear.asked, {ear.host.name}, before=0.0, after=waited):
                found.append(f"C2 consumer {ear.name} waited {waited:.1f} s to be confirmed")
            latest: dict[Host, int] = {}
            for at, number in ear.heard:
                message = self.published[number]
                got[number].append(ear)
                if not matches(parse_wildcards(ear.pattern), message.topic.split(".")):
                    found.append(f"S2 message {number} on {message.topic} went to {ear.pattern}")
                if latest.get(message.host, -1) >= number:
                    found.append(f"S4 or S1 consumer {ear.name} heard {number} after {latest[message.host]}")
                latest[message.host] = number
                if at - message.at > 5.0:
                    found.append(f"S9 message {number} came {at - message.at:.1f} s late to consumer {ear.name}")
        groups: dict[str, list[Ear]] = defaultdict(list)
        for ear in self.ears:
            if ear.group:
                groups[ear.group].append(ear)
        for number, message in enumerate(self.published):
            found += self._one(number, message, got[number], groups)
        return found

    def _one(self, number: int, message: Published, got: list[Ear], groups: dict[str, list[Ear]]) -> list[str]:
        found = []
        words = message.topic.split(".")
        for ear in self.ears:
            missed = not ear.group and ear not in got and self._was_there(ear, message, words)
            if missed and self.is_calm(message.at, {message.host.name, ear.host.name}):
                where = f"message {number} of {message.host.name} missed consumer {ear.name} of {ear.host.name}"
                found.append(f"S6/S8 {where}")
        for group, members in groups.items():
            served = [ear for ear in got if ear.group == group]
            if len(served) > 1:
                found.append(f"S1 message {number} went to group {group} {len(served)} times")
            there = [ear for ear in members if self._was_there(ear, message, words)]
            if there and not served:
                # The choice may fall on any member, and one whose node has just failed takes the message with it.
                about = {
                    ear.host.name for ear in members if ear.confirmed is not None and ear.confirmed <= message.at + 1
                }
                stable = all(ear in there for ear in members if _overlaps(ear, message.at))
                healthy = any(self.is_calm(message.at, {ear.host.name, message.host.name}) for ear in there)
                if stable and healthy and self.is_noticed(message.at, about | {message.host.name}):
                    found.append(f"S5 message {number} of {message.host.name} missed group {group}")
        return found

    def _was_there(self, ear: Ear, message: Published, words: list[str]) -> bool:
        return (
            ear.confirmed is not None
            and ear.confirmed <= message.at
            and (ear.left is None or ear.left > message.at + 1.0)
            and matches(parse_wildcards(ear.pattern), words)
        )


def _overlaps(ear: Ear, at: float) -> bool:
    """Was this consumer, or could somebody think that it was, there about this time?"""
    return ear.left is None or ear.left > at - 1.0


class World:
    """Time, chance and the network."""

    def __init__(self, seed: int, nodes: int = 3, engine: Engine | None = None) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.now = 0.0
        self.history = History()
        self._events: list[tuple[float, int, Callable[[], Any]]] = []
        self._count = 0
        self.cut: set[tuple[str, str]] = set()
        """Ways that are cut: from, to."""
        self.delay = 0.0
        self.churn = self.random.choice([0.02, 0.15])
        """How much of what clients do is to subscribe and unsubscribe."""
        if engine is None:
            engine = self.random.choice([PLAIN, compiled() or PLAIN])
        self.names = [f"n{number}" for number in range(nodes)]
        self.hosts = {name: Host(self, name, engine, b"secret") for name in self.names}
        self.running: list[Host] = list(self.hosts.values())

    def start(self) -> None:
        """Each node is given one other, at random, that was started before it."""
        for number, host in enumerate(self.running):
            host.start([self.random.choice(self.names[:number])] if number else [])
            self.run(0.1)
        self.run(3.0)

    def after(self, seconds: float, call: Callable[[], Any]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, call))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, call = heapq.heappop(self._events)
            call()
        self.now = until

    def latency(self) -> float:
        return self.random.uniform(0.0001, 0.002) + self.delay

    def is_open(self, source: Host, target: Host) -> bool:
        return (source.name, target.name) not in self.cut

    def carry(self, end: End, data: bytes | None) -> None:
        """Bytes leave one end, or (None) it closes. They arrive in order, while the way is open and the machine is up."""
        end.on_the_way.append(data)
        if len(end.on_the_way) == 1:
            self.after(self.latency(), lambda: self._arrive(end))

    def _arrive(self, end: End) -> None:
        """What is first on the way arrives, or is sent again later: nothing overtakes it."""
        other = end.other
        assert other is not None
        # TCP needs both ways: nothing goes on where even the acknowledgements are lost.
        if not (self.is_open(end.host, other.host) and self.is_open(other.host, end.host)):
            self.after(0.2, lambda: self._arrive(end))
            return
        data = end.on_the_way.popleft()
        if end.on_the_way:
            self.after(self.latency(), lambda: self._arrive(end))
        if data is None:
            other.host.run(lambda: other.arrive(None))
            return
        end.bytes_on_the_way -= len(data)
        cut = self.random.randrange(len(data) + 1) if self.random.random() < 0.2 else len(data)
        other.host.run(lambda: other.arrive(data[:cut]))
        if cut < len(data):
            other.host.run(lambda: other.arrive(data[cut:]))
        end.host.run(end.flush)

    # Faults. Each says how long it lasts and whom it touches.

    def touch(self, begin: float, end: float, hosts: list[Host]) -> None:
        self.history.touched.append((begin, end, frozenset(host.name for host in hosts)))

    def pause(self, host: Host, seconds: float) -> None:
        self.touch(self.now, self.now + seconds, [host])
        host.pause()
        self.after(seconds, host.resume)

    def crash(self, host: Host, seconds: float) -> None:
        self.touch(self.now, self.now + seconds, [host])
        host.kill()
        others = [name for name in self.names if name != host.name]
        self.after(seconds, lambda: host.start(self.random.sample(others, min(2, len(others)))))

    def partition(self, side: list[Host], seconds: float, one_way: bool) -> None:
        rest = [host for host in self.running if host not in side]
        cut = {(one.name, other.name) for one in side for other in rest}
        if not one_way:
            cut |= {(other, one) for one, other in cut}
        self.touch(self.now, self.now + seconds, self.running)
        self.cut |= cut
        self.after(seconds, lambda: self.cut.difference_update(cut))

    def slow(self, seconds: float) -> None:
        """Within what is forgiven: nobody is given up, and nothing is lost."""
        self.delay = self.random.uniform(0.05, 0.25)
        self.touch(self.now, self.now + seconds, self.running)
        self.after(seconds, lambda: setattr(self, "delay", 0.0))

    def reset_a_lane(self, host: Host) -> None:
        ends = [end for end in host.ends if not end.closed]
        if ends:
            end = self.random.choice(ends)
            assert end.other is not None
            self.touch(self.now, self.now, [host, end.other.host])
            end.other.host.run(lambda: end.other.arrive(None))  # type: ignore[union-attr]
            host.run(lambda: end.arrive(None))

    def random_fault(self) -> None:
        up = [host for host in self.running if host.is_up and not host.paused]
        if not up:
            return
        host, random = self.random.choice(up), self.random
        kind = random.randrange(7)
        if kind == 0:
            self.pause(host, random.uniform(0.1, 1.0))
        elif kind == 1:
            self.pause(host, random.uniform(2.0, 12.0))
        elif kind == 2:
            self.crash(host, random.uniform(0.0, 4.0))
        elif kind in (3, 4):
            side = random.sample(self.running, random.randint(1, len(self.running) - 1))
            self.partition(side, random.uniform(0.5, 6.0), one_way=kind == 4)
        elif kind == 5:
            self.slow(random.uniform(1.0, 3.0))
        else:
            self.reset_a_lane(host)

    # Clients.

    def random_client(self) -> None:
        up = [host for host in self.running if host.is_up and not host.paused]
        if not up:
            return
        host, random = self.random.choice(up), self.random
        host.cluster.wake(host.now())
        chance = random.random()
        if chance < 1 - self.churn:
            host.publish(random.choice(TOPICS))
        elif chance < 1 - self.churn / 3 or not host.ears:
            if len(host.ears) < 12:
                host.subscribe(random.choice(PATTERNS), random.choice(["", "", "g", "h"]))
        else:
            host.unsubscribe(random.choice(host.ears))

    def play(self, seconds: float, clients: float = 0.01, faults: float = 2.5) -> None:
        """Clients and faults at random, so many seconds apart; then calm, until all is well again."""
        end = self.now + seconds
        next_fault = self.now + self.random.expovariate(1 / faults) if faults else end + 1
        while self.now < end:
            self.run(self.random.expovariate(1 / clients))
            self.random_client()
            if self.now >= next_fault:
                self.random_fault()
                next_fault = self.now + self.random.expovariate(1 / faults)
        self.run(16.0)

    def registry_faults(self) -> list[str]:
        """S7: everybody knows everybody's consumers, and nobody else's."""
        found = []
        up = [host for host in self.running if host.is_up]
        for host in up:
            there = {(entry.namespace, entry.pattern, entry.group): entry.count for entry in host.cluster.own}
            exchange = host.node.namespaces.get("default")
            assert exchange is not None
            if exchange.elsewhere != sum(len(peer.others) for peer in host.cluster.peers.values()):
                found.append(f"S7 {host.name} remembers consumers of a node that is gone")
            live: dict[tuple[str, str, str], int] = defaultdict(int)
            for ear in host.ears:
                live["default", ear.pattern, ear.group] += 1
            if there != dict(live):
                found.append(f"S7 {host.name} counts {there}, but has {dict(live)}")
            for other in up:
                peer = other.cluster.peers.get(host.name)
                if other is host:
                    continue
                if peer is None or not peer.is_linked():
                    found.append(f"S7 {other.name} does not see {host.name}")
                elif peer.others.entries() != there:
                    found.append(f"S7 {other.name} thinks {host.name} has {peer.others.entries()}, not {there}")
        return found

    def faults(self) -> list[str]:
        return self.registry_faults() + self.history.faults()
