"""How the node is: for people, scripts, and what watches over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fumarole.core.pattern_options import parse_with_options
from fumarole.core.topic import Pattern, check_length, covers, parse_wildcards
from fumarole.exchange.consumer import consumer_report
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.quotas import Usage
from fumarole.exchange.worst_consumers import groups_by_node, reported_consumers, worst_consumers
from fumarole.sessions import services
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import JSON, Call
from fumarole.sessions.http.last_values import FIELDS, as_array
from fumarole.sessions.http.routes import word_of
from fumarole.sessions.service_request import Request

KNOWN_EVERYWHERE: Final = ("namespace", "producers")
"""What is the same on every node, and not added up."""
MOST_LISTENERS: Final = 200
LOOKED_AT_ONCE: Final = 100


def healthz(call: Call) -> None:
    """`GET /healthz`: the loop answers."""
    call.whole(200, "text/plain; charset=utf-8", b"ok\n", [("Cache-Control", "no-store")])


def readyz(call: Call) -> None:
    """`GET /readyz`: doors open, cluster joined, store writable."""
    reasons = list(call.service.unready())
    if reasons:
        call.problem(503, "; ".join(reasons))
    else:
        call.whole(200, "text/plain; charset=utf-8", b"ready\n", [("Cache-Control", "no-store")])


def service(name: str) -> Callable[[Call], None]:
    """A call that a service of the node answers, as it answers `$FUM.…` requests."""

    def handle(call: Call) -> None:
        exchange, _ = call.here()
        node, session = call.service.node, call.session
        now, client, account = session.now, session.client_id, session.account
        asked = Request(node, exchange, call.user, "", now, client, account, session.is_admin)
        said: list[dict[str, Any]] = []
        services.answer(f"{services.PREFIX}{name}", asked, said.append)
        call.json(200, said[0])

    return handle


def stats(call: Call) -> None:
    """`GET /v1/stats`: what all nodes have counted in the namespace; with `?node=` what one has."""
    exchange, _ = call.here()
    node = call.service.node
    numbers = exchange.report()
    told: dict[str, Any] = {"node": node.name, "version": node.version}
    elsewhere = {} if node.cluster is None or call.is_local else node.cluster.counted_elsewhere(exchange.name)
    if elsewhere:
        known = {name: numbers.pop(name) for name in KNOWN_EVERYWHERE}
        nodes = {node.name: numbers, **elsewhere}
        sums: dict[str, Any] = {}
        for each in nodes.values():
            sums = added_up(sums, each)
        numbers = {**known, **sums, "nodes": [{"node": name, **each} for name, each in nodes.items()]}
    elif node.cluster is not None:
        node.cluster.sum_up(exchange.name, numbers)  # other workers of this node
    call.json(200, {**told, **numbers, "quotas": exchange.quota_report()})


def added_up(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The sums of numbers of the same names."""
    sums = dict(first)
    for name, value in second.items():
        sums[name] = added_up(sums.get(name, {}), value) if isinstance(value, dict) else sums.get(name, 0) + value
    return sums


def connections(call: Call) -> None:
    """`GET /v1/connections`: the open ones of this node."""
    call.pieces(200, JSON, _connections(call), FIELDS)


def _connections(call: Call) -> Iterator[bytes]:
    """`{"node": …, "connections": […], "total": N}`, some at a time."""
    total = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal total
        for total, each in enumerate(call.service.connections(), 1):  # noqa: B007
            yield each

    before = b'{"node":%b,"connections":[' % forms.encode(call.service.node.name)
    yield from as_array(before, counted(), b"]")
    yield b',"total":%d}\n' % total


def consumers(call: Call) -> None:
    """`GET /v1/consumers`: those that lost most, or with `topic` those that get it; others see their own."""
    exchange, _ = call.here()
    usage = None if call.session.is_admin else call.session.account.user
    if usage is None and not call.session.is_admin:
        call.problem(403, "consumers of others are for users with the role admin")
    elif "topic" in call.options:
        check_length(call.options["topic"], call.service.node.limits.control_line)
        asked = parse_with_options(call.options["topic"], exchange.grammar)[2]
        call.pieces(200, JSON, _listeners(exchange, asked, usage), [("Cache-Control", "no-store")])
    else:
        told = worst_consumers(exchange, of=usage)
        call.json(
            200, told if usage is not None else told | {"groups": groups_by_node(exchange, call.service.node.name)}
        )


def _listeners(exchange: Exchange, asked: Pattern, of: Usage | None) -> Iterator[bytes]:
    """The consumers that get every message of this pattern, as far as queries and permissions let them."""
    some = reported_consumers(exchange)
    found: list[dict[str, Any]] = []
    for number, each in enumerate(some, 1):
        is_shown = of is None or (each.account is not None and each.account.user is of)
        if is_shown and covers(parse_wildcards(each.pattern), asked) and len(found) < MOST_LISTENERS:
            found.append(consumer_report(each))
        if number % LOOKED_AT_ONCE == 0:
            yield b""
    told = {"namespace": exchange.name, "consumers": len(found), "looked_at": len(some), "worst": found}
    yield forms.encode(told) + b"\n"


def journal(call: Call) -> None:
    """`GET /v1/journal`: clients that joined, left or were refused lately at this node."""
    node = call.service.node
    call.json(200, {"node": node.name, **node.journal.report(call.session.now, call.options.get("after", 0))})


def cut_off(call: Call) -> None:
    """`DELETE /v1/connections/{id}`: closes one of this node."""
    number = word_of(call.words)
    if number.isascii() and number.isdigit() and len(number) < 19 and call.service.cut_off(int(number)):
        call.empty(204)
    else:
        call.problem(404, "no connection of this id is open here")
