"""Groups: of the members whose pattern matches, one gets the message (G1–G5).

The choice turns by the golden ratio: each message moves the turn by 0.618… of a full circle, and the member that the
turn points at is chosen. Over any stretch every member gets its share to within a message or two, as with taking
turns one by one; but unlike that, it cannot fall into step with the traffic (every other message on a topic that only
some members match).
"""

from fumarole.exchange.consumer import Consumer, Outlet

STEP = 0x9E3779B1
"""0.618… of 2**32, odd, so that the turn visits every value."""
FULL_TURN = 1 << 32


class Group:
    """The members of one group name in one namespace. In memory only; the last one's leaving ends it (G5)."""

    __slots__ = ("name", "size", "turn")

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self.turn = 0

    def choose(self, members: tuple[Consumer, ...], weight: int, origin: Outlet | None) -> Consumer | None:
        """The member that gets a message of this weight. None: only the publisher is there, and wants no echo."""
        self.turn = (self.turn + STEP) % FULL_TURN
        member = members[self.turn * len(members) // FULL_TURN]
        outlet = member.outlet
        if (outlet is not origin or outlet.echo) and not member.resting and outlet.has_room(weight):
            return member
        others = tuple(member for member in members if may_hear(member, origin))
        healthy = tuple(member for member in others if has_room(member, weight))
        # G3: the healthy share what the others cannot take; where none is healthy, the policy of D6 decides.
        return self._pointed_at(healthy or others) if others else None

    def _pointed_at(self, members: tuple[Consumer, ...]) -> Consumer:
        return members[self.turn * len(members) // FULL_TURN]


def has_room(member: Consumer, weight: int) -> bool:
    """Is it healthy (G3)?"""
    return not member.resting and member.outlet.has_room(weight)


def may_hear(member: Consumer, origin: Outlet | None) -> bool:
    """Is it somebody else's, or does its connection want to hear itself?"""
    return member.outlet is not origin or member.outlet.echo
