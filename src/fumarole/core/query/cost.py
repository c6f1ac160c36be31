"""What it takes to evaluate a query: its price, in simple tests of about a tenth of a microsecond.

A query is asked of each producer whose metadata changes. A test of a short text takes as much as any other; MATCHES and
LIKE can take very much more where the text is long. So a price has a fixed part, and a part for each character:

    Kind = 'so2'                       10 for finding the query, 1 for the test
    Room LIKE '%4%'                    11, and 0.1 for each character of Room
    Room MATCHES '^4[0-9]'             11, and 0.1 for each character and state of the automaton

`worst` is the price with texts as long as metadata may be. It is charged to the client whose query stands (A5, A6). How
much a change really takes is known when it comes: `work` is the price with the texts that are there.

Tests of messages (F6) are made for each message, and not only when metadata changes. So they count ten times.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from fumarole.core.query.message import LONGEST_JSON
from fumarole.core.query.regex import STATES, automaton
from fumarole.core.query.tree import Field, Key, Like, Matches, Metadata, Query, Test, tests

OF_A_QUERY: Final = 10
"""Finding the query in the index, and noting its answer."""
OF_A_LIKE: Final = 0.1
"""For each character."""
OF_A_STATE: Final = 0.1
"""For each character. RE2 takes a step for each state that it is in, at most all of them."""
LONGEST_TEXT: Final = 8 * 1024
"""Characters of a text in metadata that a worst price assumes: `limits.metadata_bytes` as it is by default."""
OF_MESSAGES: Final = 10
"""Times that a test of messages counts in a worst price."""
_LONGEST: Final = {"topic": 4 * 1024, "producer": 36, "": LONGEST_JSON}
_CLASSES: Final = re.compile(r"\\[pP](?:\{[^}]*\}|.)")


class Price(NamedTuple):
    """Of one query."""

    fixed: int
    rates: tuple[tuple[Key, float], ...] = ()
    """For each character of the text under this key."""

    @property
    def rate(self) -> float:
        """Of all its texts together, for each character."""
        return sum([rate for _, rate in self.rates])

    def worst(self) -> int:
        """With the longest texts."""
        return self.fixed + round(sum([rate * _longest(key) for key, rate in self.rates]))

    def work(self, metadata: Metadata) -> float:
        """With these texts."""
        work: float = self.fixed
        for key, rate in self.rates:
            text = metadata.get(key) if isinstance(key, str) else None
            if isinstance(text, str):
                work += rate * len(text)
        return work

    def dearest(self, metadata: Metadata) -> float:
        """What the test takes that takes most with these texts."""
        most = 0.0
        for key, rate in self.rates:
            text = metadata.get(key) if isinstance(key, str) else None
            if isinstance(text, str):
                most = max(most, rate * len(text))
        return most


def _longest(key: Key) -> int:
    return OF_MESSAGES * _LONGEST.get(key.name, 0) if isinstance(key, Field) else LONGEST_TEXT


def price(query: Query) -> Price:
    """What the query takes."""
    fixed, rates = OF_A_QUERY, list[tuple[Key, float]]()
    for test in tests(query):
        fixed += OF_MESSAGES if isinstance(test.key, Field) else 1
        rate = rate_of(test)
        if rate:
            rates.append((test.key, rate))
    return Price(fixed, tuple(rates))


def rate_of(test: Test) -> float:
    """What one test takes for each character of its text."""
    match test:
        case Like():
            return OF_A_LIKE
        case Matches(_, regex):
            return OF_A_STATE * _states(regex)
    return 0.0


def _states(regex: str) -> int:
    """States of the automaton that it can be in at the same time, at most.

    A class of letters of all scripts takes a thousand states, of which it is in one or two. So it counts as one letter.
    """
    short = _CLASSES.sub("x", regex)
    if short == regex:
        return automaton(regex).size
    try:
        return automaton(short).size
    except ValueError:
        return STATES
