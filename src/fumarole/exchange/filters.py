"""Consumers whose query tests each message (F6), and which of them get it.

A producer is in the set of `Kind = 'so2' AND $value > 80` because of its metadata, so the plan for its messages is made
once. What is left, `$value > 80`, is asked of each message, and there are few answers:

    base plan   K, group g of L                 consumers that ask nothing
    filters     $value > 80   M, N              $size < 9   O of group g
    answers     neither       K, g of L         the first     K, M, N, g of L        and so on

Each answer is a plan of its own, made when it first comes and kept. So a message costs each different test once, and
one look into a dictionary. Where there are very many tests, the query index finds those that pass.

Where they ask for nothing but `$value`, the numbers in their tests cut the line of numbers into pieces, and within a
piece the answer is the same. So a reading costs a search for its piece, however many ask:

    $value > 80   $value BETWEEN 20 AND 90      …  20  …  80  …  90  …      eight pieces: each number, and between them
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache
from math import inf
from typing import Final

from fumarole.core.publication import Publication
from fumarole.core.query.compile import Values
from fumarole.core.query.index import QueryIndex, StandingQuery
from fumarole.core.query.message import LONGEST_JSON, Message
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.plans import Plan

FEW: Final = 16
"""So many are asked one by one sooner than the index finds those that pass."""
PLANS_KEPT: Final = 32
BYTES_AT_ONCE: Final = 8
"""Bytes of a payload that are parsed in the time that a message takes to be put into an outbox."""

Join = Callable[[Iterable[Consumer]], Plan]
"""The base plan with these consumers."""


class Filters:
    """The consumers of a plan whose queries test each message, by test."""

    __slots__ = (
        "_consumers",
        "_cost",
        "_cuts",
        "_index",
        "_join",
        "_latest",
        "_parses",
        "_pieces",
        "_plans",
        "by_value",
    )

    def __init__(self, consumers: dict[StandingQuery, list[Consumer]], index: QueryIndex, join: Join) -> None:
        self._consumers = consumers
        self._index = index
        self._join = join
        self._plans: dict[tuple[StandingQuery, ...], Plan] = {}
        asks = [standing.asks for standing in consumers if standing.asks is not None]
        self._cost = sum([each.cost for each in asks]) if len(asks) <= FEW else FEW
        self._parses = any(each.parses for each in asks)
        self.by_value = all(each.cuts is not None for each in asks)
        """Is it enough to know the value? Then `passed_by_value` is quicker."""
        self._cuts = _cuts(tuple(consumers)) if self.by_value else []
        self._pieces: dict[int, Plan] = {}
        self._latest: tuple[float, float, Plan] = inf, -inf, Plan()
        """The piece in which a value last was between two numbers, and its plan: the next one is mostly there too."""

    def passed(self, message: Values) -> Plan:
        """The plan of this message."""
        if len(self._consumers) <= FEW:
            passed = tuple([each for each in self._consumers if each.asks is not None and each.asks.holds(message)])
        else:
            assert isinstance(message, Message)
            found = [each for each in self._index.match_message(message) if each in self._consumers]
            passed = tuple(sorted(found, key=_number))
        plan = self._plans.get(passed)
        if plan is None:
            if len(self._plans) >= PLANS_KEPT:
                self._plans.clear()
            plan = self._plans[passed] = self._join([each for one in passed for each in self._consumers[one]])
        return plan

    def passed_by_value(self, value: float) -> Plan:
        """The plan of a message with this value, where no test needs more than the value."""
        low, high, plan = self._latest
        if low < value < high:
            return plan
        cuts = self._cuts
        place = bisect_left(cuts, value)
        is_cut = place < len(cuts) and cuts[place] == value
        piece = 2 * place + is_cut
        found = self._pieces.get(piece)
        if found is None:
            if len(self._pieces) >= PLANS_KEPT:
                self._pieces.clear()
            # Of the message only its value is looked at.
            found = self._pieces[piece] = self.passed(Message(Publication("", str(value).encode()), {}))
        if not is_cut:
            above = cuts[place] if place < len(cuts) else inf
            self._latest = (cuts[place - 1] if place else -inf), above, found
        return found

    def work(self, payload: int) -> int:
        """About what it is to ask them about a payload of so many bytes, in messages put into an outbox."""
        parsed = payload // BYTES_AT_ONCE if self._parses and payload <= LONGEST_JSON else 0
        return self._cost + parsed


@lru_cache(maxsize=16)
def _cuts(standings: tuple[StandingQuery, ...]) -> list[float]:
    """The numbers with which values are compared, in order. Kept: very many producers have the same."""
    cuts = [standing.asks.cuts for standing in standings if standing.asks is not None and standing.asks.cuts]
    return sorted(frozenset().union(*cuts))


def _number(standing: StandingQuery) -> int:
    return standing.number
