"""Groups: of the members whose pattern matches, one gets the message (G1–G5, F8).

In an ordinary group the choice turns by the golden ratio: each message moves the turn by 0.618… of a full circle, and
the member that the turn points at is chosen. Over any stretch every member gets its share to within a message or two,
as with taking turns one by one; but unlike that, it cannot fall into step with the traffic (every other message on a
topic that only some members match).

A group named `NAME@topic` or `NAME@producer` is keyed: the topic or the producer of a message decides, by rendezvous
hashing (`core/stable_hash.py`). A member's name in it is its node and its seat there: the lowest number that no other
member of the group has on that node. So all nodes choose alike, one that comes back to its node in place of itself
gets its own keys again, and otherwise only the keys move of the members that left or came. A full outbox moves none.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from fumarole.core.publication import Publication
from fumarole.core.stable_hash import score, stable_hash
from fumarole.exchange.consumer import Consumer, Outlet

STEP = 0x9E3779B1
"""0.618… of 2**32, odd, so that the turn visits every value."""
FULL_TURN = 1 << 32
BY_TOPIC: Final = "@topic"
BY_PRODUCER: Final = "@producer"
"""How the name of a keyed group ends."""


def is_keyed(group: str) -> bool:
    """Does its name say that a key decides (F8)?"""
    return group.endswith((BY_TOPIC, BY_PRODUCER))


def key_of(group: str, publication: Publication) -> int:
    """What decides in this keyed group. A message without a producer is keyed by its topic."""
    if publication.reading is not None and group.endswith(BY_PRODUCER):
        return stable_hash(publication.reading.producer.encode())
    return stable_hash(publication.topic.encode())


def seat_hash(node: str, seat: int) -> int:
    """The name of a member in the choice by key."""
    return stable_hash(f"{node} {seat}".encode())


class Seats:
    """The numbers of the members that a keyed group has on this node."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._last = 0

    def take(self) -> int:
        """The lowest that is free; the first is 1."""
        if self._free:
            return heappop(self._free)
        self._last += 1
        return self._last

    def give_back(self, seat: int) -> None:
        heappush(self._free, seat)


class Group:
    """The members of one group name in one namespace. In memory only; the last one's leaving ends it (G5)."""

    __slots__ = ("is_keyed", "name", "seats", "size", "turn")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_keyed = is_keyed(name)
        self.seats = Seats() if self.is_keyed else None
        self.size = 0
        self.turn = 0

    def choose(
        self, members: tuple[Consumer, ...], weight: int, origin: Outlet | None, publication: Publication
    ) -> Consumer | None:
        """The member that gets a message of this weight. None: only the publisher is there, and wants no echo."""
        if self.is_keyed:
            return self._choose_by_key(members, origin, key_of(self.name, publication))
        self.turn = (self.turn + STEP) % FULL_TURN
        member = members[self.turn * len(members) // FULL_TURN]
        outlet = member.outlet
        if (outlet is not origin or outlet.echo) and not member.resting and outlet.has_room(weight):
            return member
        others = tuple(member for member in members if may_hear(member, origin))
        healthy = tuple(member for member in others if has_room(member, weight))
        # G3: the healthy share what the others cannot take; where none is healthy, the policy of D6 decides.
        return self._pointed_at(healthy or others) if others else None

    def _choose_by_key(self, members: tuple[Consumer, ...], origin: Outlet | None, key: int) -> Consumer | None:
        others = (member for member in members if may_hear(member, origin))
        return max(others, key=lambda member: score(member.seat_hash, key), default=None)

    def _pointed_at(self, members: tuple[Consumer, ...]) -> Consumer:
        return members[self.turn * len(members) // FULL_TURN]


def has_room(member: Consumer, weight: int) -> bool:
    """Is it healthy (G3)?"""
    return not member.resting and member.outlet.has_room(weight)


def may_hear(member: Consumer, origin: Outlet | None) -> bool:
    """Is the publication of another connection, or does this one want its own (`echo`)?"""
    return member.outlet is not origin or member.outlet.echo
