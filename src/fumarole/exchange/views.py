"""Live views (F7): the distinct values of some keys over the producers that a query selects, kept up to date.

A view has a query like a consumer. It gets no readings, only the producers that come into its set or leave it. For
each producer it remembers the entry, and of each entry the count. Entries that were touched wait, with the count that
was last told, until the client has room; so several changes become one, and what came and went again is in none:

    select Region, count(*) where Status = 'failed'

    told                usa 2
    one more fails      usa 3    touched: usa, told 2
    it is mended        usa 2    nothing has changed, nothing is said
    another in japan             New [["japan", 1]]   Del []

`core/query/view.py` is the definition of what a view holds and of what changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fumarole.core.publication import Publication
from fumarole.core.query.tree import constant
from fumarole.core.query.view import Diff, Entry, View, arrays, entry_of
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.producer import Producer, may_receive

if TYPE_CHECKING:
    from fumarole.exchange.exchange import Exchange

PATTERN = "$VIEW"
"""Of the consumer that a view is: no topic is so."""
Say = Callable[[dict[str, Any]], bool]
"""Takes a change. False: there is no room for it now."""


class LiveView:
    """One view of one client. It is the outlet of its consumer."""

    echo = False

    def __init__(self, exchange: Exchange, view: View, label: str, say: Say) -> None:
        self.view = view
        self.label = label
        self._exchange = exchange
        self._say = say
        self._consumer: Consumer | None = None
        self._entries: dict[str, Entry] = {}
        """By producer."""
        self._counts: Counter[Entry] = Counter()
        self._touched: dict[Entry, int] = {}
        """Entries whose count may have changed, with the count that was last told."""
        self._is_told = False
        """Has the client been told the view as it is first?"""

    def begin(self, consumer: Consumer, introduce: Callable[[dict[str, Any]], None]) -> None:
        """Stands on the query from here on. `introduce` gets what the view holds, once that is whole."""
        self._consumer = consumer
        self._exchange.producers.when_whole(consumer, lambda: self._introduce(introduce))

    def _introduce(self, introduce: Callable[[dict[str, Any]], None]) -> None:
        assert self._consumer is not None
        if self._consumer.standing is None:
            return  # the client has gone meanwhile
        producers = self._exchange.producers
        for identity in producers.members(self._consumer):
            self._put(producers.known[identity])
        self._touched.clear()
        self._is_told = True
        introduce({"New": arrays(self.content()), "Del": []})

    def content(self) -> frozenset[Entry]:
        """What the view holds."""
        return frozenset([self._shown(entry, count) for entry, count in self._counts.items()])

    def _shown(self, entry: Entry, count: int) -> Entry:
        return (*entry, constant(count)) if self.view.counted else entry

    # An outlet of the exchange.

    def has_room(self, weight: int) -> bool:  # noqa: ARG002 - there are no messages
        return False

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        """A view gets no messages."""

    def tell(self, _consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        if not self._is_told:
            return
        for identity in gone:
            self._take_out(identity)
        for identity in new:
            self._put(self._exchange.producers.known[identity])
        self.flush()

    def look_at(self, producer: Producer) -> None:
        """A producer in the set has other metadata now."""
        if self._is_told and producer.identity in self._entries:
            self._take_out(producer.identity)
            self._put(producer)
            self.flush()

    def _put(self, producer: Producer) -> None:
        assert self._consumer is not None
        if may_receive(self._consumer.sees, producer):
            entry = self._entries[producer.identity] = entry_of(self.view, producer.metadata)
            self._touch(entry)
            self._counts[entry] += 1

    def _take_out(self, identity: str) -> None:
        entry = self._entries.pop(identity, None)
        if entry is not None:
            self._touch(entry)
            self._counts[entry] -= 1
            if not self._counts[entry]:
                del self._counts[entry]

    def _touch(self, entry: Entry) -> None:
        self._touched.setdefault(entry, self._counts.get(entry, 0))

    # What the client is told.

    def flush(self) -> bool:
        """Says what has changed, if there is room. True: nothing waits."""
        change = self.change()
        if not change or self._say({"New": arrays(change.new), "Del": arrays(change.gone)}):
            self._touched.clear()
        return not self._touched

    def change(self) -> Diff:
        """What has changed since the client was last told."""
        new: set[Entry] = set()
        gone: set[Entry] = set()
        for entry, told in self._touched.items():
            count = self._counts.get(entry, 0)
            if (count != told) if self.view.counted else (bool(count) != bool(told)):
                if told:
                    gone.add(self._shown(entry, told))
                if count:
                    new.add(self._shown(entry, count))
        return Diff(frozenset(new), frozenset(gone))
