"""The set of a query that has just begun to stand, while it is being filled.

A new query has to be put to all producers. Where that takes long it is done in slices, in the order in which producers
became known, and other work is done in between:

    looked at: 1 2 3      not yet: 4 5 6      known only since: 7

A producer that publishes before it was looked at is looked at first. So its reading reaches the right consumers, and
its metadata never changes unseen. The consumers of the query get no diff until the set is whole, and then all of it.
"""

from __future__ import annotations

from collections.abc import Callable

from fumarole.core.query.index import StandingQuery
from fumarole.exchange.producer import Producer


class Filling:
    """How far the set of a new query is filled."""

    __slots__ = ("_early", "_last", "reached", "standing", "whole")

    def __init__(self, standing: StandingQuery, last: int) -> None:
        self.standing = standing
        self.reached = 0
        """The number of the last producer that was looked at in order."""
        self._last = last
        """Producers with a greater number came after the query, and were put to it when they came."""
        self._early: set[Producer] = set()
        """Producers that were looked at before their turn."""
        self.whole: list[Callable[[], None]] = []
        """To be called when the set is whole."""

    def take_early(self, producer: Producer) -> bool:
        """Is the producer to be looked at before its turn? True once."""
        if not self.is_early(producer):
            return False
        self._early.add(producer)
        return True

    def is_early(self, producer: Producer) -> bool:
        """Was it not looked at yet?"""
        return self.reached < producer.number <= self._last and producer not in self._early
