"""Consumers whose query tests each message (F6), and which of them get it.

A producer is in the set of `Kind = 'so2' AND $value > 80` because of its metadata, so the plan for its messages is made
once. What is left, `$value > 80`, is asked of each message, and there are few answers:

    base plan   K, group g of L                 consumers that ask nothing
    filters     $value > 80   M, N              $size < 9   O of group g
    answers     neither       K, g of L         the first     K, M, N, g of L        and so on

Each answer is a plan of its own, made when it first comes and kept. So a message costs each different test once, and
one look into a dictionary. Where there are very many tests, the query index finds those that pass.

Where all of them ask for nothing but `$value`, or nothing but the same field of JSON payloads, the value of that field
leads to the plan: see `pieces.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from fumarole.core.query.index import QueryIndex, StandingQuery
from fumarole.core.query.message import LONGEST_JSON, Message, Reads
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.parts import PURE, Parts
from fumarole.exchange.pieces import PLANS_KEPT, Cuts, Pieces
from fumarole.exchange.plans import Plan

FEW: Final = 16
"""So many are asked one by one sooner than the index finds those that pass."""
BYTES_AT_ONCE: Final = 8
"""Bytes of a payload that are parsed in the time that a message takes to be put into an outbox."""

Join = Callable[[Iterable[Consumer]], Plan]
"""The base plan with these consumers."""


class Filters:
    """The consumers of a plan whose queries test each message, by test."""

    __slots__ = ("_consumers", "_cost", "_index", "_join", "_parses", "_plans", "pieces", "reads")

    def __init__(
        self,
        consumers: dict[StandingQuery, list[Consumer]],
        index: QueryIndex,
        join: Join,
        parts: Parts = PURE,
    ) -> None:
        self._consumers = consumers
        self._index = index
        self._join = join
        self._plans: dict[tuple[StandingQuery, ...], Plan] = {}
        standings = tuple(consumers)
        asks = [standing.asks for standing in standings if standing.asks is not None]
        self._cost = sum([each.cost for each in asks]) if len(asks) <= FEW else FEW
        self._parses = any(each.paths for each in asks)
        cuts = _cuts(standings, parts)
        self.pieces: Pieces | None = None if cuts is None else parts.pieces(cuts)
        """The answers, where the value of one field leads to them."""
        self.reads = _reads(standings, parts) if self._parses else None
        """Finds the fields of JSON payloads that are asked for."""

    def plan_of(self, message: Message) -> Plan:
        """The plan of this message."""
        pieces = self.pieces
        if pieces is None:
            return self.passed(message)
        value = message.get(pieces.cuts.field)
        plan = pieces.find(value)
        if plan is None:
            plan = self.passed(message)
            pieces.keep(value, plan)
        return plan

    def passed(self, message: Message) -> Plan:
        """The same, by asking each test."""
        if len(self._consumers) <= FEW:
            passed = tuple([each for each in self._consumers if each.asks is not None and each.asks.holds(message)])
        else:
            found = [each for each in self._index.match_message(message) if each in self._consumers]
            passed = tuple(sorted(found, key=_number))
        plan = self._plans.get(passed)
        if plan is None:
            if len(self._plans) >= PLANS_KEPT:
                self._plans.clear()
            plan = self._plans[passed] = self._join([each for one in passed for each in self._consumers[one]])
        return plan

    def work(self, payload: int) -> int:
        """About what it is to ask them about a payload of so many bytes, in messages put into an outbox."""
        parsed = payload // BYTES_AT_ONCE if self._parses and payload <= LONGEST_JSON else 0
        return self._cost + parsed


# Both are kept: very many producers have the same.


@lru_cache(maxsize=16)
def _cuts(standings: tuple[StandingQuery, ...], parts: Parts) -> Cuts | None:
    """The field that they ask for, and the numbers with which they compare it. None: there is not one such field."""
    asks = [standing.asks for standing in standings if standing.asks is not None]
    subjects = {each.subject for each in asks}
    subject = subjects.pop() if len(subjects) == 1 else None
    return None if subject is None else parts.cuts(subject, frozenset().union(*[each.cuts for each in asks]))


@lru_cache(maxsize=16)
def _reads(standings: tuple[StandingQuery, ...], parts: Parts) -> Reads | None:
    """None: the definition finds the fields. The index needs all keys of a payload."""
    if len(standings) > FEW:
        return None
    asked = frozenset[tuple[str, ...]]().union(*[each.asks.paths for each in standings if each.asks is not None])
    return parts.reads(tuple(sorted(asked))) if len(asked) <= FEW else None


def _number(standing: StandingQuery) -> int:
    return standing.number
