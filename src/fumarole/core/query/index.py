"""Many standing queries against one producer whose metadata changes.

It changes at one key or a few, and nearly all queries do not care. Those that may are found in one of two ways, the one
that finds fewer, and only they are evaluated.

By what changed. The answer can change only if one of the query's tests does. Where Room goes from '410' to '411':

    Room = '410'   Room IN ('409', '411')   Room != '411'          found by hash, under '410' and '411'
    Room > '4100'                                                  found by order, between '410' and '411'
    Room LIKE '%1'   Room MATCHES '1$'                             all of that key

By what must hold. Each query is also kept under a guard: a few of its tests, of which at least one is true whenever the
query is. For AND the guard of one term will do, the one that fewest others share; OR needs the guards of all its terms:

    Kind = 'temperature' AND (Room = '410' OR Room = '411')        guard: Room = '410', Room = '411'

So when a sensor of some kind appears, of the thousands of queries for that kind, each for rooms of its own, only those
for the sensor's room are evaluated.

Queries are kept in canonical form, where a query is true exactly when enough of its tests are true: see `canonical`.

Where a query has tests of the message too (F6), all of this is about the part of it that decides the set. What is left
to ask of each message is kept under a guard in the same way, so that a message is put to the few queries that it may
concern, however many stand.
"""

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fumarole.core.query.asked import Asked
from fumarole.core.query.canonical import canonical
from fumarole.core.query.compile import Selects, Values, closure
from fumarole.core.query.cost import price
from fumarole.core.query.message import OTHER, Message, Other
from fumarole.core.query.parts import MessageTest, message_query, set_query
from fumarole.core.query.tree import (
    And,
    Between,
    Compare,
    Constant,
    Has,
    In,
    IsNull,
    Key,
    Kind,
    Like,
    Matches,
    Metadata,
    Not,
    Or,
    Query,
    Value,
    keys,
    kind_of,
)

_FEW: Final = 100
"""So many queries are evaluated sooner than a second way to find them is tried."""

Place = tuple[str, Key, Kind | None, Any]
"""Where a test is kept, by what has to hold for it to be true: a relation, its key, the kind of value, and what it is
compared with."""

# The relations. What the value has to be:
_EQUAL: Final = "equal"  # `at`
_ABOVE: Final = "above"  # beyond the cut `at`
_BELOW: Final = "below"  # before the cut `at`
_OTHER: Final = "other"  # of the kind, and not one of some values
_PATTERN: Final = "pattern"  # text
_PRESENT: Final = "present"
_ABSENT: Final = "absent"
# And for tests in `_OTHER`, each value that it must not be:
_EXCEPT: Final = "except"

# A cut is a place between values: (5, 0) is just before 5, (5, 1) just after it, and 5 itself is at (5, 0.5).
Cut = tuple[Any, float]
_ORDERED: Final = (_ABOVE, _BELOW)
_CUT_OF: Final = {">": (_ABOVE, 1), ">=": (_ABOVE, 0), "<": (_BELOW, 0), "<=": (_BELOW, 1)}

# How many queries a guard lets through can be told from how many are kept under it already. Where that is equally few,
# the kind of test decides.
_PREFERENCE: Final = {_EQUAL: 1, _ABOVE: 2, _BELOW: 2, _PATTERN: 3, _OTHER: 4, _PRESENT: 5, _ABSENT: 6}


class StandingQuery:
    """A standing query, shared by all consumers with the same query. Compared by identity."""

    __slots__ = ("asks", "guard", "keys", "message_guard", "number", "price", "query", "selects", "uses", "wants")

    def __init__(self, query: Query, number: int = 0) -> None:
        self.query = query
        """In canonical form."""
        self.number = number
        """Greater than those of all that stood before it."""
        self.price = price(query)
        """What an evaluation takes."""
        self.wants = set_query(query)
        """The part that decides the set; None: all producers are in it."""
        self.keys = frozenset[str]() if self.wants is None else keys(self.wants)
        self.selects: Selects = _everything if self.wants is None else closure(self.wants)
        """True when a producer with this metadata is in the set."""
        left = message_query(query)
        self.asks = None if left is None else MessageTest(left)
        """The tests on messages of producers in the set; None: there are none, all messages are delivered."""
        self.guard: frozenset[Place] = frozenset()
        """The place of the guard of the set."""
        self.message_guard: frozenset[Place] = frozenset()
        """The place of the guard of the tests on messages."""
        self.uses = 0


def _everything(_: Values) -> bool:
    return True


class Change(NamedTuple):
    """The result of a change of metadata: the queries that the producer matches now, and those it matches no more."""

    entered: set[StandingQuery]
    left: set[StandingQuery]


_NONE: Final[Mapping[StandingQuery, bool]] = {}


def _answer(standing: StandingQuery, metadata: Metadata, answers: Mapping[StandingQuery, bool]) -> bool:
    known = answers.get(standing)
    return standing.selects(metadata) if known is None else known


class QueryIndex:
    """The standing queries of one namespace."""

    __slots__ = (
        "_asked",
        "_begun",
        "_everywhere",
        "_guards",
        "_message_guards",
        "_standing",
        "_tests",
        "evaluated",
        "fixed",
        "rate",
    )

    def __init__(self) -> None:
        self._standing: dict[Query, StandingQuery] = {}
        self._begun = 0
        """The number of queries added so far."""
        self._tests = _Places()
        self._guards = _Places()
        self._everywhere: Queries = {}
        """Queries with all producers in their set."""
        self._message_guards = _Places()
        self._asked = Asked()
        """The names that are tested of messages."""
        self.evaluated = 0
        """The number of evaluated queries so far."""
        self.fixed = 0
        """The fixed part of the prices of all queries."""
        self.rate = 0.0
        """And what they take for each character of texts."""

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[StandingQuery]:
        return iter(self._standing.values())

    def add(self, query: Query) -> StandingQuery:
        """One more use of the query. Queries of the same canonical form are one."""
        form = canonical(query)
        standing = self._standing.get(form)
        if standing is None:
            self._begun += 1
            standing = self._standing[form] = StandingQuery(form, self._begun)
            self._begin(standing)
        standing.uses += 1
        return standing

    def remove(self, standing: StandingQuery) -> bool:
        """One use less. True: that was the last, and the query stands no more."""
        assert self._standing[standing.query] is standing
        standing.uses -= 1
        if standing.uses:
            return False
        del self._standing[standing.query]
        self._end(standing)
        return True

    def _begin(self, standing: StandingQuery) -> None:
        self.fixed += standing.price.fixed
        self.rate += standing.price.rate
        if standing.wants is None:
            self._everywhere[standing] = None
        else:
            standing.guard = _guard(standing.wants, self._guards).places
            self._tests.add(_all_places(standing.wants), standing)
            self._guards.add(standing.guard, standing)
        if standing.asks is not None:
            standing.message_guard = _guard(standing.asks.query, self._message_guards).places
            self._message_guards.add(standing.message_guard, standing)
            self._asked.add(standing.asks.query)

    def _end(self, standing: StandingQuery) -> None:
        self.fixed -= standing.price.fixed
        self.rate = self.rate - standing.price.rate if self._standing else 0.0
        if standing.wants is None:
            del self._everywhere[standing]
        else:
            self._tests.remove(_all_places(standing.wants), standing)
            self._guards.remove(standing.guard, standing)
        if standing.asks is not None:
            self._message_guards.remove(standing.message_guard, standing)
            self._asked.remove(standing.asks.query)

    def match(self, metadata: Metadata, answers: Mapping[StandingQuery, bool] = _NONE) -> set[StandingQuery]:
        """The queries that have a producer with this metadata in their set. Some answers may be known already."""
        candidates = self.candidates(metadata)
        self.evaluated += len(candidates)
        if answers:
            found = {each for each in candidates if _answer(each, metadata, answers)}
        else:
            found = {standing for standing in candidates if standing.selects(metadata)}
        return found.union(self._everywhere)

    def candidates(self, metadata: Metadata) -> set[StandingQuery]:
        """All queries that may have it in their set, but for those with all producers in theirs."""
        return set().union(*self._guards.true(metadata, metadata))

    def match_message(self, message: Message) -> set[StandingQuery]:
        """Of the queries that ask something of messages, and in whose set its producer is, those that get this one; and
        some in whose set it is not."""
        candidates = set().union(*self._message_guards.true(message, self._asked.names(message)))
        self.evaluated += len(candidates)
        return {standing for standing in candidates if standing.asks is not None and standing.asks.holds(message)}

    def change(
        self,
        before: Metadata,
        after: Metadata,
        changed: Iterable[str],
        inside: Container[StandingQuery] | None = None,
        answers: Mapping[StandingQuery, bool] = _NONE,
        also: Collection[StandingQuery] = (),
    ) -> Change:
        """The queries that a change of a producer's metadata under these keys affects, and these.

        `inside` are those in whose set it is, where that is known. Some answers may be known already.
        """
        entered: set[StandingQuery] = set()
        left: set[StandingQuery] = set()
        affected = self.affected(before, after, changed)
        affected.update(also)
        self.evaluated += len(affected)
        for standing in affected:
            selected = _answer(standing, after, answers)
            if selected is not (standing.selects(before) if inside is None else standing in inside):
                (entered if selected else left).add(standing)
        return Change(entered, left)

    def affected(self, before: Metadata, after: Metadata, changed: Iterable[str]) -> set[StandingQuery]:
        """The queries whose answer may have changed: all whose answer has changed, and few more."""
        changed = frozenset(changed)
        by_change = [
            queries for key in changed for queries in self._tests.changed(key, before.get(key), after.get(key))
        ]
        if sum(map(len, by_change)) <= _FEW:
            return set().union(*by_change)
        by_guard = self._guards.true(before, before)
        for key in changed:
            by_guard += self._guards.true_at(key, after.get(key))
        if sum(map(len, by_guard)) >= sum(map(len, by_change)):
            return set().union(*by_change)
        return {standing for standing in set().union(*by_guard) if not standing.keys.isdisjoint(changed)}


Queries = dict[StandingQuery, None]
"""In the order they came."""


class _Cuts:
    """Queries by the value at which their test becomes true or false: the cuts in order, with the queries at each."""

    __slots__ = ("_cuts", "_queries")

    def __init__(self) -> None:
        self._cuts: list[Cut] = []
        self._queries: list[Queries] = []

    def __len__(self) -> int:
        return len(self._cuts)

    def add(self, cut: Cut, standing: StandingQuery) -> None:
        at = bisect_left(self._cuts, cut)
        if at == len(self._cuts) or self._cuts[at] != cut:
            self._cuts.insert(at, cut)
            self._queries.insert(at, {})
        self._queries[at][standing] = None

    def remove(self, cut: Cut, standing: StandingQuery) -> None:
        at = bisect_left(self._cuts, cut)
        del self._queries[at][standing]
        if not self._queries[at]:
            del self._cuts[at], self._queries[at]

    def before(self, value: Value) -> list[Queries]:
        return self._queries[: self._place(value)]

    def after(self, value: Value) -> list[Queries]:
        return self._queries[self._place(value) :]

    def between(self, one: Value, other: Value) -> list[Queries]:
        start, end = sorted((self._place(one), self._place(other)))
        return self._queries[start:end]

    def _place(self, value: Value) -> int:
        return bisect_left(self._cuts, (value, 0.5))


class _Places:
    """Queries by the places of their tests, or of their guards."""

    __slots__ = ("_absent", "_ordered", "_queries")

    def __init__(self) -> None:
        self._queries: dict[Place, Queries] = {}
        self._ordered: dict[tuple[str, Key, Kind | None], _Cuts] = {}
        """What is _ABOVE or _BELOW a cut, by relation, key and kind."""
        self._absent: dict[Key, Queries] = {}
        """What is _ABSENT, by key."""

    def __bool__(self) -> bool:
        return bool(self._queries or self._ordered or self._absent)

    def add(self, places: Iterable[Place], standing: StandingQuery) -> None:
        for place in places:
            relation, key, kind, at = place
            if relation in _ORDERED:
                self._ordered.setdefault((relation, key, kind), _Cuts()).add(at, standing)
            elif relation == _ABSENT:
                self._absent.setdefault(key, {})[standing] = None
            else:
                self._queries.setdefault(place, {})[standing] = None

    def remove(self, places: Iterable[Place], standing: StandingQuery) -> None:
        for place in places:
            relation, key, kind, at = place
            if relation in _ORDERED:
                self._ordered[relation, key, kind].remove(at, standing)
                if not self._ordered[relation, key, kind]:
                    del self._ordered[relation, key, kind]
            elif relation == _ABSENT:
                del self._absent[key][standing]
                if not self._absent[key]:
                    del self._absent[key]
            else:
                del self._queries[place][standing]
                if not self._queries[place]:
                    del self._queries[place]

    def cost(self, place: Place) -> int:
        """About how many queries would be looked at in vain if one more were kept here."""
        relation, key, kind, _ = place
        if relation in _ORDERED:
            others = len(self._ordered.get((relation, key, kind), ())) // 2
        else:
            others = len(self._absent.get(key, ()) if relation == _ABSENT else self._queries.get(place, ()))
        return others + _PREFERENCE[relation]

    def true(self, values: Values, names: Iterable[Key]) -> list[Queries]:
        """The queries with a test here that may be true of these values, which have no others than those names; a query
        may be in several of the groups."""
        found = [queries for key, queries in self._absent.items() if key not in values]
        for key in names:
            value = values.get(key)
            if value is not None:
                found += self.true_at(key, value)
        return found

    def true_at(self, key: Key, value: Value | Other | None) -> list[Queries]:
        """The same for the tests of one key. None: it is not there."""
        if value is None:
            return [self._absent[key]] if key in self._absent else []
        if value is OTHER:
            return self._kept((_PRESENT, key, None, None))
        kind = kind_of(value)
        found = self._kept(
            (_EQUAL, key, kind, value),
            (_OTHER, key, kind, None),
            (_PATTERN, key, kind, None),
            (_PRESENT, key, None, None),
        )
        if (_ABOVE, key, kind) in self._ordered:
            found += self._ordered[_ABOVE, key, kind].before(value)
        if (_BELOW, key, kind) in self._ordered:
            found += self._ordered[_BELOW, key, kind].after(value)
        return found

    def changed(self, key: str, before: Value | None, after: Value | None) -> list[Queries]:
        """The queries with a test here that may be true of one of these values and not of the other."""
        if before is None or after is None or (kind := kind_of(before)) is not kind_of(after):
            return self.true_at(key, before) + self.true_at(key, after)
        found = self._kept(
            (_EQUAL, key, kind, before),
            (_EQUAL, key, kind, after),
            (_EXCEPT, key, kind, before),
            (_EXCEPT, key, kind, after),
            (_PATTERN, key, kind, None),
        )
        for relation in _ORDERED:
            if (relation, key, kind) in self._ordered:
                found += self._ordered[relation, key, kind].between(before, after)
        return found

    def _kept(self, *places: Place) -> list[Queries]:
        return [self._queries[place] for place in places if place in self._queries]


def _all_places(query: Query) -> set[Place]:
    """The places of all tests of a canonical query, each with the NOT that may stand before it."""
    places: set[Place] = set()
    todo = [query]
    while todo:
        node = todo.pop()
        if isinstance(node, And | Or):
            todo.extend(node.terms)
        else:
            places.update(_places(node), _exceptions(node))
    return places


def _places(test: Query) -> list[Place]:
    """The places under at least one of which the value has to fall for the test to be true."""
    match test:
        case Compare(key, "=", Constant(kind, value)):
            return [(_EQUAL, key, kind, value)]
        case Compare(key, "!=", Constant(kind, _)):
            return [(_OTHER, key, kind, None)]
        case Compare(key, operator, Constant(kind, value)):
            relation, side = _CUT_OF[operator]
            return [(relation, key, kind, (value, side))]
        case In(key, constants):
            return [(_EQUAL, key, constant.kind, constant.value) for constant in constants]
        case Not(In(key, constants)):
            kinds = {constant.kind for constant in constants}
            return [(_OTHER, key, kinds.pop(), None)] if len(kinds) == 1 else []  # never true of any value
        case Like(key) | Matches(key) | Not(Like(key) | Matches(key)):
            return [(_PATTERN, key, Kind.TEXT, None)]
        case Has(key):
            return [(_PRESENT, key, None, None)]
        case IsNull(key):
            return [(_ABSENT, key, None, None)]
        case And() | Or() | Not() | Between():
            raise AssertionError(f"not a test of a canonical query: {test}")


def _exceptions(test: Query) -> list[Place]:
    """The values of which it is not true, where it is true of all others of their kind."""
    match test:
        case Compare(key, "!=", constant):
            return [(_EXCEPT, key, constant.kind, constant.value)]
        case Not(In(key, constants)):
            return [(_EXCEPT, key, constant.kind, constant.value) for constant in constants]
        case _:
            return []


class _Guard(NamedTuple):
    cost: int
    places: frozenset[Place]


def _guard(query: Query, guards: _Places) -> _Guard:
    """The cheapest places under at least one of which the metadata has to fall for the query to be true."""
    match query:
        case And(terms):
            return min([_guard(term, guards) for term in terms], key=lambda guard: guard.cost)
        case Or(terms):
            places = frozenset().union(*[_guard(term, guards).places for term in terms])
        case _:
            places = frozenset(_places(query))
    return _Guard(sum(map(guards.cost, places)), places)
