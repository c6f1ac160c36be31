"""Calls for writing queries (H4): a query as it is parsed, the reason why a producer is in its set, the keys and values
of producers, and the same subscription in other languages.

    GET /v1/explain?where=Kind = 'so2' and $value > 80&id=2f1c…
    {"canonical": "$value > 80 AND Kind = 'so2'", "set": "Kind = 'so2'", "keys": ["Kind"], "message": ["$value"],
     "in_set": true, "tree": {"text": "AND", "truth": "true", "terms": [
         {"text": "Kind = 'so2'", "truth": "true"}, {"text": "$value > 80", "truth": "message"}]}}

    GET /v1/explain?where=select Region, count(*) where Kind = 'so2'
    {"canonical": "Kind = 'so2'", "set": "Kind = 'so2'", …, "view": {"keys": ["Region"], "counted": true}}

    GET /v1/facets?where=Region = 'italy'
    {"producers": 12, "keys": [{"key": "Kind", "producers": 12, "values": [{"value": "so2", "count": 7}], "more": 2}]}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final

from fumarole.core.query.canonical import canonical
from fumarole.core.query.compile import compiled
from fumarole.core.query.evaluation import answered, needs_slices
from fumarole.core.query.holds import Truth, could_hold, holds
from fumarole.core.query.index import StandingQuery
from fumarole.core.query.parse import parse, parse_without_message
from fumarole.core.query.parts import set_query
from fumarole.core.query.tree import And, Metadata, Not, Or, Query, Value, cost, fields, keys, show, show_key
from fumarole.core.query.view import is_view, parse_view
from fumarole.core.topic import parse_pattern
from fumarole.core.values import ONLINE
from fumarole.exchange.producer import may_receive
from fumarole.exchange.readings import check_identity, check_metadata, check_speaks_for
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import JSON, Call
from fumarole.sessions.http.copies import copies
from fumarole.sessions.http.routes import BadParameterError, word_of

LOOKED_AT_ONCE: Final = 200
"""Producers, for a query of one simple test: about a tenth of a millisecond."""
QUERIES_AT_ONCE: Final = 50
MOST_KEYS: Final = 200
MOST_VALUES: Final = 2_000
"""Distinct values of a key that are counted; the others are summed as `more`."""
SHOWN_VALUES: Final = 10
LONGEST_VALUE: Final = 200
MOST_NAMESPACES: Final = 200
NO_SUCH: Final = "no producer of this id is known here"
NAMES: Final[Mapping[Truth, str]] = {True: "true", False: "false", None: "unknown"}


def explain(call: Call) -> None:
    """`GET /v1/explain?where=&id=`."""
    text, limits = call.options.get("where", ""), call.service.node.limits
    view = parse_view(text, limits) if is_view(text) else None
    query = parse(text, limits) if view is None else view.query
    decides = set_query(query)
    told: dict[str, Any] = {
        "canonical": show(canonical(query)),
        "set": "" if decides is None else show(decides),
        "keys": sorted(keys(query)),
        "message": [show_key(field) for field in sorted(fields(query))],
    }
    if view is not None:
        told["view"] = {"keys": list(view.keys), "counted": view.counted}
    metadata: Metadata | None = None
    if "id" in call.options:
        exchange, _ = call.here()
        producer = exchange.producers.get(check_identity(call.options["id"]))
        if producer is None or not may_receive(call.user.subscribe if call.user else None, producer):
            call.problem(404, NO_SUCH)
            return
        metadata = producer.metadata
        told["in_set"] = could_hold(query, metadata) is True
    call.json(200, told | {"tree": branch(query, metadata)})


def branch(query: Query, metadata: Metadata | None) -> dict[str, Any]:
    """One node of the tree with those below it, and what holds of them for a producer."""
    terms: tuple[Query, ...] = ()
    if isinstance(query, And | Or):
        text, terms = ("AND" if isinstance(query, And) else "OR"), query.terms
    elif isinstance(query, Not) and isinstance(query.term, And | Or | Not):
        text, terms = "NOT", (query.term,)
    else:
        text = show(query)
    told: dict[str, Any] = {"text": text}
    if metadata is not None:
        told["truth"] = _truth(query, metadata)
    if terms:
        told["terms"] = [branch(term, metadata) for term in terms]
    return told


def _truth(query: Query, metadata: Metadata) -> str:
    """What holds of a producer; `message`: its next message decides."""
    if not fields(query):
        return NAMES[holds(query, metadata)]
    could = could_hold(query, metadata)
    if could is True and could_hold(Not(query), metadata) is not False:
        return "message"
    return NAMES[could]


def facets(call: Call) -> None:
    """`GET /v1/facets?where=&key=&limit=`: the keys of the producers selected, with their most frequent values."""
    limit = call.options.get("limit", SHOWN_VALUES)
    if not 1 <= limit <= MOST_VALUES:
        raise BadParameterError(f"`limit` is 1 to {MOST_VALUES}")
    call.pieces(200, JSON, _counted(call, limit), [("Cache-Control", "no-store")])


def _counted(call: Call, limit: int) -> Iterator[bytes]:
    """Counts a few producers at a time. The only piece is the last."""
    exchange, _ = call.here()
    where, only = call.options.get("where", ""), call.options.get("key")
    sees = None if call.user is None else call.user.subscribe
    query = parse_without_message(where, call.service.node.limits) if where.strip() else None
    selects = None if query is None else compiled(query)
    at_once = LOOKED_AT_ONCE if query is None else max(1, LOOKED_AT_ONCE // cost(query))

    def pieces() -> Iterator[bytes]:
        found = Facets(only)
        for looked_at, producer in enumerate(exchange.producers.after(0), 1):
            if (selects is None or selects(producer.metadata)) and may_receive(sees, producer):
                found.add(producer.metadata)
            if looked_at % at_once == 0:
                yield b""
        yield forms.encode(found.report(limit)) + b"\n"

    return pieces()


class Facets:
    """Keys, and how many producers have which value under them. What it holds is bounded."""

    def __init__(self, only: str | None = None) -> None:
        self._only = only
        self._producers = 0
        self._keys: Counter[str] = Counter()
        self._values: dict[str, Counter[tuple[bool, Value]]] = {}
        self._more: Counter[str] = Counter()

    def add(self, metadata: Metadata) -> None:
        self._producers += 1
        for key, value in metadata.items():
            if self._only is not None and key != self._only:
                continue
            values = self._values.get(key)
            if values is None:
                if len(self._values) >= MOST_KEYS:
                    continue
                values = self._values[key] = Counter()
            self._keys[key] += 1
            shown = value[:LONGEST_VALUE] if isinstance(value, str) else value
            counted = isinstance(value, bool), shown  # to Python `True` and `1` are the same key
            if counted in values or len(values) < MOST_VALUES:
                values[counted] += 1
            else:
                self._more[key] += 1

    def report(self, limit: int) -> dict[str, Any]:
        """The most frequent first."""
        return {
            "producers": self._producers,
            "keys": [self._of(key, count, limit) for key, count in self._keys.most_common()],
        }

    def _of(self, key: str, count: int, limit: int) -> dict[str, Any]:
        values = self._values[key]
        shown = [{"value": value, "count": number} for (_, value), number in values.most_common(limit)]
        return {
            "key": key,
            "name": show_key(key),
            "producers": count,
            "values": shown,
            "more": len(values) - len(shown) + self._more[key],
        }


def copied(call: Call) -> None:
    """`GET /v1/copies?where=&topic=`: the same subscription as lines for other languages."""
    where, topic = call.options.get("where", "").strip(), call.options.get("topic", "").strip()
    if bool(where) == bool(topic):
        raise BadParameterError("either `where` or `topic` is needed")
    exchange, _ = call.here()
    if is_view(where):
        parse_view(where, call.service.node.limits)
    elif where:
        parse(where, call.service.node.limits)
    else:
        parse_pattern(topic, exchange.grammar)
    host = call.head.fields.get("host", "127.0.0.1:8222").rpartition(":")[0] or "127.0.0.1"
    made = copies(where=where, topic=topic, host=host, doors=call.service.doors(), namespace=exchange.name)
    call.json(200, {"copies": [{"form": each.form, "lines": each.lines, "why_not": each.why_not} for each in made]})


def namespaces(call: Call) -> None:
    """`GET /v1/namespaces`: the namespaces, with their counters."""
    busiest = sorted(call.service.node.namespaces, key=lambda each: (-each.counters.received, each.name))
    told = [
        {
            "name": exchange.name,
            "connections": exchange.connections,
            "consumers": len(exchange),
            "producers": len(exchange.producers),
            "received": exchange.counters.received,
        }
        for exchange in busiest[:MOST_NAMESPACES]
    ]
    call.json(200, {"namespaces": told})


def preview(call: Call) -> None:
    """`POST /v1/preview/{id}`: the effect of a change of metadata, without making it."""
    identity = check_identity(word_of(call.words))
    check_speaks_for(call.user, identity)
    patch = check_metadata(forms.merge_patch(call.body))
    call.pieces(200, JSON, _previewed(call, identity, patch), [("Cache-Control", "no-store")])


def _previewed(call: Call, identity: str, patch: Mapping[str, Value | None]) -> Iterator[bytes]:
    """Puts the metadata before and after to every standing query, some at a time."""
    exchange, _ = call.here()
    producer = exchange.producers.get(identity)
    before: Metadata = {} if producer is None else producer.metadata
    after = {key: value for key, value in {**before, **patch}.items() if value is not None}
    after[ONLINE] = before.get(ONLINE, False)  # only the server writes it
    enters = leaves = 0
    for looked_at, (standing, many) in enumerate(exchange.producers.standing_queries(), 1):
        was = producer is not None and (yield from _selects(standing, before))
        will = yield from _selects(standing, after)
        enters += many * (will and not was)
        leaves += many * (was and not will)
        if looked_at % QUERIES_AT_ONCE == 0:
            yield b""
    yield forms.encode({"enters": enters, "leaves": leaves}) + b"\n"


def _selects(standing: StandingQuery, metadata: Metadata) -> Generator[bytes, None, bool]:
    """Is a producer with this metadata in the set? With a pause after each dear test."""
    if not needs_slices(standing, metadata):
        return standing.selects(metadata)
    asking = answered(standing, metadata)
    while True:
        try:
            next(asking)
        except StopIteration as done:
            return bool(done.value)
        yield b""
