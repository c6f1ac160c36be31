"""`GET /metrics`: what the node has counted, for Prometheus (O1).

Every number can be added up over nodes, but for those whose help says that each node has it. No client can make rows:
configured namespaces and the busiest have their own, the others are summed as `namespace="other"`. The text is written
by hand, a family at a time, so scraping thousands of namespaces does not hold the loop up.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappush, heappushpop
from typing import Any, Final, NamedTuple

from fumarole.exchange.exchange import Exchange
from fumarole.sessions.http.call import Call

BUSIEST: Final = 100
"""Namespaces with rows of their own, besides those that were configured."""
LOOKED_AT_ONCE: Final = 100
"""Namespaces whose numbers are read in one step, about a tenth of a millisecond."""
ROWS_AT_ONCE: Final = 200
"""Rows that are written in one step."""
OTHER: Final = "other"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text"
OPENMETRICS_TYPE: Final = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"


Row = tuple[str, tuple[int, ...]]
"""The name of a namespace, and its numbers."""


class Family(NamedTuple):
    """The samples of one name."""

    name: str
    kind: str
    """counter or gauge."""
    help: str


class OfNamespace(NamedTuple):
    """A family with a row for each namespace."""

    family: Family
    labels: tuple[str, ...] = ("",)
    """The rest of the labels of each of its rows, or one that is empty."""


def _counter(name: str, text: str) -> Family:
    return Family(f"fumarole_{name}_total", "counter", text)


def _gauge(name: str, text: str) -> Family:
    return Family(f"fumarole_{name}", "gauge", text)


REASONS: Final = (',reason="no_consumer"', ',reason="outbox_full"', ',reason="refused"')
NAMESPACES: Final = (
    OfNamespace(_counter("received_messages", "Publications taken in.")),
    OfNamespace(_counter("received_bytes", "Their payloads and headers.")),
    OfNamespace(
        _counter("delivered_messages", "Messages delivered, one for each entity that got it; last values too.")
    ),
    OfNamespace(_counter("dropped_messages", "Messages dropped, by reason."), REASONS),
    OfNamespace(_counter("conflated_messages", "Messages that a newer one of their topic has replaced.")),
    OfNamespace(_counter("forwarded_messages", "Messages sent to other nodes.")),
    OfNamespace(_counter("stray_messages", "Messages from other nodes whose consumer had left.")),
    OfNamespace(_counter("quota_refusals", "What was refused because a quota of the namespace was reached.")),
    OfNamespace(_gauge("connections", "Connections that are in the namespace.")),
    OfNamespace(_gauge("consumers", "Subscriptions without a query.")),
    OfNamespace(_gauge("known_producers", "Producers that are known; each node has this number.")),
)


def numbers_of(exchange: Exchange) -> tuple[int, ...]:
    """What a namespace has counted: a number for each row, in the order of NAMESPACES."""
    counted = exchange.counters
    return (
        counted.received,
        counted.received_bytes,
        counted.delivered(),
        counted.unheard,
        counted.overflowed,
        counted.refused,
        counted.conflated,
        counted.forwarded,
        counted.strayed,
        sum(exchange.usage.refused.values()),
        exchange.connections,
        len(exchange),
        len(exchange.producers),
    )


NODE: Final = {
    "refused_connections": _counter("refused_connections", "Connections refused at the limit."),
    "refusals": _counter("refusals", "Clients cut off, and requests refused, for a limit, a right or a mistake."),
    "slow_consumers": _counter("slow_consumers", "Connections cut off because they did not take what they asked for."),
    "failed_logins": _counter("failed_logins", "Logins with wrong credentials."),
    "refused_logins": _counter("refused_logins", "Logins refused because too many waited."),
    "exported_spans": _counter("exported_spans", "Spans of sampled messages that a collector has taken."),
    "dropped_spans": _counter("dropped_spans", "Spans for which there was no room, or that the collector refused."),
    "cluster_peers": _gauge("cluster_peers", "Other nodes that are linked."),
    "cluster_missing": _gauge("cluster_missing", "Nodes that are to be joined and cannot be reached."),
    "memory": Family("process_resident_memory_bytes", "gauge", "Memory of the process."),
    "cpu": Family("process_cpu_seconds_total", "counter", "Processor time of the process."),
    "started": Family("process_start_time_seconds", "gauge", "When the process started, in seconds since 1970."),
    "files": Family("process_open_fds", "gauge", "Open files of the process."),
}
"""Numbers that the node has once; those that are not known where it runs are left out."""
INFO: Final = _gauge("build_info", "The version and the name of the node; the value is 1.")
OPEN: Final = _gauge("open_connections", "Open connections, by door.")
REQUESTS: Final = _counter("http_requests", "Answers of the web door, by status.")
STREAMS: Final = _gauge("http_streams", "Open streams of events.")
FAMILIES: Final = (*(each.family for each in NAMESPACES), *NODE.values(), INFO, OPEN, REQUESTS, STREAMS)


def metrics(call: Call) -> None:
    """The numbers as they are now."""
    is_open = call.accepts(OPENMETRICS)
    call.pieces(
        200, OPENMETRICS_TYPE if is_open else TEXT, written(call, is_open=is_open), [("Cache-Control", "no-store")]
    )


def written(call: Call, *, is_open: bool) -> Iterator[bytes]:
    """The text, a piece at a time."""
    rows: list[Row] = []
    yield from _gathered(call, rows)
    column = 0
    for each in NAMESPACES:
        lines = [_head(each.family, is_open=is_open)]
        numbered = [(label, column + at) for at, label in enumerate(each.labels)]
        before, column = f'{each.family.name}{{namespace="', column + len(each.labels)
        for at in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[at : at + ROWS_AT_ONCE]
            lines += [f'{before}{name}"{label}}} {row[at]}\n' for name, row in part for label, at in numbered]
            yield "".join(lines).encode()
            lines.clear()
    yield "".join(_of_node(call, is_open=is_open)).encode()
    if is_open:
        yield b"# EOF\n"


def _gathered(call: Call, rows: list[Row]) -> Iterator[bytes]:
    """Fills in the rows: configured namespaces, the busiest, and the sums of all others. Gives nothing, in steps."""
    namespaces = call.service.node.namespaces
    own = set(namespaces.configured)
    busiest: list[tuple[int, str, tuple[int, ...]]] = []
    others: list[tuple[int, ...]] = []
    has_others = False
    exchanges = list(namespaces)
    for at in range(0, len(exchanges), LOOKED_AT_ONCE):
        for exchange in exchanges[at : at + LOOKED_AT_ONCE]:
            numbers = numbers_of(exchange)
            if exchange.name in own:
                rows.append((exchange.name, numbers))
            elif len(busiest) < BUSIEST:
                heappush(busiest, (numbers[0], exchange.name, numbers))
            else:
                others.append(heappushpop(busiest, (numbers[0], exchange.name, numbers))[2])
        if others:
            has_others = True
            others = [tuple(map(sum, zip(*others, strict=True)))]
        yield b""
    rows += [(name, numbers) for _, name, numbers in sorted(busiest, reverse=True)]
    if has_others:
        rows.append((OTHER, others[0]))


def _of_node(call: Call, *, is_open: bool) -> Iterator[str]:
    service = call.service
    node = service.node
    numbers: dict[str, Any] = {
        "refused_connections": node.refused_connections,
        "slow_consumers": node.slow_consumers,
        "refusals": node.journal.refusals,
        **service.process(),
    }
    tracer = node.namespaces.tracer
    if tracer is not None:
        numbers |= {"exported_spans": tracer.exported, "dropped_spans": tracer.dropped}
    if node.cluster is not None:
        report = node.cluster.report()
        numbers |= {"cluster_peers": len(report.get("peers", ())), "cluster_missing": len(report.get("missing", ()))}
    for key, family in NODE.items():
        if key in numbers:
            yield f"{_head(family, is_open=is_open)}{family.name} {numbers[key]}\n"
    yield _head(INFO, is_open=is_open)
    yield f'{INFO.name}{{version="{_label(node.version)}",node="{_label(node.name)}"}} 1\n'
    yield _head(OPEN, is_open=is_open)
    for door, count in sorted(node.connections_by_door.items()):
        yield f'{OPEN.name}{{door="{door}"}} {count}\n'
    yield _head(REQUESTS, is_open=is_open)
    for status, count in sorted(service.answered.items()):
        yield f'{REQUESTS.name}{{status="{status}"}} {count}\n'
    yield f"{_head(STREAMS, is_open=is_open)}{STREAMS.name} {service.streams.total()}\n"


def _head(family: Family, *, is_open: bool) -> str:
    name = family.name.removesuffix("_total") if is_open and family.kind == "counter" else family.name
    return f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
