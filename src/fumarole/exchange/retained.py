"""Retained messages (F1): of each topic the newest that asked for it, the same on every node.

Each has a hybrid time and the node that took it. The later time holds, and of equal times the node whose name comes
later, so all nodes come to the same in whatever order they hear of them:

    node a   t = 21.5, time 7 a
    node b   t = 22.0, time 7 b
    all      t = 22.0: of equal times, b comes later

One without a payload removes what is there. It stays as a mark for a day, so that a node that was away does not bring
the removed one back. One that has expired (`exchange/expiry.py`) becomes such a mark too, on each node by itself.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fumarole.core.limits import Quotas
from fumarole.core.publication import Publication
from fumarole.exchange.expiry import seconds_of, with_seconds_left
from fumarole.exchange.hybrid_clock import MICROSECONDS, HybridClock
from fumarole.exchange.payers import Payers
from fumarole.exchange.quotas import Account, Usage
from fumarole.exchange.readings import reading_block, reading_in

MARK_SECONDS: Final = 86_400
MOST_MARKS: Final = 100_000
"""Of more removals, the oldest are forgotten before their day is over: any client may remove what it has retained."""
AT_ONCE: Final = 1_000
"""Messages and marks that are looked at in one slice."""
FRAMING: Final = 64
"""Bytes that a message counts for besides its own."""


class Kept(NamedTuple):
    """The newest message of a topic, as it is told of and kept."""

    topic: str
    time: int
    """Hybrid."""
    node: str
    """The one that took it."""
    payload: bytes
    """Empty in a retained message: it was removed then."""
    headers: bytes = b""
    """Of a reading too: they say whose it is."""

    def is_newer(self, other: Kept | None) -> bool:
        return other is None or (self.time, self.node) > (other.time, other.node)

    def size(self) -> int:
        return FRAMING + len(self.topic) + len(self.payload) + len(self.headers)

    def publication(self, age: float) -> Publication:
        """The message, to be delivered as a last value (F3)."""
        publication = Publication(self.topic, self.payload, "", with_seconds_left(self.headers, age))
        publication.reading = reading_in(publication)
        publication.age = age
        return publication


class Retained:
    """The retained messages of one namespace."""

    def __init__(
        self,
        clock: HybridClock | None = None,
        usage: Usage | None = None,
        is_kept: bool = True,
    ) -> None:
        self.clock = HybridClock() if clock is None else clock
        self._usage = Usage("this namespace", Quotas()) if usage is None else usage
        self._known: dict[str, Kept] = {}
        """By topic; removal marks too."""
        self._marks: OrderedDict[str, None] = OrderedDict()
        """The topics of those, the oldest first."""
        self._expire_at: dict[str, int | None] = {}
        """By topic, when its message is of no more use; None: it does not expire any more."""
        self._round: deque[str] = deque()
        """The same topics: the next to be looked at comes first."""
        self._is_kept = is_kept
        self._payers = Payers("retained_bytes")
        self.unsaved: dict[str, None] = {}
        """Topics whose message is not on disk as it is here; none where no store is configured."""
        self.changed: Callable[[Kept], None] | None = None
        """Tells the other nodes what is retained here. None when the node is not clustered."""

    def __len__(self) -> int:
        """Messages, marks not counted."""
        return len(self._known) - len(self._marks)

    def is_empty(self) -> bool:
        """Is nothing known, marks included?"""
        return not self._known

    def __iter__(self) -> Iterator[Kept]:
        """All, marks too: what another node must know."""
        return iter(list(self._known.values()))

    def get(self, topic: str) -> Kept | None:
        """What is known of a topic; one without a payload is a mark."""
        return self._known.get(topic)

    def topics(self) -> list[str]:
        return list(self._known)

    def check_room(self, publication: Publication, account: Account | None = None) -> None:
        """Raises QuotaError where this message would be more than the namespace or the user may keep."""
        if publication.payload:
            before = self._known.get(publication.topic)
            size = FRAMING + len(publication.topic) + publication.size()
            grows = size - (before.size() if before is not None and before.payload else 0)
            if grows > 0:
                self._usage.check("retained_bytes", grows)
            self._payers.check(publication.topic, size, account)

    def keep(self, publication: Publication, account: Account | None = None) -> None:
        """A message was published here that is to be retained, or removes the one that is."""
        topic = publication.topic
        if not publication.payload and topic not in self._known:
            return
        block = publication.headers or reading_block(publication.reading)
        kept = Kept(topic, self.clock.now(), self.clock.node, publication.payload, block)
        self._take(kept)
        if kept.payload:
            self._payers.charge(topic, kept.size(), account)
        if self.changed is not None:
            self.changed(kept)

    def learn(self, kept: Kept) -> bool:
        """Another node, or the disk, knows this. False: what is known here is as new."""
        if not self.clock.see(kept.time) or not kept.is_newer(self._known.get(kept.topic)):
            return False
        self._take(kept)
        return True

    def restore(self, kept: Kept) -> None:
        """The disk knows this: it was kept, however the clock stands now."""
        if kept.is_newer(self._known.get(kept.topic)):
            self.clock.see(kept.time)
            self._take(kept)
            self.unsaved.pop(kept.topic, None)

    def _take(self, kept: Kept) -> None:
        self._payers.release(kept.topic)
        before = self._known.pop(kept.topic, None)
        if before is not None and before.payload:
            self._usage.force("retained_bytes", -before.size())
        self._marks.pop(kept.topic, None)
        self._known[kept.topic] = kept
        if kept.payload:
            self._usage.force("retained_bytes", kept.size())
        else:
            self._marks[kept.topic] = None
        if self._is_kept:
            self.unsaved[kept.topic] = None
        seconds = seconds_of(kept.headers) if kept.payload else None
        if seconds is None:
            if kept.topic in self._expire_at:
                self._expire_at[kept.topic] = None
            return
        if kept.topic not in self._expire_at:
            self._round.append(kept.topic)
        self._expire_at[kept.topic] = kept.time + seconds * MICROSECONDS

    def expire(self) -> bool:
        """Messages that have expired become marks, and marks are forgotten after a day. True: more marks are due."""
        now = self.clock.wall()
        for _ in range(min(AT_ONCE, len(self._round))):
            topic = self._round.popleft()
            end = self._expire_at[topic]
            if end is not None and end > now:
                self._round.append(topic)
                continue
            del self._expire_at[topic]
            if end is not None:
                # Of the same time, so that all nodes come to the same and no older one comes back.
                self._take(self._known[topic]._replace(payload=b"", headers=b""))
        oldest = now - MARK_SECONDS * MICROSECONDS
        for _ in range(AT_ONCE):
            if not self._marks:
                return False
            topic = next(iter(self._marks))
            if self._known[topic].time > oldest and len(self._marks) <= MOST_MARKS:
                return False
            del self._marks[topic], self._known[topic]
            if self._is_kept:
                self.unsaved[topic] = None
        return True
