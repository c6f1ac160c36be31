"""Routing tables whose routes expire, usable on their own (B6).

A route leads from a key to a destination, any hashable value, until a time. Adding it again renews it; an expired one
is never given, swept or not (B2). A direct key is compared as it is; a topic key is a pattern of the AMQP dialect (T7):

    routes = Routes(time.monotonic)
    routes.add_topic("test.#", "client 1", expires=time.monotonic() + 60)
    routes.add_direct("my-direct-queue", "client 1", expires=time.monotonic() + 60)
    routes.get_topic("test.echo")            # ["client 1"]
    routes.get_direct("my-direct-queue")     # ["client 1"]

The time comes from the function given, so that tests need not wait. Each distinct topic is in the index of
`core.index` once, with all its destinations, so a renewal is one assignment in a dict. A heap has one entry for each
route, with the time that was true when it was put there; `sweep` looks only at those that are due, and puts back the
ones that were renewed meanwhile. Entries of routes that were removed stay until they are due, or until they are the
greater part: then the heap is made anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import Any, NamedTuple

from fumarole.core.index import Index
from fumarole.core.topic import parse_amqp, split_amqp

DIRECT = "direct"
TOPIC = "topic"
STALE_KEPT = 64
"""Entries of the heap without a route that are not worth making it anew."""


class Route(NamedTuple):
    """One row, as `Routes` shows it."""

    kind: str
    key: str
    destination: Any
    expires: float


class Destinations:
    """The destinations of one key. The index compares them by identity."""

    __slots__ = ("expires",)

    def __init__(self) -> None:
        self.expires: dict[Any, float] = {}


class Routes:
    """A table of direct and topic routes."""

    def __init__(self, clock: Callable[[], float], index: Callable[[], Any] = Index) -> None:
        self._clock = clock
        self._index = index()
        self._tables: dict[str, dict[str, Destinations]] = {DIRECT: {}, TOPIC: {}}
        self._held: dict[Any, int] = {}
        self._size = 0
        self._due: list[tuple[float, int, str, str, Any]] = []
        self._ticket = count()
        """Ties in time must not compare destinations."""

    def add_direct(self, key: str, dest: Hashable, expires: float) -> bool:
        """A direct route, or its renewal. True: nothing led from this key before."""
        return self._add(DIRECT, key, dest, expires)

    def add_topic(self, key: str, dest: Hashable, expires: float) -> bool:
        """A topic route, or its renewal. True: nothing led from this pattern before."""
        return self._add(TOPIC, key, dest, expires)

    def get_direct(self, key: str) -> list[Any]:
        """The destinations of this key now."""
        now = self._clock()
        destinations = self._tables[DIRECT].get(key)
        return [] if destinations is None else [dest for dest, expires in destinations.expires.items() if expires > now]

    def get_topic(self, key: str) -> list[Any]:
        """The destinations with a pattern that matches, each once however many of its patterns do (B4)."""
        now = self._clock()
        found: dict[Any, None] = {}
        for node in self._index.match(split_amqp(key)):
            for destinations in node.values or ():
                for dest, expires in destinations.expires.items():
                    if expires > now:
                        found[dest] = None
        return list(found)

    def remove_direct(self, key: str, dest: Hashable) -> bool:
        """Ends a route. False: there was none."""
        return self._remove(DIRECT, key, dest)

    def remove_topic(self, key: str, dest: Hashable) -> bool:
        """Ends a route. False: there was none."""
        return self._remove(TOPIC, key, dest)

    def sweep(self) -> list[Route]:
        """Removes the expired routes, and returns them."""
        now = self._clock()
        swept: list[Route] = []
        while self._due and self._due[0][0] <= now:
            _, _, kind, key, dest = heapq.heappop(self._due)
            destinations = self._tables[kind].get(key)
            expires = None if destinations is None else destinations.expires.get(dest)
            if expires is None:
                continue
            if expires > now:
                self._expect(kind, key, dest, expires)
            else:
                self._remove(kind, key, dest)
                swept.append(Route(kind, key, dest, expires))
        return swept

    def keys(self, kind: str) -> list[str]:
        """The direct names, or topic patterns, with routes. Expired ones are among them until they are swept."""
        return list(self._tables[kind])

    def held(self, dest: Hashable) -> int:
        """Routes that lead to this destination."""
        return self._held.get(dest, 0)

    def holds(self, kind: str, key: str, dest: Hashable) -> bool:
        """True when this route exists, so that adding it would only renew it."""
        destinations = self._tables[kind].get(key)
        return destinations is not None and dest in destinations.expires

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Route]:
        for kind, table in self._tables.items():
            for key, destinations in table.items():
                for dest, expires in destinations.expires.items():
                    yield Route(kind, key, dest, expires)

    def _add(self, kind: str, key: str, dest: Hashable, expires: float) -> bool:
        table = self._tables[kind]
        destinations = table.get(key)
        is_first = destinations is None
        if destinations is None:
            destinations = table[key] = Destinations()
            if kind == TOPIC:
                self._index.add(parse_amqp(key), destinations)
        if dest not in destinations.expires:
            self._held[dest] = self._held.get(dest, 0) + 1
            self._size += 1
            self._expect(kind, key, dest, expires)
        elif expires < destinations.expires[dest]:
            self._expect(kind, key, dest, expires)  # sooner than its entry says
        destinations.expires[dest] = expires
        return is_first

    def _remove(self, kind: str, key: str, dest: Hashable) -> bool:
        destinations = self._tables[kind].get(key)
        if destinations is None or dest not in destinations.expires:
            return False
        del destinations.expires[dest]
        self._size -= 1
        self._held[dest] -= 1
        if not self._held[dest]:
            del self._held[dest]
        if not destinations.expires:
            del self._tables[kind][key]
            if kind == TOPIC:
                self._index.remove(parse_amqp(key), destinations)
        return True

    def _expect(self, kind: str, key: str, dest: Hashable, expires: float) -> None:
        if len(self._due) > 2 * self._size + STALE_KEPT:
            self._due = [(row.expires, next(self._ticket), row.kind, row.key, row.destination) for row in self]
            heapq.heapify(self._due)
        heapq.heappush(self._due, (expires, next(self._ticket), kind, key, dest))
