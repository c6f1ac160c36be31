"""The answers of many standing queries about the metadata that a producer is about to have, found in slices (A6).

A change of metadata is made at once: sets, diffs and the reading that brought it belong together (M5). Where its
queries are too dear for that, they are answered before, bit by bit, while other connections have their turn. Then the
change is made, with the answers that are there by then:

    reading with new metadata ──▶ too dear: nothing has happened yet
                                  answers, slice by slice          others are served
    the same reading again    ──▶ its answers are known: made at once

Queries that came to stand meanwhile are answered when the reading comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from fumarole.core.query.compile import closure
from fumarole.core.query.cost import rate_of
from fumarole.core.query.tree import And, Metadata, Not, Or, Query, kind_of

if TYPE_CHECKING:
    from fumarole.core.query.index import StandingQuery

AT_ONCE: Final = 50_000
"""Five milliseconds, in simple tests: so much is evaluated without a pause."""
IN_A_SLICE: Final = 10_000
"""A millisecond. One test may take more."""


class Evaluation:
    """Of one change of one producer."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        """As it is to be."""
        self.answers: dict[StandingQuery, bool] = {}
        self.rounds = 0
        """How often it was begun: queries may come to stand while others are answered."""
        self._waiting: list[Callable[[], None]] | None = None

    @property
    def is_under_way(self) -> bool:
        """Are there answers to come?"""
        return self._waiting is not None

    def is_of(self, metadata: Metadata) -> bool:
        """Is this the metadata that it is about? To Python 1 and true are equal."""
        mine = self.metadata
        return mine == metadata and all(kind_of(mine[key]) is kind_of(metadata[key]) for key in mine)

    def steps(self, standings: Iterable[StandingQuery]) -> Iterator[None]:
        """Answers these; each step is a slice."""
        self._waiting = []
        self.rounds += 1
        spent = 0.0
        for standing in standings:
            work = standing.price.work(self.metadata)
            if needs_slices(standing, self.metadata):
                self.answers[standing] = yield from answered(standing, self.metadata)
            else:
                self.answers[standing] = standing.selects(self.metadata)
            spent += work
            if spent > IN_A_SLICE:
                spent = 0.0
                yield
        waiting, self._waiting = self._waiting, None
        for call in waiting:
            call()

    def when_done(self, call: Callable[[], None]) -> None:
        """Calls back when all are answered."""
        assert self._waiting is not None
        self._waiting.append(call)


class Unprepared(Exception):
    """A change of metadata is too dear to be made at once. Nothing has happened: try again when this is done."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__("a change of metadata waits for its queries")
        self.evaluation = evaluation


def needs_slices(standing: StandingQuery, metadata: Metadata) -> bool:
    """Has the query a test that is a slice of its own? Without one it is answered at once, which is quicker."""
    return standing.price.work(metadata) > IN_A_SLICE and standing.price.dearest(metadata) > IN_A_SLICE / 10


def answered(standing: StandingQuery, metadata: Metadata) -> Generator[None, None, bool]:
    """The answer of one query, with a pause after each dear test."""
    if standing.wants is None:
        return True
    return (yield from _answered(standing.wants, metadata))


def _answered(query: Query, metadata: Metadata) -> Generator[None, None, bool]:
    if isinstance(query, And | Or):
        decides = isinstance(query, Or)
        for term in query.terms:
            if (yield from _answered(term, metadata)) is decides:
                return decides
        return not decides
    answer = closure(query)(metadata)
    test = query.term if isinstance(query, Not) else query
    assert not isinstance(test, And | Or | Not)
    text = metadata.get(test.key) if isinstance(test.key, str) else None
    if isinstance(text, str) and rate_of(test):  # which makes a pattern for this one look
        yield
    return answer
