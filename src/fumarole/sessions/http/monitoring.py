"""`/varz` and `/connz`: what nats-top and NATS's exporters read, as far as it makes sense here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any, Final

from fumarole.sessions.http import forms
from fumarole.sessions.http.call import JSON, Call
from fumarole.sessions.http.last_values import FIELDS
from fumarole.sessions.nats import NATS_VERSION

SHOWN: Final = 1024
LOOKED_AT_ONCE: Final = 100
SORTED: Final = {"cid": ("id", False), "subs": ("consumers", True), "pending": ("waiting_bytes", True)}
"""What connections can be sorted by, what it is called here, and whether the greatest come first. All else that
nats-server can sort by is passed over."""


def varz(call: Call) -> None:
    """The node in whole."""
    service = call.service
    node, process = service.node, service.process()
    exchanges = list(node.namespaces)
    counters = [exchange.counters for exchange in exchanges]
    started = process.get("started", service.wall())
    call.json(
        200,
        {
            "server_id": node.name,
            "server_name": node.name,
            "version": NATS_VERSION,
            "fumarole": node.version,
            "proto": 1,
            "go": "none, this is Fumarole",
            "host": call.session.remote.host,
            "auth_required": node.authentication,
            "max_connections": node.limits.connections,
            "max_payload": node.limits.payload,
            "max_pending": node.limits.outbox,
            "max_control_line": node.limits.control_line,
            "ping_interval": int(node.limits.idle * 1e9),
            "start": _time(started),
            "now": _time(service.wall()),
            "uptime": _span(service.wall() - started),
            "mem": process.get("memory", 0),
            "cpu": process.get("cpu_percent", 0),
            "cores": process.get("cores", 1),
            "connections": node.connections,
            "total_connections": node.next_client,
            "routes": len(node.cluster.report().get("peers", ())) if node.cluster is not None else 0,
            "subscriptions": sum(len(exchange) for exchange in exchanges),
            "slow_consumers": node.slow_consumers,
            "in_msgs": sum(each.received for each in counters),
            "in_bytes": sum(each.received_bytes for each in counters),
            "out_msgs": sum(each.delivered() for each in counters),
        },
    )


def connz(call: Call) -> None:
    """The open connections without the one that asks, as nats-server has it: `limit` of them, from `offset` on."""
    call.pieces(200, JSON, _connections(call), FIELDS)


def _connections(call: Call) -> Iterator[bytes]:
    """Looks at a few at a time. The only piece is the last."""
    service, options = call.service, call.options
    limit, offset = min(options.get("limit", SHOWN), SHOWN), options.get("offset", 0)
    by, is_descending = SORTED.get(options.get("sort", ""), ("", False))
    found: list[tuple[int, int, dict[str, Any]]] = []
    for number, each in enumerate(service.connections(), 1):
        if each["id"] != call.session.client_id:
            place = -each[by] if is_descending else each[by] if by else number
            heappush(found, (place, number, each))
        if number % LOOKED_AT_ONCE == 0:
            yield b""
    total, shown = len(found), []
    for number in range(min(offset + limit, total)):
        _, _, each = heappop(found)
        if number >= offset:
            shown.append(_connection(each))
        if number % LOOKED_AT_ONCE == 0:
            yield b""
    told = {
        "server_id": service.node.name,
        "now": _time(service.wall()),
        "num_connections": len(shown),
        "total": total,
        "offset": offset,
        "limit": limit,
        "connections": shown,
    }
    yield forms.encode(told) + b"\n"


def _connection(each: dict[str, Any]) -> dict[str, Any]:
    return {
        "cid": each["id"],
        "kind": "Client",
        "type": each["door"],
        "ip": each["address"],
        "name": each["name"],
        "account": each["namespace"] or "",
        "subscriptions": each["consumers"],
        "pending_bytes": each["waiting_bytes"],
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _span(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}d{hour}h{minute}m{second}s" if days else f"{hour}h{minute}m{second}s"
