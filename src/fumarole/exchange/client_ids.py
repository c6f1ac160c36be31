"""Client ids, which one connection of the whole cluster has at a time (Q3).

A session that wants one claims it. Its own node knows at once whether it is in use there, and asks the others; the
session goes on when all have answered. The later claim takes the id over. One that another user has is not given.

    node a                                   node b
    CONNECT atka-7  ──▶ claim, time 250  ──▶ atka-7 has been connected here since 240: taken over, DISCONNECT 0x8E
                        granted          ◀──
    CONNACK         ◀──

Nodes that meet tell each other all claims that stand, and of two for one id the later one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple, Protocol


class ClientClaim(NamedTuple):
    """A connection that has a client id, or wants it."""

    namespace: str
    client_id: str
    user: str | None
    time: int
    """Of its CONNECT, by the hybrid clock of its node."""


class Verdict(IntEnum):
    """What a node says of another node's claim."""

    GRANTED = 0
    OTHER_USER = 1
    TOO_LATE = 2
    """The connection that has it here is the newer one."""


class Holder(Protocol):
    """The sessions of this node."""

    def claimed(self, claim: ClientClaim, node: str) -> Verdict:
        """A connection of that node claims an id. One of this node that has it is ended, if it has to go."""

    def claims(self) -> Iterable[ClientClaim]:
        """All that stand here."""


Done = Callable[[Verdict], None]


class ClientIds:
    """What sessions and the cluster know of each other in this matter."""

    def __init__(self) -> None:
        self.holder: Holder | None = None
        """None: there was no such session yet."""
        self.ask: Callable[[ClientClaim, Done], None] | None = None
        """Asks all other nodes, and calls `Done` with what they say together. None: there are none."""

    def claim(self, claim: ClientClaim, done: Done) -> None:
        """Of a connection of this node."""
        if self.ask is None:
            done(Verdict.GRANTED)
        else:
            self.ask(claim, done)

    def claimed(self, claim: ClientClaim, node: str) -> Verdict:
        return Verdict.GRANTED if self.holder is None else self.holder.claimed(claim, node)

    def claims(self) -> Iterable[ClientClaim]:
        return () if self.holder is None else self.holder.claims()
