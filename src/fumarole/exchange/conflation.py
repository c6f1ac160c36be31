"""Consumers that want the newest of each topic, not everything (F4).

With a period, a message goes on at once where none of its topic has gone on for so long. Else it waits, and a newer one
takes its place:

    every 1 s    t=0.0  a1 ▶ a1        a goes on, and is looked at again at 1.0
                 t=0.3  a2             waits
                 t=0.7  a3             takes the place of a2, which is counted as conflated
                 t=1.0       ▶ a3      and is looked at again at 2.0
                 t=2.0                 nothing came: a is forgotten

So at most one message of each topic is held, for no longer than the period, and topics that are silent take no room.
With the period 0 messages are held only while the outbox of the consumer is behind. Those with a reply topic are
requests, and none of them is replaced. What waits of a producer is dropped when the producer leaves the set of the
consumer's query, and counted as conflated: after a `Del` no reading of that producer follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer

if TYPE_CHECKING:
    from fumarole.exchange.exchange import Exchange
    from fumarole.exchange.parts import Parts

HANDED_OVER_AT_ONCE: Final = 500
BEHIND_BYTES: Final = 64 * 1024
"""An outbox with so much in it, or a quarter of what it may have, is behind."""
LOOK_SECONDS: Final = 0.01
"""From one look at an outbox that is behind to the next."""


class Held:
    """The keys, topics or producers, of which a message has gone on within the period, and what waits under each.

    Of a key nothing may wait. The compiled form is fastpath/conflation.pyx.
    """

    def __init__(self) -> None:
        self._held: dict[str, Publication | None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def waiting(self) -> int:
        """Messages that wait."""
        return sum(held is not None for held in self._held.values())

    def know(self, key: str) -> None:
        """A message of this key has gone on, and none waits."""
        self._held[key] = None

    def hold(self, key: str, publication: Publication) -> bool:
        """It waits from here on, under a key that is known. True: in place of another."""
        replaced = self._held[key] is not None
        self._held[key] = publication
        return replaced

    def take(self, key: str) -> Publication | None:
        """What waits, and from here on nothing does."""
        held = self._held.get(key)
        if held is not None:
            self._held[key] = None
        return held

    def forget(self, key: str) -> None:
        """The key is known no more, and nothing waits."""
        self._held.pop(key, None)

    def clear(self) -> None:
        self._held.clear()


class Conflation:
    """The last stage of a consumer with `every`."""

    def __init__(self, exchange: Exchange, consumer: Consumer, every: float, parts: Parts) -> None:
        self._exchange = exchange
        self._consumer = consumer
        self._every = every
        self.held: Held = parts.held()
        """With a period: by topic, or by producer for a query."""
        self._behind: dict[str, Publication] = {}
        """Without one: what waits for room, the oldest first."""
        self._due: deque[tuple[float, str]] = deque()
        """When to look at which of them again. All wait equally long, so they are in order."""
        self._is_arranged = False
        self._has_ended = False

    def __len__(self) -> int:
        """Messages that wait."""
        return self.held.waiting() + len(self._behind)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        reading = publication.reading
        key = publication.topic if consumer.standing is None or reading is None else reading.producer
        if publication.reply:
            if self.held.take(key) is not None or self._behind.pop(key, None) is not None:
                self._count()
            consumer.outlet.accept(consumer, publication)
        elif self._every:
            self._accept_in_time(key, publication)
        else:
            self._accept_in_room(key, publication)

    def _accept_in_time(self, key: str, publication: Publication) -> None:
        if key in self.held:
            if self.held.hold(key, publication):
                self._count()
            return
        self.held.know(key)
        self._due.append((self._exchange.timers.now() + self._every, key))
        self._arrange(self._every)
        self._consumer.outlet.accept(self._consumer, publication)

    def _accept_in_room(self, key: str, publication: Publication) -> None:
        if not self._behind and self._has_room():
            self._consumer.outlet.accept(self._consumer, publication)
            return
        if self._behind.pop(key, None) is not None:
            self._count()
        self._behind[key] = publication  # last: what is newer than others does not overtake them (D4)
        self._arrange(LOOK_SECONDS)

    def _has_room(self) -> bool:
        limit = self._exchange.outbox_limit
        return self._consumer.outlet.has_room(limit - min(BEHIND_BYTES, limit // 4))

    def _count(self) -> None:
        self._consumer.conflated += 1
        self._exchange.counters.conflated += 1

    def _arrange(self, seconds: float) -> None:
        if not self._is_arranged:
            self._is_arranged = True
            self._exchange.timers.after(max(0.0, seconds), self._look)

    def _look(self) -> None:
        self._is_arranged = False
        if not self._has_ended:
            self._exchange.slices.begin(self._in_time() if self._every else self._in_room())

    def _in_time(self) -> Iterator[None]:
        now, handed_over = self._exchange.timers.now(), 0
        while self._due and self._due[0][0] <= now and not self._has_ended:
            _, key = self._due.popleft()
            held = self.held.take(key)
            if held is None:
                self.held.forget(key)
                continue
            self._due.append((now + self._every, key))
            self._consumer.outlet.accept(self._consumer, held)
            handed_over += 1
            if handed_over % HANDED_OVER_AT_ONCE == 0:
                yield
        if self._due:
            self._arrange(self._due[0][0] - now)

    def _in_room(self) -> Iterator[None]:
        while self._behind and not self._has_ended and self._has_room():
            self._consumer.outlet.accept(self._consumer, self._behind.pop(next(iter(self._behind))))
        if self._behind:
            self._arrange(LOOK_SECONDS)
        return
        yield  # a job: one slice, whose work the room in the outbox bounds

    def leave(self, producer: str) -> None:
        """It has left the set of the consumer's query: what waits of it is not for the consumer any more (M5)."""
        if self.held.take(producer) is not None or self._behind.pop(producer, None) is not None:
            self._count()

    def end(self) -> None:
        """The consumer is gone, and what waits with it."""
        self._has_ended = True
        self.held.clear()
        self._behind.clear()
        self._due.clear()
