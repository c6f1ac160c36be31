"""What the node itself answers, to requests on topics that begin with `$FUM.` (T9).

    $FUM.stats        the counters of the namespace (L3)
    $FUM.consumers    the consumers of the namespace that lost most
    $FUM.cluster      the other nodes, and how the links to them are
    $FUM.producers    the producers, or those that a query selects
    $FUM.describe     this is new about producers, without a reading
    $FUM.forget       a producer is no more (M7)
    $FUM.where        readings of the producers that a query selects, on a topic of their own

A request has a payload, the answer is JSON. What cannot be done is answered with an `error`, and for a query with its
place.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from fumarole.core.errors import FumaroleError
from fumarole.core.publication import PRIVATE, Publication
from fumarole.core.query.errors import QueryError
from fumarole.core.query.parse import parse
from fumarole.core.topic import check_length, check_topic, parse_pattern
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import reaches_nobody
from fumarole.exchange.producers import Producer, check_identity, check_metadata, check_speaks_for, may_know

PREFIX = "$FUM."
PRODUCERS_SHOWN = 1_000
PRODUCERS_DESCRIBED = 100
"""In one request: each may be told to very many subscribers, and others wait meanwhile."""
PRODUCERS_BYTES = 512 * 1024
"""An answer has so many producers, or so much metadata, or a little more; `next` is where the next one begins. Those
that the user may not know of are passed over, and count."""
FIRST_LISTENER = 10.0
"""Seconds in which somebody must subscribe to such a topic."""


class Request(NamedTuple):
    """A question to the node, and on whose behalf it is asked."""

    node: Node
    exchange: Exchange
    user: User | None
    payload: str
    now: float
    client: int
    """The id of the one who asks."""


class RequestError(FumaroleError):
    """A request that cannot be answered as asked."""


def answer(service: str, request: Request) -> dict[str, Any] | None:
    """The answer, or None where there is no such service."""
    serve = SERVICES.get(service)
    if serve is None:
        return None
    try:
        return serve(request)
    except QueryError as error:
        place = {"position": error.position, "found": error.found, "expected": error.expected}
        return {"error": str(error), **place}
    except FumaroleError as error:
        return {"error": str(error)}


def _stats(request: Request) -> dict[str, Any]:
    numbers = request.exchange.report()
    if request.node.cluster is not None:
        request.node.cluster.sum_up(request.exchange.name, numbers)
    return {"node": request.node.name, "version": request.node.version, **numbers}


def _consumers(request: Request) -> dict[str, Any]:
    return request.exchange.worst_consumers()


def _cluster(request: Request) -> dict[str, Any]:
    node = request.node
    if node.cluster is None:
        return {"node": node.name, "version": node.version, "cluster": None, "peers": []}
    return node.cluster.report()


def _producers(request: Request) -> dict[str, Any]:
    producers = request.exchange.producers
    where, skip = _producers_asked(request.payload)
    found = iter(producers.selected(parse(where, request.node.limits)) if where.strip() else producers)
    shown = []
    looked_at = size = 0
    for producer in islice(found, skip, skip + PRODUCERS_SHOWN):
        looked_at += 1
        if may_know(request.user, producer):
            shown.append(producer)
            size += sum(len(key) + len(str(value)) for key, value in producer.metadata.items())
        if size > PRODUCERS_BYTES:
            break
    return {
        "total": len(producers),
        "next": skip + looked_at if next(found, None) is not None else None,
        "producers": [_told(producer, request.now) for producer in shown],
    }


def _told(producer: Producer, now: float) -> dict[str, Any]:
    _, value = producer.latest()
    age = None if value is None else max(0.0, round(now - producer.last_heard(), 3))
    return {"id": producer.identity, "metadata": producer.metadata, "value": value, "age": age}


def _producers_asked(payload: str) -> tuple[str, int]:
    """A query, or a JSON object with one and how many to pass over."""
    if not payload.lstrip().startswith("{"):
        return payload, 0
    wanted = RequestError("expected a query, or a JSON object with `where`, a query, and `skip`, a count")
    try:
        asked = json.loads(payload)
    except (ValueError, RecursionError):
        raise wanted from None
    where, skip = asked.get("where", ""), asked.get("skip", 0)
    if not isinstance(where, str) or type(skip) is not int or not 0 <= skip < 1 << 62:
        raise wanted
    return where, skip


def _describe(request: Request) -> dict[str, Any]:
    """What is said is merged, as with a reading (M3); all of it, or up to the first that cannot be."""
    wanted = RequestError("expected a JSON object with `producers`, a list of objects with `id` and `metadata`")
    try:
        said = [(each["id"], each["metadata"]) for each in json.loads(request.payload)["producers"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise wanted from None
    if len(said) > PRODUCERS_DESCRIBED:
        raise RequestError(f"expected at most {PRODUCERS_DESCRIBED} producers in one request, found {len(said)}")
    for identity, metadata in said:
        producer = check_identity(identity)
        check_speaks_for(request.user, producer)
        request.exchange.producers.describe(producer, check_metadata(metadata), request.now)
    return {"described": len(said)}


def _forget(request: Request) -> dict[str, Any]:
    producer = check_identity(request.payload.strip())
    check_speaks_for(request.user, producer)
    return {"forgotten": request.exchange.producers.forget(producer)}


def _where(request: Request) -> dict[str, Any]:
    where, pattern, group = _subscription(request.payload)
    query = parse(where, request.node.limits)
    exchange = request.exchange
    for text in (pattern, group):
        check_length(text, request.node.limits.control_line)
    parsed = parse_pattern(pattern, exchange.grammar)
    if group:
        check_topic(group, exchange.grammar)
    sees = request.user.subscribe if request.user else None
    if sees is not None and not sees.allows_pattern(parsed):
        raise RequestError(f"you may not subscribe to {pattern[:64]}")
    most = request.node.limits.consumers_per_connection
    if request.node.relays_of[request.client] >= most:
        raise RequestError(f"this connection has {most} such topics, and may have no more until one of them has ended")
    relay = Relay(request)
    consumer = exchange.consumer(relay, pattern, group, b"", sees)
    members = exchange.subscribe(consumer, query, pattern=parsed)
    relay.begin(consumer)
    return {"topic": relay.topic, "diffs": relay.diffs, "New": members, "Del": []}


def _subscription(payload: str) -> tuple[str, str, str]:
    """The query, pattern and group of a payload: the query alone, or a JSON object with all three."""
    if not payload.lstrip().startswith("{"):
        return payload, ">", ""
    try:
        asked = json.loads(payload)
    except (ValueError, RecursionError):
        raise RequestError("expected a query, or a JSON object with `where`, `topic` and `group`") from None
    given = [asked.get(key, other) for key, other in (("where", None), ("topic", ">"), ("group", ""))]
    if not all(isinstance(value, str) for value in given):
        raise RequestError("`where` is needed, and `where`, `topic` and `group` are text")
    return given[0], given[1], given[2]


SERVICES: dict[str, Callable[[Request], dict[str, Any]]] = {
    f"{PREFIX}stats": _stats,
    f"{PREFIX}consumers": _consumers,
    f"{PREFIX}cluster": _cluster,
    f"{PREFIX}producers": _producers,
    f"{PREFIX}describe": _describe,
    f"{PREFIX}forget": _forget,
    f"{PREFIX}where": _where,
}


class Relay:
    """The outlet of `$FUM.where`: publishes what it gets as JSON on a topic of its own, while somebody listens.

    The topic is a secret, and no wildcard finds it: who asked has it, and whom it was passed on to.
    """

    def __init__(self, request: Request) -> None:
        self.topic = PRIVATE + secrets.token_hex(16)
        self.diffs = f"{self.topic}.diff"
        self.label = self.topic
        self.echo = True
        self._node = request.node
        self._exchange = request.exchange
        self._plans = request.exchange.plans()
        self._client = request.client
        self._consumer: Consumer | None = None
        self._end = request.now + FIRST_LISTENER
        self._untold: dict[str, bool] = {}
        """Changes that nobody could hear yet: is this producer in the set, or no more?"""

    def begin(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._node.relays.append(self)
        self._node.relays_of[self._client] += 1

    def has_room(self, weight: int) -> bool:  # noqa: ARG002 (those who listen have outboxes of their own)
        """While nobody listens, as before the first and after the last, others of the group are chosen (G3)."""
        return self._is_heard_on(self.topic)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self._tell()
        reading = publication.reading
        said = {"id": reading.producer, "metadata": dict(reading.metadata), "value": reading.value}
        self._publish(self.topic, {**said, "topic": publication.topic})

    def tell(self, _consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        for ids, is_member in ((gone, False), (new, True)):
            for each in ids:
                if self._untold.get(each, is_member) is not is_member:
                    del self._untold[each]
                else:
                    self._untold[each] = is_member
        self._tell()

    def _tell(self) -> None:
        """The set was told when it was asked for, and what has changed since waits for the first listener."""
        if self._untold and self._is_heard_on(self.diffs):
            told, self._untold = self._untold, {}
            new = [each for each, is_member in told.items() if is_member]
            self._publish(self.diffs, {"New": new, "Del": [each for each in told if not told[each]]}, vital=True)

    def tick(self, now: float) -> bool:
        """Time passes. False: nobody listens any more, and this is over."""
        if self._is_heard():
            self._end = 0.0
            self._tell()
        elif now > self._end:
            self._finish()
            return False
        return True

    def _finish(self) -> None:
        if self._consumer is not None:
            self._exchange.unsubscribe(self._consumer)
        self._node.relays_of[self._client] -= 1
        if not self._node.relays_of[self._client]:
            del self._node.relays_of[self._client]

    def _is_heard(self) -> bool:
        return self._is_heard_on(self.topic) or self._is_heard_on(self.diffs)

    def _is_heard_on(self, topic: str) -> bool:
        return not reaches_nobody(self._plans.find(topic.encode()))

    def _publish(self, topic: str, what: dict[str, Any], *, vital: bool = False) -> None:
        plan = self._plans.find(topic.encode())
        if not reaches_nobody(plan):
            publication = Publication(topic, json.dumps(what).encode())
            publication.vital = vital
            self._exchange.publish(plan, publication)
