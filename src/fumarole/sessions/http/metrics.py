"""`GET /metrics`: what the node has counted, for Prometheus (O1).

Every number can be added up over nodes, but for those whose help says that each node has it. No client can make rows:
configured namespaces and the busiest have their own, the others are summed as `namespace="other"`. The text is written
by hand, a family at a time, so scraping thousands of namespaces does not hold the loop up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final, NamedTuple

from fumarole.exchange.exchange import Exchange
from fumarole.sessions.http.call import Call

BUSIEST: Final = 100
"""Namespaces with rows of their own, besides those that were configured."""
LOOKED_AT_ONCE: Final = 50
OTHER: Final = "other"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text"
OPENMETRICS_TYPE: Final = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"


class Family(NamedTuple):
    """The samples of one name."""

    name: str
    kind: str
    """counter or gauge."""
    help: str


class OfNamespace(NamedTuple):
    """A family with a row for each namespace."""

    family: Family
    labels: tuple[str, ...]
    """The rest of the labels of each of its rows, or one that is empty."""
    read: Callable[[Exchange], tuple[int, ...]]
    """A number for each of them."""


def _counter(name: str, text: str) -> Family:
    return Family(f"fumarole_{name}_total", "counter", text)


def _gauge(name: str, text: str) -> Family:
    return Family(f"fumarole_{name}", "gauge", text)


PLAIN: Final = ("",)
REASONS: Final = (',reason="no_consumer"', ',reason="outbox_full"', ',reason="refused"')
NAMESPACES: Final = (
    OfNamespace(_counter("received_messages", "Publications taken in."), PLAIN, lambda it: (it.counters.received,)),
    OfNamespace(
        _counter("received_bytes", "Their payloads and headers."), PLAIN, lambda it: (it.counters.received_bytes,)
    ),
    OfNamespace(
        _counter("delivered_messages", "Messages delivered, one for each entity that got it; last values too."),
        PLAIN,
        lambda it: (it.counters.delivered(),),
    ),
    OfNamespace(
        _counter("dropped_messages", "Messages dropped, by reason."),
        REASONS,
        lambda it: (it.counters.unheard, it.counters.overflowed, it.counters.refused),
    ),
    OfNamespace(
        _counter("conflated_messages", "Messages that a newer one of their topic has replaced."),
        PLAIN,
        lambda it: (it.counters.conflated,),
    ),
    OfNamespace(
        _counter("forwarded_messages", "Messages sent to other nodes."), PLAIN, lambda it: (it.counters.forwarded,)
    ),
    OfNamespace(
        _counter("stray_messages", "Messages from other nodes whose consumer had left."),
        PLAIN,
        lambda it: (it.counters.strayed,),
    ),
    OfNamespace(
        _counter("quota_refusals", "What was refused because a quota of the namespace was reached."),
        PLAIN,
        lambda it: (sum(it.usage.refused.values()),),
    ),
    OfNamespace(_gauge("connections", "Connections that are in the namespace."), PLAIN, lambda it: (it.connections,)),
    OfNamespace(_gauge("consumers", "Subscriptions without a query."), PLAIN, lambda it: (len(it),)),
    OfNamespace(
        _gauge("known_producers", "Producers that are known; each node has this number."),
        PLAIN,
        lambda it: (len(it.producers),),
    ),
)
NODE: Final = {
    "refused_connections": _counter("refused_connections", "Connections refused at the limit."),
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
    node = call.service.node
    rows = _rows(list(node.namespaces), node.namespaces.configured)
    yield b""
    for each in NAMESPACES:
        lines = [_head(each.family, is_open=is_open)]
        for name, exchanges in rows:
            sums = [0] * len(each.labels)
            for looked_at, exchange in enumerate(exchanges, 1):
                sums = [sum(pair) for pair in zip(sums, each.read(exchange), strict=True)]
                if looked_at % LOOKED_AT_ONCE == 0:
                    yield b""
            before = f'{each.family.name}{{namespace="{name}"'
            lines += [f"{before}{label}}} {number}\n" for label, number in zip(each.labels, sums, strict=True)]
        yield "".join(lines).encode()
    yield "".join(_of_node(call, is_open=is_open)).encode()
    if is_open:
        yield b"# EOF\n"


def _rows(exchanges: list[Exchange], configured: Iterable[str]) -> list[tuple[str, list[Exchange]]]:
    """Names of rows, and the namespaces that each sums up."""
    own = set(configured)
    named = [each for each in exchanges if each.name in own]
    others = [each for each in exchanges if each.name not in own]
    busiest = nlargest(BUSIEST, others, key=attrgetter("counters.received"))
    shown = set(map(id, busiest))
    rest = [each for each in others if id(each) not in shown]
    rows = [(each.name, [each]) for each in (*named, *busiest)]
    return [*rows, (OTHER, rest)] if rest else rows


def _of_node(call: Call, *, is_open: bool) -> Iterator[str]:
    service = call.service
    node = service.node
    numbers: dict[str, Any] = {
        "refused_connections": node.refused_connections,
        "slow_consumers": node.slow_consumers,
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
