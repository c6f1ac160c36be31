"""Time, chance and the network of the simulation, which a seed decides."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from fumarole.cluster.cluster import LINK_OUTBOX
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.cluster.simulation import clients, faults, fresh_state
from tests.cluster.simulation.checks import History, metadata_faults, registry_faults
from tests.cluster.simulation.hosts import End, Host


class World:
    """Time, chance and the network."""

    def __init__(
        self,
        seed: int,
        nodes: int = 3,
        hot_path: HotPath | None = None,
        link_limit: int = LINK_OUTBOX,
        has_fresh_state: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.link_limit = link_limit
        self.seed = seed
        self.has_fresh_state = has_fresh_state
        """True when clients retain messages, ask for last values and have views too."""
        self.now = 0.0
        self.history = History()
        self._events: list[tuple[float, int, Callable[[], Any]]] = []
        self._count = 0
        self.cut: set[tuple[str, str]] = set()
        """Ways that are cut: from, to."""
        self.delay = 0.0
        self.churn = self.random.choice([0.02, 0.15])
        """How much of what clients do is to subscribe and unsubscribe."""
        if hot_path is None:
            hot_path = self.random.choice([PLAIN, compiled() or PLAIN])
        self.names = [f"n{number}" for number in range(nodes)]
        self.hosts = {name: Host(self, name, hot_path, b"secret") for name in self.names}
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

    def lives(self) -> dict[str, int]:
        """Of the nodes that are up: which of its lives each is in."""
        return {host.name: host.life for host in self.running if host.is_up}

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

    def play(self, seconds: float, client_every: float = 0.01, fault_every: float = 2.5) -> None:
        """Clients and faults at random, so many seconds apart; then calm, until all is well again."""
        end = self.now + seconds
        next_fault = self.now + self.random.expovariate(1 / fault_every) if fault_every else end + 1
        while self.now < end:
            self.run(self.random.expovariate(1 / client_every))
            clients.do_something(self)
            if self.now >= next_fault:
                faults.random_fault(self)
                next_fault = self.now + self.random.expovariate(1 / fault_every)
        self.run(16.0)
        if self.has_fresh_state:
            clients.ask_for_last(self)
            self.run(3.0)

    def faults(self) -> list[str]:
        """All that is not as it must be."""
        fresh = fresh_state.faults(self) if self.has_fresh_state else []
        return registry_faults(self) + metadata_faults(self) + self.history.faults() + fresh
