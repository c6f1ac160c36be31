"""Plans: for each topic the entities that get it, kept until a change can touch them.

To find them (index, groups, permissions) costs far more than to look them up, and the same topics come again and again.
So the answer, a `Plan`, is kept per topic, with the generation of the exchange at which it was made.

Two things can make it wrong. A pattern that was not there before may be one that the topic matches: that begins a
new generation. It would be a waste to throw every plan away for it: a pattern `volcanoes.usa.atka.*` can only touch
topics that begin with `volcanoes.usa.atka`. So each new pattern leaves its generation as a stamp on its literal prefix,
and an older plan is still that of its topic if no prefix of the topic has a newer stamp:

    plan of `a.b.c` made at 7; then `a.x.>` is new (8), then `q` (9)
    stamps: {`a.x`: 8, `q`: 9}; prefixes of the topic: ``, `a`, `a.b`, `a.b.c`: none newer than 7, so the plan holds

Or a consumer came or went under a known pattern. Then the plan is still that of its topic, but is renewed from the
levels of the index that it was made from: once for all the topics that share it (`Exchange.renew`).

Plans refer to their consumers, also to those that have left. So after as many changes as there are plans, all plans are
dropped. That is less work than the changes were.

A plan that has to be worked out or renewed may be one of very many patterns or consumers. The index counts what is
looked at, and a reader that needs plan after plan stops where that has become too much.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from fumarole.core.errors import FumaroleError, TopicError
from fumarole.core.index import Level
from fumarole.core.publication import is_reserved
from fumarole.core.topic import check_topic
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.groups import Group
from fumarole.exchange.permissions import Permissions

if TYPE_CHECKING:
    from fumarole.exchange.exchange import Exchange
    from fumarole.exchange.filters import Filters

PLANS_KEPT = 131_072
TOPICS_KEPT = 16 * 1024 * 1024
"""Bytes of the topics of those plans; they may be as long as a line."""
STAMPS = 8_192
"""Kept by the hash of the prefix: two in one place make a plan look older than it is, which costs a look into the index
and is never wrong."""
SHOWN_TOPIC = 64

Share = tuple[Group, tuple[Consumer, ...], tuple[Consumer, ...]]
"""A group, its members that match, wherever they are, and those of them that are here."""


class Denied(FumaroleError):
    """The user's permissions do not allow this `topic`, or pattern."""

    def __init__(self, topic: str, text: str = "") -> None:
        super().__init__(text or f"you may not publish to {topic[:SHOWN_TOPIC]}")
        self.topic = topic


class Plan:
    """The entities that get a topic: consumers without a group, and groups with their members that match.

    In a cluster those of other nodes are among the members; consumers without a group that are elsewhere are in
    `couriers`, one for each node that has any.
    """

    __slots__ = ("consumers", "couriers", "filled", "filters", "groups", "inbox", "levels", "topic", "version")

    def __init__(
        self,
        consumers: tuple[Consumer, ...] = (),
        groups: tuple[Share, ...] = (),
        levels: tuple[Level, ...] = (),
        couriers: tuple[Consumer, ...] = (),
    ) -> None:
        self.consumers = consumers
        self.groups = groups
        self.couriers = couriers
        self.levels = levels
        """Those of the index that it is made from."""
        self.version = self.filled = -1
        """That of the index when it was last found to be right, and when it last changed."""
        self.topic: str | None = None
        """Set where a consumer may not see every topic, or this one is private. Then no other topic shares the plan."""
        self.inbox = ""
        """Set where the topics are in an inbox: then only patterns with its word literally are found (A4)."""
        self.filters: Filters | None = None
        """Consumers that ask something of each message (F6); None: there are none. What passes them has other plans."""


def reaches_nobody(plan: Plan) -> bool:
    """Is it the plan of a topic that no entity matches? (One that matched may just have left: see `core.index`.)"""
    return not (plan.consumers or plan.groups or plan.couriers)


class Plans:
    """Topic, as bytes, to plan, for publishers of one exchange that share permissions.

    The compiled form is fastpath/plans.pyx.
    """

    def __init__(self, exchange: Exchange, permissions: Permissions | None, is_own: bool = False) -> None:
        self._exchange = exchange
        self._permissions = permissions
        self._is_own = is_own
        """For what the server itself publishes, or another node forwards: only they use the reserved topics (T9)."""
        self._known: dict[bytes, tuple[Plan, int]] = {}
        self._known_bytes = 0
        self._generation = 0
        # No objects: they would lie among those of consumers, and keep the memory of all of them from being given back.
        self._stamps = array("Q", bytes(8 * STAMPS))
        self._changes = 0

    def age(self) -> None:
        """A consumer came or went."""
        self._changes += 1
        if self._changes >= len(self._known):
            self._known.clear()
            self._known_bytes = self._changes = 0

    def touch(self, prefix: str) -> None:
        """There is a new pattern with this literal prefix."""
        self._generation += 1
        self._stamps[hash(prefix) % STAMPS] = self._generation

    def find(self, topic: bytes) -> Plan:
        """The plan of a topic. Raises TopicError or Denied where it may not be published."""
        plan, made = self._known.get(topic, (None, 0))
        if plan is not None and made != self._generation and self._still_holds(topic, made):
            made = self._generation
            self._known[topic] = plan, made
        if plan is not None and made == self._generation and self._exchange.renew(plan):
            return plan
        return self._learn(topic)

    def _learn(self, topic: bytes) -> Plan:
        text = decode_topic(topic)
        check_topic(text, self._exchange.grammar)
        if self._permissions is not None and not self._permissions.allows(text):
            raise Denied(text)
        if not self._is_own and is_reserved(text):
            raise Denied(text, f"only the server publishes to {text[:SHOWN_TOPIC]}")
        plan = self._exchange.plan(text)
        self._known_bytes += len(topic)
        if len(self._known) >= PLANS_KEPT or self._known_bytes > TOPICS_KEPT:
            self._known.clear()
            self._known_bytes = len(topic)
        self._known[topic] = plan, self._generation
        return plan

    def _still_holds(self, topic: bytes, made: int) -> bool:
        """Has no change since then a literal prefix that this topic begins with?"""
        if self._stamps[hash("") % STAMPS] > made:
            return False
        prefix: str | None = None
        for word in topic.decode().split("."):
            prefix = word if prefix is None else f"{prefix}.{word}"  # the first word may be empty (T3)
            if self._stamps[hash(prefix) % STAMPS] > made:
                return False
        return True


def decode_topic(topic: bytes) -> str:
    """Topics are UTF-8 on every wire."""
    try:
        return topic.decode()
    except UnicodeDecodeError as error:
        raise TopicError("a topic is UTF-8 text", error.start) from None
