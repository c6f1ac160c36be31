"""What the node itself answers, to requests on topics that begin with `$FUM.` (T9).

    $FUM.stats        the counters of the namespace (L3)
    $FUM.consumers    the consumers of the namespace that lost most
    $FUM.cluster      the other nodes, and how the links to them are
    $FUM.producers    the producers, or those that a query selects
    $FUM.describe     this is new about producers, without a reading
    $FUM.forget       a producer is no more (M7)
    $FUM.reload       the configuration is loaded again (A7)
    $FUM.where        readings of the producers that a query selects, on a topic of their own
    $FUM.view         the distinct values of some keys over the producers that a query selects, and their changes (F7)
    $FUM.last         what is known of the topics of a pattern, or of the producers that a query selects (F3)

A request has a payload, the answer is JSON. What cannot be done is answered with an `error`, and for a query with its
place.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from fumarole.core.errors import FumaroleError
from fumarole.core.limits import Limits
from fumarole.core.pattern_options import parse_with_options
from fumarole.core.query.compile import Selects, compiled
from fumarole.core.query.errors import QueryError
from fumarole.core.query.parse import parse, parse_without_message
from fumarole.core.query.tree import cost
from fumarole.core.query.view import parse_view
from fumarole.core.topic import Grammar, check_length, check_topic, parse_pattern
from fumarole.exchange.gathering import Last, asked_once
from fumarole.exchange.producer import Producer, may_receive
from fumarole.exchange.readings import check_identity, check_metadata, check_speaks_for
from fumarole.exchange.views import LiveView
from fumarole.exchange.worst_consumers import worst_consumers
from fumarole.sessions.relays import LastAnswer, Relay, ViewRelay
from fumarole.sessions.service_request import Request, RequestError, Say

PREFIX = "$FUM."
PRODUCERS_SHOWN = 1_000
PRODUCERS_DESCRIBED = 100
"""In one request: each may send diffs to very many subscribers, and other clients wait meanwhile."""
PRODUCERS_BYTES = 512 * 1024
"""An answer has at most so many producers, and at least one. It is about so long, or half as long as what the client's
outbox holds. `next` is the number of the last one: a request with it gets the producers that follow, also when some
were forgotten meanwhile. Producers that the user may not receive are passed over (A3)."""
PRODUCERS_LOOKED_AT = 20_000
"""For one answer, with a query of one simple test. Then `next` is where the search goes on, found or not."""
LONGEST_REQUEST = 256 * 1024
"""Characters of JSON: parsing a megabyte of brackets takes long, and other clients wait meanwhile."""
Serve = Callable[[Request, Say], None]


def answer(service: str, request: Request, say: Say) -> bool:
    """Says the answer, at once or when it is known. False: there is no such service."""
    serve = SERVICES.get(service)
    if serve is None:
        return False
    if service in FOR_ADMINS and not request.is_admin:
        say({"error": f"{service} shows what others do, and is for users with the role admin"})
        return True
    try:
        serve(request, say)
    except QueryError as error:
        place = {"position": error.position, "found": error.found, "expected": error.expected}
        say({"error": str(error), **place})
    except FumaroleError as error:
        say({"error": str(error)})
    return True


def _at_once(serve: Callable[[Request], dict[str, Any]]) -> Serve:
    """A service whose answer is known at once."""
    return lambda request, say: say(serve(request))


def _stats(request: Request) -> dict[str, Any]:
    numbers = request.exchange.report()
    if request.node.cluster is not None:
        request.node.cluster.sum_up(request.exchange.name, numbers)
    quotas = request.exchange.quota_report()
    return {"node": request.node.name, "version": request.node.version, **numbers, "quotas": quotas}


def _consumers(request: Request) -> dict[str, Any]:
    return worst_consumers(request.exchange)


def _cluster(request: Request) -> dict[str, Any]:
    node = request.node
    if node.cluster is None:
        return {"node": node.name, "version": node.version, "cluster": None, "peers": []}
    return node.cluster.report()


def _producers(request: Request) -> dict[str, Any]:
    producers = request.exchange.producers
    sees = request.user.subscribe if request.user else None
    where, last = _producers_asked(request.payload)
    selects, most = _selector(where, request.node.limits)
    room = min(PRODUCERS_BYTES, request.exchange.outbox_limit // 2)
    told: list[dict[str, Any]] = []
    following: int | None = None
    for looked_at, producer in enumerate(producers.after(last)):
        is_shown = may_receive(sees, producer) and selects(producer.metadata)
        each = _told(producer, request.now) if is_shown else None
        room -= 0 if each is None else len(json.dumps(each))
        if len(told) == PRODUCERS_SHOWN or looked_at == most or (room < 0 and told):
            following = last
            break
        last = producer.number
        if each is not None:
            told.append(each)
    # The number of all producers would tell a user of producers that the user may not receive (A3).
    total = len(producers) if sees is None else None
    return {"total": total, "next": following, "producers": told}


def _selector(where: str, limits: Limits) -> tuple[Selects, int]:
    """What a query selects, and how many producers it is put to in one request. An empty one selects all."""
    if not where.strip():
        return lambda _: True, PRODUCERS_LOOKED_AT
    query = parse_without_message(where, limits)
    return compiled(query), max(1, PRODUCERS_LOOKED_AT // cost(query))


def _told(producer: Producer, now: float) -> dict[str, Any]:
    _, value = producer.latest()
    age = None if value is None else max(0.0, round(now - producer.last_heard(), 3))
    return {"id": producer.identity, "metadata": producer.metadata, "value": value, "age": age}


def _producers_asked(payload: str) -> tuple[str, int]:
    """A query, or a JSON object with one and the number of the last producer that was told already."""
    if not payload.lstrip().startswith("{"):
        return payload, 0
    wanted = RequestError(
        "expected a query, or a JSON object with `where`, a query, and `skip`, the `next` of an answer"
    )
    try:
        asked = _parsed(payload)
    except (ValueError, RecursionError):
        raise wanted from None
    where, skip = asked.get("where", ""), asked.get("skip", 0)
    if not isinstance(where, str) or type(skip) is not int or not 0 <= skip < 1 << 62:
        raise wanted
    return where, skip


def _parsed(payload: str) -> Any:
    """JSON. Raises ValueError or RecursionError where it is none."""
    if len(payload) > LONGEST_REQUEST:
        raise RequestError(f"expected at most {LONGEST_REQUEST} characters in one request, found {len(payload)}")
    return json.loads(payload)


def _describe(request: Request) -> dict[str, Any]:
    """What is said is merged, as with a reading (M3); all of it, or up to the first that cannot be."""
    wanted = RequestError("expected a JSON object with `producers`, a list of objects with `id` and `metadata`")
    try:
        described = [(each["id"], each["metadata"]) for each in _parsed(request.payload)["producers"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise wanted from None
    if len(described) > PRODUCERS_DESCRIBED:
        raise RequestError(f"expected at most {PRODUCERS_DESCRIBED} producers in one request, found {len(described)}")
    for identity, metadata in described:
        producer = check_identity(identity)
        check_speaks_for(request.user, producer)
        said = check_metadata(metadata)
        request.exchange.producers.describe(producer, said, request.now, request.account, speaking=request.speaking)
    return {"described": len(described)}


def _forget(request: Request) -> dict[str, Any]:
    producer = check_identity(request.payload.strip())
    check_speaks_for(request.user, producer)
    return {"forgotten": request.exchange.producers.forget(producer)}


def _where(request: Request, say: Say) -> None:
    where, pattern, group = _subscription(request.payload)
    query = parse(where, request.node.limits)
    exchange = request.exchange
    for text in (pattern, group):
        check_length(text, request.node.limits.control_line)
    options, pattern, parsed = parse_with_options(pattern, exchange.grammar)
    if group:
        check_topic(group, Grammar.CHANNEL)
    sees = request.user.subscribe if request.user else None
    if sees is not None and not sees.allows_pattern(parsed):
        raise RequestError(f"you may not subscribe to {pattern[:64]}")
    relay = Relay(request)
    consumer = exchange.consumer(relay, pattern, group, b"", sees, request.account)
    exchange.subscribe(
        consumer, query, pattern=parsed, last=Last.ALL if options.last else Last.NONE, every=options.every
    )
    relay.begin(consumer)
    exchange.producers.when_whole(consumer, lambda: say(relay.introduction()))


def _view(request: Request, say: Say) -> None:
    view = parse_view(request.payload, request.node.limits)
    relay = ViewRelay(request)
    live = LiveView(request.exchange, view, relay.topic, relay.say)
    sees = request.user.subscribe if request.user else None
    relay.begin(live, request.exchange.subscribe_view(live, sees, request.account), say)


def _last(request: Request, _say: Say) -> None:
    """Each value is a message of its own on the reply topic; the last of all has the status 204 and their number."""
    where, pattern, _ = _subscription(
        request.payload
        if request.payload.lstrip().startswith("{")
        else json.dumps({"where": "", "topic": request.payload or ">"})
    )
    exchange = request.exchange
    check_length(pattern, request.node.limits.control_line)
    parsed = parse_pattern(pattern, exchange.grammar)
    query = parse(where, request.node.limits) if where.strip() else None
    sees = request.user.subscribe if request.user else None
    if sees is not None and not sees.allows_pattern(parsed):
        raise RequestError(f"you may not subscribe to {pattern[:64]}")
    if request.asker is None:
        raise RequestError("last values are messages, and there is nowhere to send them")
    answer = LastAnswer(request.asker)
    consumer = exchange.consumer(answer, pattern, "", b"", sees, request.account)
    asked_once(exchange, consumer, parsed, query).begin(answer.end)


def _subscription(payload: str) -> tuple[str, str, str]:
    """The query, pattern and group of a payload: the query alone, or a JSON object with all three."""
    if not payload.lstrip().startswith("{"):
        return payload, ">", ""
    try:
        asked = _parsed(payload)
    except (ValueError, RecursionError):
        raise RequestError("expected a query, or a JSON object with `where`, `topic` and `group`") from None
    given = [asked.get(key, other) for key, other in (("where", None), ("topic", ">"), ("group", ""))]
    if not all(isinstance(value, str) for value in given):
        raise RequestError("`where` is needed, and `where`, `topic` and `group` are text")
    return given[0], given[1], given[2]


def _reload(request: Request, say: Say) -> None:
    """A7. What the file says is no concern of other users."""
    if not request.is_admin:
        raise RequestError("only a user with the role admin may load the configuration again")
    if request.node.reload is None:
        raise RequestError("this broker cannot load its configuration again")
    request.node.reload(say)


SERVICES: dict[str, Serve] = {
    f"{PREFIX}reload": _reload,
    f"{PREFIX}stats": _at_once(_stats),
    f"{PREFIX}consumers": _at_once(_consumers),
    f"{PREFIX}cluster": _at_once(_cluster),
    f"{PREFIX}producers": _at_once(_producers),
    f"{PREFIX}describe": _at_once(_describe),
    f"{PREFIX}forget": _at_once(_forget),
    f"{PREFIX}where": _where,
    f"{PREFIX}view": _view,
    f"{PREFIX}last": _last,
}


FOR_ADMINS: Final = frozenset({f"{PREFIX}stats", f"{PREFIX}consumers", f"{PREFIX}cluster"})
"""What shows others' patterns, groups or addresses (A4)."""
