"""Producers over HTTP (H4): listed, looked at, described and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fumarole.core.query.compile import compiled
from fumarole.core.query.parse import parse_without_message
from fumarole.core.query.tree import cost
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.latest_readings import LatestReadings
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.producer import Producer, may_receive
from fumarole.exchange.readings import Reading, check_identity, check_metadata, check_speaks_for
from fumarole.exchange.retained import Kept
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import JSON, PIECE, Call
from fumarole.sessions.http.routes import BadParameterError, word_of

SHOWN: Final = 1_000
MOST_SHOWN: Final = 10_000
MOST_ASKED: Final = 300
"""Producers named in one request."""
LOOKED_AT_ONCE: Final = 200
"""Producers, for a query of one simple test: about a tenth of a millisecond."""
TELLING: Final = 8
"""As much work as looking at so many more. Each 128 bytes that are told count as one more."""
NO_SUCH: Final = "no producer of this id is known here"


def listing(call: Call) -> None:
    """`GET /v1/producers`."""
    options = call.options
    limit = options.get("limit", SHOWN)
    if not 1 <= limit <= MOST_SHOWN:
        raise BadParameterError(f"`limit` is 1 to {MOST_SHOWN}")
    where, select = options.get("where", ""), _keys(options.get("select"))
    selects, each_costs = (lambda _: True), 1
    if where.strip():
        query = parse_without_message(where, call.service.node.limits)
        selects, each_costs = compiled(query), cost(query)
    asked = _asked(call) if "ids" in options else call.here()[0].producers.after(options.get("after", 0))

    def answer(latest: Mapping[str, Kept]) -> None:
        pieces = _pieces(call, asked, selects, max(1, LOOKED_AT_ONCE // each_costs), limit, select, latest)
        call.pieces(200, JSON, pieces, [("Cache-Control", "no-store")])

    if "ids" in options:
        _with_latest(call, asked, answer)
    else:
        answer({})


def _asked(call: Call) -> list[Producer]:
    """The producers of `ids` that there are."""
    exchange, _ = call.here()
    ids = call.options["ids"].split(",")
    if len(ids) > MOST_ASKED:
        raise BadParameterError(f"`ids` names at most {MOST_ASKED} producers")
    found = [exchange.producers.get(check_identity(each)) for each in ids if each]
    return [producer for producer in found if producer is not None]


def _with_latest(call: Call, producers: list[Producer], answer: Callable[[Mapping[str, Kept]], None]) -> None:
    """Answers with the newest readings of these producers, of all nodes."""
    exchange, _ = call.here()
    if exchange.ask is None or call.is_local:
        answer({})
        return
    still_waits = call.later()

    def answer_late(latest: Mapping[str, Kept]) -> None:
        if still_waits():
            answer(latest)
            call.service.later(0.0, call.session.go_on_after)

    LatestReadings(exchange, [each.identity for each in producers], _sees(call), answer_late).begin()


def _pieces(
    call: Call,
    producers: list[Producer],
    selects: Any,
    at_once: int,
    limit: int,
    select: frozenset[str] | None,
    latest: Mapping[str, Kept],
) -> Iterator[bytes]:
    """`{"producers": [...], "next": N}`, a piece at a time. A producer that the user may not receive is passed over."""
    exchange, _ = call.here()
    sees, now = _sees(call), call.session.now
    told, last, following, size = 0, 0, None, 0
    known = exchange.producers
    before, pending = b'{"producers":[', list[bytes]()
    left = at_once
    for producer in producers:
        left -= 1
        if known.get(producer.identity) is producer and selects(producer.metadata) and may_receive(sees, producer):
            if told == limit:
                following = last
                break
            pending.append(forms.encode(newest(exchange, producer, now, latest.get(producer.identity), select)))
            size += len(pending[-1])
            told += 1
            last = producer.number
            left -= TELLING + (len(pending[-1]) >> 7)
        if left <= 0:
            left = at_once
            if size >= PIECE:  # each piece takes a system call
                yield before + b",\n".join(pending)
                before, pending, size = b",\n", [], 0
            else:
                yield b""
    tail = b'],"next":%b}\n' % forms.encode(following)
    yield before + b",\n".join(pending) + tail if pending or before != b",\n" else tail


def _sees(call: Call) -> Permissions | None:
    return None if call.user is None else call.user.subscribe


def _keys(select: str | None) -> frozenset[str] | None:
    return None if select is None else frozenset(key.strip() for key in select.split(",") if key.strip())


def shown(producer: Producer, now: float, select: frozenset[str] | None = None) -> dict[str, Any]:
    """What is told of a producer."""
    topic, value = producer.latest()
    metadata = producer.metadata
    if select is not None:
        metadata = {key: value for key, value in metadata.items() if key in select}
    told: dict[str, Any] = {"id": producer.identity, "metadata": metadata}
    if value is not None:
        told |= {"topic": topic, "value": value, "age": max(0.0, round(now - producer.last_heard(), 3))}
    return told


def newest(
    exchange: Exchange, producer: Producer, now: float, kept: Kept | None, select: frozenset[str] | None = None
) -> dict[str, Any]:
    """What is told of a producer, with the reading of another node where that is newer."""
    told = shown(producer, now, select)
    reading = None if kept is None else kept.publication(0.0).reading
    if kept is not None and isinstance(reading, Reading):
        told |= {"topic": kept.topic, "value": reading.value, "age": exchange.clock.age(kept.time)}
    return told


def one(call: Call) -> None:
    """`GET /v1/producers/{id}`."""
    exchange, _ = call.here()
    producer = exchange.producers.get(check_identity(word_of(call.words)))
    if producer is None or not may_receive(_sees(call), producer):
        call.problem(404, NO_SUCH)
        return

    def answer(latest: Mapping[str, Kept]) -> None:
        call.json(200, newest(exchange, producer, call.session.now, latest.get(producer.identity)))

    _with_latest(call, [producer], answer)


def describe(call: Call) -> None:
    """`PATCH /v1/producers/{id}`: a JSON merge patch of its metadata (M3)."""
    exchange, _ = call.here()
    identity = check_identity(word_of(call.words))
    check_speaks_for(call.user, identity)
    patch = check_metadata(forms.merge_patch(call.body))
    producer = exchange.producers.describe(identity, patch, call.session.now, call.session.account)
    call.json(200, shown(producer, call.session.now))


def forget(call: Call) -> None:
    """`DELETE /v1/producers/{id}` (M7)."""
    exchange, _ = call.here()
    identity = check_identity(word_of(call.words))
    check_speaks_for(call.user, identity)
    if exchange.producers.forget(identity):
        call.empty(204)
    else:
        call.problem(404, NO_SUCH)
