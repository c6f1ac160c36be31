"""Changes of metadata that are too dear to be made at once, until their queries are answered (A6).

`core/query/evaluation.py` says why, and finds the answers. Here is decided which change has to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from fumarole.core.query.evaluation import AT_ONCE, Evaluation, Unprepared
from fumarole.core.query.index import QueryIndex, StandingQuery
from fumarole.core.query.tree import Metadata
from fumarole.exchange.slices import Slices

MOST_ROUNDS: Final = 5
"""A client that puts and ends dear queries all the time must not keep others waiting for ever."""
KEPT: Final = 10_000
"""Answers of clients that have gone meanwhile are forgotten at last."""
NO_ANSWERS: Final[Mapping[StandingQuery, bool]] = {}


class Preparations:
    """Of the producers of one namespace."""

    def __init__(self, queries: QueryIndex, slices: Slices) -> None:
        self._queries = queries
        self._slices = slices
        self._evaluations: dict[str, Evaluation] = {}
        """By the identity of the producer."""

    def may_be_dear(self, metadata: Metadata) -> bool:
        """Could a change to this be too dear, with all the queries that stand?"""
        queries = self._queries
        if not queries.rate:
            return queries.fixed > AT_ONCE
        longest = max([len(value) for value in metadata.values() if isinstance(value, str)], default=0)
        return queries.fixed + queries.rate * longest > AT_ONCE

    def require(
        self, identity: str, after: Metadata, standings: Callable[[], Collection[StandingQuery]], waits: bool = True
    ) -> None:
        """Raises Unprepared where these queries are too dear to be asked of the producer's new metadata at once.

        Without `waits` they are asked at once whatever they take.
        """
        if not waits or not self.may_be_dear(after):
            return
        evaluation = self._evaluations.get(identity)
        if evaluation is not None and evaluation.is_under_way:
            raise Unprepared(evaluation)
        if evaluation is None or not evaluation.is_of(after):
            evaluation = Evaluation(after)
        todo = [each for each in standings() if each not in evaluation.answers]
        if _work(todo, after) <= AT_ONCE or evaluation.rounds >= MOST_ROUNDS:
            return
        if len(self._evaluations) >= KEPT:
            self._evaluations = {key: each for key, each in self._evaluations.items() if each.is_under_way}
        self._evaluations[identity] = evaluation
        self._slices.begin(evaluation.steps(todo))
        if evaluation.is_under_way:
            raise Unprepared(evaluation)

    def answers(self, identity: str, after: Metadata) -> Mapping[StandingQuery, bool]:
        """The answers for this change, which is being made now."""
        if not self._evaluations:
            return NO_ANSWERS
        evaluation = self._evaluations.get(identity)
        if evaluation is None or evaluation.is_under_way or not evaluation.is_of(after):
            return NO_ANSWERS
        del self._evaluations[identity]
        return evaluation.answers

    def forget(self, identity: str) -> None:
        """The producer is no more."""
        evaluation = self._evaluations.get(identity)
        if evaluation is not None and not evaluation.is_under_way:
            del self._evaluations[identity]


def _work(standings: Iterable[StandingQuery], metadata: Metadata) -> float:
    return sum([standing.price.work(metadata) for standing in standings])
