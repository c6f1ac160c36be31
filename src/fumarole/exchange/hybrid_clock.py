"""Hybrid time: the wall clock in microseconds, but never behind a time that the node has seen (F1).

    wall clock   100   101   101         102
    seen from another node         250
    given        100   101   102   250   251

So whatever is published here after something was learned from another node is newer than that, on every node, though
clocks differ. A time far ahead of the clock is refused: one node with a wrong clock must not take all others with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MICROSECONDS: Final = 1_000_000
MOST_AHEAD: Final = 60 * MICROSECONDS


class HybridClock:
    """The hybrid time of one node."""

    def __init__(self, wall: Callable[[], float] = lambda: 0.0, node: str = "") -> None:
        self._wall = wall
        self.node = node
        """Its name, which decides between equal times."""
        self._latest = 0

    def wall(self) -> int:
        """Microseconds of the wall clock alone."""
        return int(self._wall() * MICROSECONDS)

    def now(self) -> int:
        """A time later than all that were given or seen before."""
        self._latest = max(self._latest + 1, self.wall())
        return self._latest

    def see(self, time: int) -> bool:
        """Another node has given this time. False: it is too far ahead, and is not learned from."""
        if time > self.wall() + MOST_AHEAD:
            return False
        self._latest = max(self._latest, time)
        return True

    def age(self, time: int) -> float:
        """The seconds since this time."""
        return max(0.0, round((self.wall() - time) / MICROSECONDS, 3))
