"""The names that many queries test of messages and producers, so that only those are looked up that a message has.

    queries                             names
    $value > 80                         $value
    $.air.hpa < 900                     $.air.hpa, by its first key `air`
    Room = '4' OR $.air.hpa < 900       Room; $.air.hpa

A message whose payload is `{"air": {"hpa": 880}}`, of a producer without a room, has $value (which it is asked for in
vain) and $.air.hpa. However many queries ask for other fields, they cost it nothing.
"""

from collections.abc import Iterator

from fumarole.core.query.message import Message
from fumarole.core.query.tree import FIELDS, Field, Key, Query, tests


class Asked:
    """Each name with the number of queries that have it."""

    __slots__ = ("_keys", "_paths", "_simple")

    def __init__(self) -> None:
        self._simple: dict[Key, int] = {}
        """$value and its like."""
        self._keys: dict[Key, int] = {}
        """Metadata keys."""
        self._paths: dict[str, dict[Key, int]] = {}
        """Fields of JSON payloads, by the first key of their paths."""

    def __bool__(self) -> bool:
        return bool(self._simple or self._keys or self._paths)

    def add(self, query: Query) -> None:
        for key in {test.key for test in tests(query)}:
            names = self._names(key)
            names[key] = names.get(key, 0) + 1

    def remove(self, query: Query) -> None:
        for key in {test.key for test in tests(query)}:
            names = self._names(key)
            names[key] -= 1
            if not names[key]:
                del names[key]
                if isinstance(key, Field) and key.path and not names:
                    del self._paths[key.path[0]]

    def names(self, message: Message) -> Iterator[Key]:
        """All tested names that the message has, and some that it has not."""
        yield from self._simple
        if self._keys:
            yield from self._keys.keys() & message.metadata.keys()
        if self._paths:
            for key in self._paths.keys() & message.top_keys():
                yield from self._paths[key]

    def _names(self, key: Key) -> dict[Key, int]:
        if isinstance(key, str):
            return self._keys
        return self._simple if key.name in FIELDS else self._paths.setdefault(key.path[0], {})
