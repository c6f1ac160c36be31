"""The counters of namespaces, which nodes tell each other for `/v1/stats`, and workers for `fumarole stats`.

A node tells what has changed since it told it last, some namespaces at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.protocols.cluster_protocol import Counts, Frame

BETWEEN_WORKERS = 0.25
"""Seconds between two rounds."""
BETWEEN_NODES = 1.0
"""The same where there are no workers."""
TOLD_AT_ONCE = 200
"""Namespaces."""
KNOWN_EVERYWHERE = frozenset({"namespace", "producers"})
"""Each node reports these of all nodes already."""

Numbers = dict[str, int | dict[str, int]]


class CountsTold:
    """What one node has told the others of its counters."""

    def __init__(self, node: Node, broadcast: Callable[[Frame], None], now: float, has_workers: bool) -> None:
        self._node = node
        self._broadcast = broadcast
        self._period = BETWEEN_WORKERS if has_workers else BETWEEN_NODES
        self._next = now
        self._waiting: list[str] = []
        """Namespaces whose turn in this round is still to come."""
        self._told: dict[str, Numbers] = {}
        """By namespace."""
        self._told_to: set[str] = set()
        """The peers that know these."""

    def tick(self, now: float, peers: Collection[str]) -> None:
        """Time passes. `peers` has the names of all that are there now."""
        if not self._waiting and now >= self._next:
            self._next = now + self._period
            self._waiting = [exchange.name for exchange in self._node.namespaces]
            if self._told_to != set(peers) or len(self._told) > 2 * len(self._waiting):
                self._told_to = set(peers)
                self._told.clear()
        some, self._waiting = self._waiting[:TOLD_AT_ONCE], self._waiting[TOLD_AT_ONCE:]
        for name in some:
            exchange = self._node.namespaces.get(name)
            numbers = None if exchange is None else numbers_of(exchange)
            if numbers is not None and self._told.get(name) != numbers:
                self._told[name] = numbers
                self._broadcast(Counts(name, numbers))


def numbers_of(exchange: Exchange) -> Numbers:
    """The counters of an exchange that nodes add up."""
    return {key: value for key, value in exchange.report().items() if key not in KNOWN_EVERYWHERE}


def add_numbers(to: dict[str, Any], numbers: Mapping[str, int | dict[str, int]]) -> None:
    """Adds counters by name, those of a table within a table too."""
    for key, value in numbers.items():
        if isinstance(value, dict):
            add_numbers(to.setdefault(key, {}), value)
        elif isinstance(to.get(key, 0), int):
            to[key] = to.get(key, 0) + value
