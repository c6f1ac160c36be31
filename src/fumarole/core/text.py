"""Patterns, topics and queries as people write them: for the prompt, for tests and for small programs. No server.

>>> from fumarole.core.text import Query, matches
>>> matches("volcanoes.*", "volcanoes.usa")
True
>>> Query("Room like '4%'").holds({"Room": "410"})
True
"""

from collections.abc import Mapping
from typing import Literal

from fumarole.core.errors import PatternError, TopicError
from fumarole.core.packages import BASE, need
from fumarole.core.publication import Publication
from fumarole.core.query import tree
from fumarole.core.query.errors import QueryError
from fumarole.core.query.message import Message
from fumarole.core.topic import Grammar, check_topic, fits, parse_pattern, split
from fumarole.core.values import wrong_value

__all__ = ["PatternError", "Query", "QueryError", "TopicError", "matches"]


def matches(pattern: str, topic: str, grammar: Literal["strict", "channel"] = "strict") -> bool:
    """True when the pattern matches the topic (T4, T5, T6). `grammar` is that of the namespace (T1, T2).

    Raises PatternError or TopicError, with the position of the first wrong character.

    >>> matches("volcanoes.>", "volcanoes.usa.atka")
    True
    >>> matches("volcanoes.*", "volcanoes.usa.atka")
    False
    """
    parsed = parse_pattern(pattern, Grammar(grammar))
    check_topic(topic, Grammar(grammar))
    return fits(parsed, split(topic))


class Query:
    """A query over the metadata of producers (M9) and their messages (F6).

    Raises QueryError, and ImportError without the base install.

    >>> query = Query("Room like '4%' and not Kind = 'wind'")
    >>> query.holds({"Room": "410", "Kind": "temperature"})
    True
    >>> query.holds({"Room": "410"})  # the kind is unknown, so it is unknown whether the query holds (M10)
    False
    >>> sorted(query.keys)
    ['Kind', 'Room']
    >>> print(query.explain())
    AND
    ├─ Room LIKE '4%'
    └─ NOT Kind = 'wind'
    <BLANKLINE>
    keys: Kind, Room
    """

    def __init__(self, text: str) -> None:
        need(BASE, "lark", "re2")
        from fumarole.core.query.compile import compiled
        from fumarole.core.query.parse import parse

        self.text = text
        self._tree = parse(text)
        self._selects = compiled(self._tree)

    def __repr__(self) -> str:
        return f"Query({self.text!r})"

    @property
    def keys(self) -> frozenset[str]:
        """The metadata keys that it depends on."""
        return tree.keys(self._tree)

    def holds(self, metadata: Mapping[str, tree.Value | None], payload: bytes | None = None, topic: str = "") -> bool:
        """True when the query is true, neither false nor unknown (M10), for a producer with this metadata.

        With a payload: for this message of that producer (F6), `Query("$value > 20").holds({}, b"21.5")`. A key whose
        value is None is not there (M3). Raises TypeError for a value that metadata cannot have.
        """
        for key, value in metadata.items():
            wrong = wrong_value(value)
            if wrong:
                raise TypeError(f"the metadata value of {key!r} is {wrong}")
        known = {key: value for key, value in metadata.items() if value is not None}
        return self._selects(known if payload is None else Message(Publication(topic, payload), known))

    def explain(self) -> str:
        """The query as a tree, and the keys that it depends on: what `fumarole query explain` shows."""
        return tree.explain(self._tree)
