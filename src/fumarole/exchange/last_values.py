"""Last values (F2): in a namespace with `last = "all"`, the newest message of every topic, on the node that took it.

They are found by their place, in the order in which topics first came, so that a long walk can be
done a part at a time while more come. The compiled form is fastpath/last_values.pyx.
"""

from __future__ import annotations

from typing import Final

from fumarole.core.publication import Publication
from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.readings import reading_block

WITHOUT_END: Final = 1 << 62
ENTRY_BYTES: Final = 96
"""What an entry takes besides its topic, headers and payload."""
NOT_KEPT: Final = ("_", "$")
"""How topics begin that are the server's own, or the inbox of a client: no consumer asks for the last one of those."""

Value = tuple[str, int, bytes, bytes]
"""Topic, hybrid time, headers, payload."""


class LastValues:
    """By topic. What is over the namespace's quota is not kept, and is counted."""

    def __init__(self, clock: HybridClock, most_bytes: int | None = None) -> None:
        self._clock = clock
        self.limit(most_bytes)
        self._places: dict[str, int] = {}
        self._values: list[Value] = []
        self.bytes = 0
        self.refused = 0
        """Messages that found no room."""

    def limit(self, most_bytes: int | None) -> None:
        """No more may be kept; None: no limit. What is kept already stays."""
        self._most_bytes = WITHOUT_END if most_bytes is None else most_bytes

    def __len__(self) -> int:
        return len(self._values)

    def put(self, publication: Publication) -> None:
        """This is the newest message of its topic."""
        topic, payload = publication.topic, publication.payload
        headers = publication.headers or reading_block(publication.reading)
        if topic.startswith(NOT_KEPT):
            return
        place = self._places.get(topic)
        if place is None:
            size, before = ENTRY_BYTES + len(topic.encode()) + len(headers) + len(payload), 0
        else:
            known = self._values[place]
            size, before = len(headers) + len(payload), len(known[2]) + len(known[3])
        if self.bytes + size - before > self._most_bytes:
            self.refused += 1
            return
        self.bytes += size - before
        value = topic, self._clock.now(), headers, payload
        if place is None:
            self._places[topic] = len(self._values)
            self._values.append(value)
        else:
            self._values[place] = value

    def get(self, topic: str) -> Value | None:
        place = self._places.get(topic)
        return None if place is None else self._values[place]

    def some(self, begin: int, most: int, prefix: str) -> list[Value]:
        """Of so many from this place on, those whose topic begins like this."""
        return [value for value in self._values[begin : begin + most] if value[0].startswith(prefix)]
