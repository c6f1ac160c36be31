"""One subscription, and where its messages go."""

from __future__ import annotations

from typing import Any, Protocol, cast

from fumarole.core.publication import PRIVATE, Publication
from fumarole.core.query.index import StandingQuery
from fumarole.core.query.tree import show
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.quotas import Account


class Outlet(Protocol):
    """Where a consumer's messages leave: a connection of some door, or a link to another node."""

    label: str
    """Its name for people."""
    echo: bool
    """May its consumers hear what it published itself?"""

    def has_room(self, weight: int) -> bool:
        """Can it take so many bytes without dropping any? That is to be healthy (G3)."""

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        """Takes the message for this consumer. Never waits, never fails: what finds no room is dropped and counted."""


class Stage(Protocol):
    """What a consumer's messages pass before its outlet."""

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        """Takes the message: hands it over now, later or never."""

    def end(self) -> None:
        """The consumer is gone. Twice is harmless."""


class LastStage(Stage, Protocol):
    """The stage of a consumer with `every` (F4)."""

    def leave(self, producer: str) -> None:
        """The producer has left the set of the consumer's query."""


class NodeOutlet(Outlet, Protocol):
    """An outlet that leads to another node."""

    def forward(self, courier: Consumer, key: bytes, publication: Publication) -> None:
        """Takes the message for that node, once for all its consumers; `key` says of which namespace and groups."""


class JoiningOutlet(Outlet, Protocol):
    """An outlet whose consumers without a group are one entity (D2), as at the MQTT door."""

    def joined(self, consumers: list[Consumer]) -> Consumer:
        """What gets the one copy of a message that all of these match."""


class Watcher(Outlet, Protocol):
    """An outlet whose consumers may have a query."""

    def tell(self, consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        """These producers came into the set of the consumer's query, and those left it (M4)."""


def tell(consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
    """Sends the change of its set to a consumer with a query. No message of a producer follows that has left it."""
    if consumer.conflation is not None:
        for producer in gone:
            consumer.conflation.leave(producer)
    cast(Watcher, consumer.outlet).tell(consumer, new, gone)


def consumer_report(consumer: Consumer) -> dict[str, Any]:
    """What one consumer has got and lost (L3)."""
    query = {} if consumer.standing is None else {"query": show(consumer.standing.query)}
    return {
        "connection": consumer.outlet.label,
        "pattern": _shown(consumer.pattern),
        **query,
        "group": consumer.group,
        "delivered": consumer.accepted - consumer.dropped,
        "dropped": consumer.dropped,
        "conflated": consumer.conflated,
    }


def _shown(pattern: str) -> str:
    """A private topic is shown in part: a client that knows all of its name may subscribe to it."""
    return f"{pattern[: len(PRIVATE) + 4]}…" if pattern.startswith(PRIVATE) else pattern


def hand_over(consumer: Consumer, publication: Publication) -> None:
    """Gives a consumer its message."""
    (consumer.outlet if consumer.stage is None else consumer.stage).accept(consumer, publication)


class Consumer:
    """A pattern, perhaps a group, and the outlet that asked. `key` is the door's own name for it.

    The compiled form is fastpath/outbox.pyx, with the same attributes.
    """

    __slots__ = (
        "accepted",
        "account",
        "conflated",
        "conflation",
        "count",
        "courier",
        "dropped",
        "group",
        "key",
        "limit",
        "outlet",
        "pattern",
        "resting",
        "seat",
        "seat_hash",
        "sees",
        "stage",
        "standing",
    )

    def __init__(self, outlet: Outlet, pattern: str, group: str, key: bytes, sees: Permissions | None = None) -> None:
        self.outlet = outlet
        self.pattern = pattern
        self.group = group
        self.key = key
        self.sees = sees
        """What this consumer may be shown; None: everything its pattern matches."""
        self.accepted = 0
        """Messages routed to it, those dropped later included."""
        self.dropped = 0
        self.conflated = 0
        """Messages that a newer one of their topic has replaced (F4)."""
        self.stage: Stage | None = None
        """What its messages pass before the outlet: `last` values go first (F3), or some are replaced (F4)."""
        self.conflation: LastStage | None = None
        """The stage that stays."""
        self.standing: StandingQuery | None = None
        """The query that its messages' producers must satisfy; None: the pattern decides alone."""
        self.limit = 0
        """Unsubscribed after so many; 0: never."""
        self.courier: Consumer | None = None
        """Set where this stands for consumers of another node: their courier, which takes each message once for all of
        them (C3). Its key is that of a message for no group."""
        self.count = 1
        """How many it stands for."""
        self.account: Account | None = None
        """What it counts against (A5); None: it is the server's own, or another node's."""
        self.resting = False
        """On another node, and none of them has room there just now (G3)."""
        self.seat = 0
        """Its number among those of its node in a keyed group (F8); 0: its group is not keyed."""
        self.seat_hash = 0
        """The same with its node, as the choice by key takes it."""
