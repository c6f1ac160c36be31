"""What a subscriber with a query gets late: changes of its set, and messages from before it knew its set (M4, D5)."""

from __future__ import annotations

from collections.abc import Callable

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange

IDENTITY_BYTES = 38
"""What the id of a producer takes in a diff."""
DIFF_BYTES = 19
"""What a diff takes besides, at most: the map, its two keys, and the beginnings of two long arrays."""


class Diff:
    """Producers that came and went since a subscriber's last diff. One that came and went again is left out."""

    def __init__(self) -> None:
        self._new: dict[str, None] = {}
        self._gone: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._new or self._gone)

    def add(self, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        for identities, to, other in ((new, self._new, self._gone), (gone, self._gone, self._new)):
            for identity in identities:
                if identity in other:
                    del other[identity]
                else:
                    to[identity] = None

    def size(self) -> int:
        """Bytes of the frame, at most."""
        return IDENTITY_BYTES * (len(self._new) + len(self._gone)) + DIFF_BYTES

    def told(self) -> dict[str, list[str]]:
        """As it is said (M4)."""
        return {"New": list(self._new), "Del": list(self._gone)}

    def clear(self) -> None:
        self._new.clear()
        self._gone.clear()


class EarlyMessages:
    """Messages for a member of a group that does not know its set yet. Other nodes may choose it that early."""

    def __init__(self) -> None:
        self._kept: list[Publication] = []
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(self, consumer: Consumer, publication: Publication, has_room: Callable[[int], bool]) -> bool:
        """False: it finds no room, or is for a consumer without a group, which has no right to it yet (D5)."""
        if not consumer.group or not has_room(self._bytes + publication.weight()):
            return False
        self._kept.append(publication)
        self._bytes += publication.weight()
        return True

    def take(self) -> list[Publication]:
        """All that were kept, in order."""
        kept, self._kept, self._bytes = self._kept, [], 0
        return kept


def drop(consumer: Consumer, exchange: Exchange) -> None:
    """A message of this consumer found no room."""
    consumer.accepted += 1
    consumer.dropped += 1
    exchange.counters.overflowed += 1
