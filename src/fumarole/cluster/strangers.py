"""Lanes of peers that have connected and not proved themselves yet: bounded in total and by address."""

from __future__ import annotations

from collections import Counter

from fumarole.cluster.lane import Lane

MOST_STRANGERS = 1_000
"""At a time. A node that joins has two."""
MOST_OF_A_HOST = 250
"""The same of one address, so that one address cannot keep the others out."""


class Strangers:
    """The lanes, counted by host."""

    def __init__(self) -> None:
        self._lanes: set[Lane] = set()
        self._by_host: Counter[str] = Counter()

    def add(self, lane: Lane) -> bool:
        """False: there are too many."""
        self._lanes.add(lane)
        self._by_host[lane.remote_host] += 1
        return len(self._lanes) <= MOST_STRANGERS and self._by_host[lane.remote_host] <= MOST_OF_A_HOST

    def remove(self, lane: Lane) -> None:
        """The peer has proved itself, or the lane is closed."""
        if lane in self._lanes:
            self._lanes.remove(lane)
            self._by_host[lane.remote_host] -= 1
            if not self._by_host[lane.remote_host]:
                del self._by_host[lane.remote_host]
