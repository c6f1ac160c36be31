"""A producer: one source of readings, and what it says of itself (M3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, NamedTuple

from fumarole.core.query.index import StandingQuery
from fumarole.core.query.tree import Value
from fumarole.core.values import ONLINE
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.quotas import Usage
from fumarole.exchange.readings import reading_topic

NEVER = (-1, "")
"""A version before all others."""
TEXT_KEPT = 256
"""Characters of a latest reading that is text. It is for display; a subscriber gets all of it."""
NUMBER_BYTES = 8
"""The size of a number or a truth value in metadata."""
ONLINE_BYTES = len(ONLINE) + NUMBER_BYTES


class Elsewhere(NamedTuple):
    """The value of a reading that was published on another topic than the producer's own."""

    topic: str
    value: int | float | str | None
    """None: another node has told of the reading, without its value."""


Said = tuple[float | str | None, str | None]
"""The value of a reading, and the topic it was published on; None: the producer's own. A value None: it is not known
here."""


def kept(value: float | str | None) -> int | float | str | None:
    """What is remembered of a value."""
    return f"{value[:TEXT_KEPT]}…" if isinstance(value, str) and len(value) > TEXT_KEPT else value


class Producer:
    """One source of readings."""

    __slots__ = (
        "bytes",
        "heard",
        "heard_of",
        "here",
        "identity",
        "metadata",
        "moved",
        "number",
        "owner",
        "plan",
        "said",
        "since",
        "standings",
        "value",
        "version",
    )

    def __init__(self, identity: str, number: int) -> None:
        self.identity = identity
        self.number = number
        """Greater than those of all earlier producers of this node, and never given again."""
        self.metadata: dict[str, Value] = {}
        """Never altered: a change makes a new dictionary, so earlier references stay valid. With `_online` (F5)."""
        self.bytes = 0
        """The size of the metadata, as `size_of` finds it."""
        self.here = 0
        """Connections of this node that have published as it (`exchange/presence.py`)."""
        self.standings: dict[StandingQuery, None] = {}
        """The queries whose set it is in."""
        self.heard = -inf
        """When it last published here."""
        self.heard_of = -inf
        """When another node last said that it has published there, or when it was read from a disk."""
        self.value: int | float | str | Elsewhere | None = None
        """Its latest reading. A number alone, as the compiled reader writes it, was on the producer's own topic."""
        self.plan: Any = None
        """The exchange's last plan for its readings."""
        self.said: tuple[bytes, dict[str, Value]] | None = None
        """The bytes that were merged into the metadata last, and the metadata that resulted. While the producer has
        that metadata, the same bytes change nothing. For compiled readers. JSON and MsgPack begin differently."""
        self.version: tuple[int, str] = 0, ""
        """How often the metadata has changed, and on which node last (C6)."""
        self.owner: Usage | None = None
        """The usage of its first user (A5); None: no user, or it came from disk or another node."""
        self.since: tuple[int, str] = NEVER
        """The version at which it was last forgotten. Its metadata is newer than that."""
        self.moved: tuple[int, str] = NEVER
        """The time and the author of the last change of its topic (`cluster/whereabouts.py`)."""

    def take(self, value: float | str | None, topic: str | None) -> None:
        """This is its latest reading, on this topic; None: on its own. Only the beginning of a long text is kept.

        A value None: it is not known here. A value that is known stays with its topic, and never goes to another.
        """
        if value is None and topic == self.latest()[0]:
            return
        value = kept(value)
        self.value = value if topic is None or topic == reading_topic(self.identity) else Elsewhere(topic, value)

    def last_heard(self) -> float:
        """Here or elsewhere, as far as is known here."""
        return max(self.heard, self.heard_of)

    def latest(self) -> tuple[str, int | float | str | None]:
        """The topic and the value of its latest reading. Its own topic and None: no reading is known here."""
        return self.value if isinstance(self.value, Elsewhere) else (reading_topic(self.identity), self.value)


def may_receive(permissions: Permissions | None, producer: Producer, latest: str | None = None) -> bool:
    """May a user with these permissions to subscribe receive this producer (A3)? Only then it is in the user's sets,
    diffs, views, lists and counts. The rules must allow its own topic or that of its last reading, and deny neither.

    `latest` is the topic of that reading; None: as it is now.
    """
    if permissions is None:
        return True
    return permissions.shows(reading_topic(producer.identity), producer.latest()[0] if latest is None else latest)


def merged(before: Mapping[str, Value], metadata: Mapping[str, Value | None]) -> dict[str, Value]:
    """The metadata of a producer after a reading with this metadata. None deletes a key (M3)."""
    after = dict(before)
    for key, value in metadata.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def size_of(metadata: Mapping[str, Value]) -> int:
    """Bytes of keys and values, without `_online`."""
    size = sum([_size(key) + _size(value) for key, value in metadata.items()])
    return size - ONLINE_BYTES if ONLINE in metadata else size


def growth(before: Mapping[str, Value], after: Mapping[str, Value], keys: Iterable[str]) -> int:
    """How many bytes more `size_of` finds after a change under these keys."""
    grown = 0
    for key in keys:
        if key != ONLINE:
            old, new = before.get(key), after.get(key)
            if old is None:
                grown += 0 if new is None else _size(key) + _size(new)
            else:
                grown -= _size(old) + _size(key) if new is None else _size(old) - _size(new)
    return grown


def _size(value: Value) -> int:
    if not isinstance(value, str):
        return NUMBER_BYTES
    return len(value) if value.isascii() else len(value.encode())


def is_same(one: Value | None, other: Value | None) -> bool:
    """Is it the same metadata? To Python 1, 1.0 and true are equal; as metadata true is of another kind."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
