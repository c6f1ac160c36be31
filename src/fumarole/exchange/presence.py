"""Presence: the metadata `_online` of each producer, which the server keeps (F5).

A producer is online while a connection that has published as it is open, on any live node, and for a grace after that.
So a client that reconnects, here or at another node, changes nothing.

    here        connections of this node that have spoken for it, those included that ended within the grace
    elsewhere   nodes that say that they have such connections, those included that were lost within the grace

A node tells the others when the first comes and when the last has been gone for the grace. So the grace counts once,
wherever the client was, and for a node that dies it counts from when it is missed. After a restart a producer is
online from its first message on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fumarole.core.query.evaluation import Unprepared
from fumarole.core.query.tree import Value
from fumarole.core.values import ONLINE
from fumarole.exchange.slices import Slices
from fumarole.exchange.timers import Timers

if TYPE_CHECKING:
    from fumarole.exchange.producer import Producer

GRACE: Final = 3.0
"""Seconds, where a namespace says nothing else."""
AT_ONCE = 100
"""Producers that go offline in one slice. Each may send a diff to many subscribers."""
FIRST_PRUNED = 1_000
"""Producers of one connection, after which forgotten ones are removed."""
NO_PRODUCERS: Final[set[Producer]] = set()
"""Of every connection that has not published as a producer yet, and never added to: an empty set takes 216 bytes."""


def said_by_producer(metadata: Mapping[str, Value]) -> dict[str, Value]:
    """The metadata without what the server keeps."""
    return {key: value for key, value in metadata.items() if key != ONLINE}


class Speaking:
    """The producers as which one connection has published."""

    __slots__ = ("_prune_at", "is_open", "producers")

    def __init__(self) -> None:
        self.producers: set[Producer] = NO_PRODUCERS
        """The compiled reader looks here whether a producer's reading is the first of this connection."""
        self.is_open = True
        self._prune_at = FIRST_PRUNED

    def add(self, producer: Producer, known: dict[str, Producer]) -> bool:
        """False: it was there, or the connection is closed."""
        if not self.is_open or producer in self.producers:
            return False
        if len(self.producers) >= self._prune_at:  # forgotten ones must not pile up
            self.producers.intersection_update(known.values())
            self._prune_at = max(FIRST_PRUNED, 2 * len(self.producers))
        if self.producers is NO_PRODUCERS:
            self.producers = set()
        self.producers.add(producer)
        return True


class Presence:
    """The presence of the producers of one namespace."""

    def __init__(
        self,
        known: dict[str, Producer],
        show: Callable[[Producer, bool], Any],
        timers: Timers,
        slices: Slices,
        grace: float = GRACE,
    ) -> None:
        self._known = known
        self._show = show
        """Puts it into the metadata, and sends diffs to consumers whose set changes. Raises Unprepared."""
        self._timers = timers
        self._slices = slices
        self.grace = grace
        self._elsewhere: dict[str, set[str]] = {}
        """The identities of producers that are online at other nodes, by node; lost nodes have made-up names."""
        self._lost = 0
        self._ending: deque[tuple[float, Collection[Producer] | str]] = deque()
        """By the end of their grace: the producers of a closed connection, or the made-up name of a lost node."""
        self._is_awaited = False
        self.changed: Callable[[Collection[str], bool], None] | None = None
        """Replicates that these are online here, or not any more; None when the node is not clustered."""

    def is_online(self, producer: Producer) -> bool:
        """As far as is known here."""
        return producer.here > 0 or self.is_elsewhere(producer.identity)

    def is_elsewhere(self, identity: str) -> bool:
        """Does another node say so?"""
        return any(identity in online for online in self._elsewhere.values())

    def hold(self, speaking: Speaking | None, producer: Producer) -> bool:
        """This connection has published as the producer. True: it is the first of this node."""
        if speaking is None or not speaking.add(producer, self._known):
            return False
        producer.here += 1
        return producer.here == 1

    def would_hold(self, speaking: Speaking | None, producer: Producer) -> bool:
        """Would `hold` say so?"""
        return speaking is not None and speaking.is_open and not producer.here and producer not in speaking.producers

    def leave(self, speaking: Speaking) -> None:
        """The connection is closed."""
        speaking.is_open = False
        spoken_for, speaking.producers = speaking.producers, NO_PRODUCERS
        if spoken_for:
            self._end_later(spoken_for)

    def forget(self, producer: Producer) -> None:
        """It is no more."""
        for online in self._elsewhere.values():
            online.discard(producer.identity)
        if producer.here and self.changed is not None:
            self.changed((producer.identity,), False)

    # What other nodes say.

    def note(self, node: str, identity: str) -> None:
        """This node has said so. `show` has to be called as well."""
        self._elsewhere.setdefault(node, set()).add(identity)

    def told(self, node: str, identities: Collection[str], is_online: bool) -> None:
        """This node says that these are online there, or not any more."""
        online = self._elsewhere.setdefault(node, set())
        if is_online:
            online.update(identities)
        else:
            online.difference_update(identities)
        self.show(identities)

    def evict(self, node: str) -> None:
        """This node is gone."""
        online = self._elsewhere.pop(node, None)
        if online:
            self._lost += 1
            name = f"{node} lost {self._lost}"  # no name of a node has a space
            self._elsewhere[name] = online
            self._end_later(name)

    def show(self, identities: Collection[str]) -> None:
        """Puts what holds of these into their metadata."""
        self._slices.begin(self._show_all(identities))

    def _show_all(self, identities: Collection[str]) -> Iterator[None]:
        """The same in slices: queries that name `_online` may be dear (A6)."""
        for identity in identities:
            while (producer := self._known.get(identity)) is not None:
                try:
                    self._show(producer, self.is_online(producer))
                    break
                except Unprepared as change:
                    while change.evaluation.is_under_way:
                        yield

    # The grace.

    def _end_later(self, what: Collection[Producer] | str) -> None:
        self._ending.append((self._timers.now() + self.grace, what))
        if self.grace <= 0:
            self._end()
        else:
            self._await()

    def _await(self) -> None:
        if self._ending and not self._is_awaited:
            self._is_awaited = True
            self._timers.after(max(0.0, self._ending[0][0] - self._timers.now()), self._end)

    def _end(self) -> None:
        self._is_awaited = False
        self._slices.begin(self._end_due())

    def _end_due(self) -> Iterator[None]:
        """Those whose grace is over are offline, a few at a time."""
        while self._ending and self._ending[0][0] <= self._timers.now():
            _, what = self._ending.popleft()
            yield from self._end_of_node(what) if isinstance(what, str) else self._end_here(what)
        self._await()

    def _end_here(self, gone: Collection[Producer]) -> Iterator[None]:
        rest = iter(gone)
        while some := list(islice(rest, AT_ONCE)):
            ended = []
            for producer in some:
                producer.here -= 1
                if not producer.here and self._known.get(producer.identity) is producer:
                    ended.append(producer.identity)
            if ended and self.changed is not None:
                self.changed(ended, False)
            yield from self._show_all(ended)
            yield

    def _end_of_node(self, name: str) -> Iterator[None]:
        online = self._elsewhere[name]
        while some := list(islice(online, AT_ONCE)):
            online.difference_update(some)
            yield from self._show_all(some)
            yield
        del self._elsewhere[name]
