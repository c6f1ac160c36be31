"""`/varz` and `/connz`: what nats-top and NATS's exporters read, as far as it makes sense here."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from fumarole.sessions.http.call import Call
from fumarole.sessions.nats import NATS_VERSION

SHOWN: Final = 1024
SORTED: Final = {"cid": "id", "subs": "consumers", "pending": "waiting_bytes"}
"""What connections can be sorted by, and what it is called here. By all else that nats-server knows, they are not."""


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
    """The open connections: `limit` of them, from `offset` on."""
    limit, offset = call.options.get("limit", SHOWN), call.options.get("offset", 0)
    node = call.service.node
    found = call.service.connections()
    by = SORTED.get(call.options.get("sort", ""))
    if by is not None:
        found = sorted(found, key=itemgetter(by), reverse=by != "id")
    shown = [_connection(each) for each in islice(found, offset, offset + min(limit, SHOWN))]
    call.json(
        200,
        {
            "server_id": node.name,
            "now": _time(call.service.wall()),
            "num_connections": len(shown),
            "total": node.connections,
            "offset": offset,
            "limit": limit,
            "connections": shown,
        },
    )


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
