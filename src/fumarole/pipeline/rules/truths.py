"""Truths of all rules for rows of readings, without a look at each row.

A query has tests of the message and tests of metadata. Spark makes those of the message, as columns; those of metadata
are made once for each change of a producer's metadata. Both are packed: two bits for each test, 31 tests in a whole
number. Rows with the same numbers have the same answers, and there are few such numbers: each is worked out once.

    where = "Kind = 'so2' AND $value > 80"         message: $value > 80       metadata: Kind = 'so2'
    a row has (2, 2): both true, so `where` is true
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fumarole.core.query.holds import Truth, every, holds, opposite, some
from fumarole.core.query.tree import And, Field, Not, Or, Query, Test, Value, tests
from fumarole.core.rules import Rule

TESTS_IN_A_WORD: Final = 31
UNKNOWN, FALSE, TRUE = 0, 1, 2
_CODES: Final[dict[Truth, int]] = {None: UNKNOWN, False: FALSE, True: TRUE}
_TRUTHS: Final[tuple[Truth, ...]] = (None, False, True)
_MOST_KNOWN: Final = 200_000
"""Answers that are remembered."""
Words = NDArray[np.int64]
"""A row for each reading, or producer; a column for each word."""


class Truths:
    """The answers of some rules: whether they ask about a reading at all, `where`, and `clear`."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        queries = [query for rule in self.rules for query in (rule.where, rule.clear) if query is not None]
        found = dict.fromkeys(test for query in queries for test in tests(query))
        self.topics: list[str] = list(dict.fromkeys(rule.topic for rule in self.rules if rule.topic is not None))
        """Patterns are tests of the message too, before all others."""
        self.of_message: list[Test] = [test for test in found if isinstance(test.key, Field)]
        self.of_metadata: list[Test] = [test for test in found if not isinstance(test.key, Field)]
        self._place = {test: number for number, test in enumerate(self.of_message, len(self.topics))}
        self._said = {test: number for number, test in enumerate(self.of_metadata)}
        self.message_words = _words(len(self.topics) + len(self.of_message))
        self.metadata_words = _words(len(self.of_metadata))
        self._known: dict[bytes, NDArray[np.bool_]] = {}

    def form(self, metadata: Mapping[str, Value]) -> list[int]:
        """What holds for a producer with this metadata, packed."""
        words = [0] * self.metadata_words
        for number, test in enumerate(self.of_metadata):
            code = _CODES[holds(test, metadata)]
            words[number // TESTS_IN_A_WORD] |= code << (2 * (number % TESTS_IN_A_WORD))
        return words

    def answers(self, forms: Words, messages: Words) -> NDArray[np.bool_]:
        """For each row and rule three answers: [rows, 3, rules]. Asked, `where` is true, `clear` is true."""
        rows = np.ascontiguousarray(np.hstack([forms, messages]))
        codes = _same(rows)
        _, places = np.unique(codes, return_index=True)
        table = [self._answer(rows[place]) for place in places]
        return np.stack(table)[codes] if table else np.zeros((0, 3, len(self.rules)), bool)

    def _answer(self, row: NDArray[np.int64]) -> NDArray[np.bool_]:
        key = row.tobytes()
        if (known := self._known.get(key)) is not None:
            return known
        said = _unpacked(row[: self.metadata_words], len(self.of_metadata))
        message = _unpacked(row[self.metadata_words :], len(self.topics) + len(self.of_message))

        def truth(query: Query) -> Truth:
            match query:
                case And(terms):
                    return every([truth(term) for term in terms])
                case Or(terms):
                    return some([truth(term) for term in terms])
                case Not(term):
                    return opposite(truth(term))
                case _:
                    return message[self._place[query]] if query in self._place else said[self._said[query]]

        asked = [rule.topic is None or message[self.topics.index(rule.topic)] is True for rule in self.rules]
        where = [rule.where is None or truth(rule.where) is True for rule in self.rules]
        clear = [rule.clear is not None and truth(rule.clear) is True for rule in self.rules]
        answer = np.array([asked, where, clear], bool)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = answer
        return answer


def _words(count: int) -> int:
    return -(-count // TESTS_IN_A_WORD)


def _unpacked(words: Iterable[int], count: int) -> list[Truth]:
    return list(_each(words))[:count]


def _each(words: Iterable[int]) -> Iterator[Truth]:
    for word in words:
        for number in range(TESTS_IN_A_WORD):
            yield _TRUTHS[int(word) >> (2 * number) & 3]


def _same(rows: Words) -> NDArray[np.int64]:
    """A number for each row, the same for rows that are the same; from 0 on, without a hole."""
    codes = np.zeros(len(rows), np.int64)
    for column in rows.T:
        own, found = pd.factorize(column)
        codes, _ = pd.factorize(codes * max(1, len(found)) + own)
    return codes
