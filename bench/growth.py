"""What becomes dearer with a million consumers in one namespace: matching, memory, coming and going.

All of it is measured from outside: a broker process, its resident memory, its time on a processor. What it costs to
find out who gets a new topic is the time for messages on new topics less the time for the same messages once more,
when the broker knows.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from typing import NamedTuple

from bench import population
from bench.effort import Effort
from bench.figures import Figure, against, within
from bench.servers import Server, fumarole, settle

FEW = 1_000
MANY = 1_000_000
CONNECTIONS = 20
BATCH = 1_000
"""Lines that go out at once."""
NEW_TOPICS = 20_000
MATCHING_LIMIT = 3.0
MEMORY_LIMIT = 1024
TIME_LIMIT = 20.0
KEPT_LIMIT = 0.2
"""Of what the consumers cost, so much may remain when they are gone: allocators keep some for the next ones."""


class Crowd(NamedTuple):
    """A broker with many consumers, and what it took to get there."""

    server: Server
    consumers: int
    connections: list[socket.socket]
    publisher: socket.socket
    resident_before: int
    adding: float
    """Seconds on a processor."""


def measure(effort: Effort) -> Iterator[Figure]:
    many = effort.share(MANY)
    with _crowd(FEW, effort) as crowd:
        few_times = _matching_times(crowd, effort)
    with _crowd(many, effort) as crowd:
        yield from _of_each(crowd, effort, few_times)


def _of_each(crowd: Crowd, effort: Effort, few_times: dict[str, float]) -> Iterator[Figure]:
    count = crowd.consumers
    claim = f"Growth to {count:,} consumers"
    cost = crowd.server.resident() - crowd.resident_before
    for name, time in _matching_times(crowd, effort).items():
        yield against(f"with {FEW:,}", claim, name, time, few_times[name], "µs", at_most=MATCHING_LIMIT)
    yield within(MEMORY_LIMIT, claim, "memory of a consumer", cost / count, "B")
    yield within(TIME_LIMIT, claim, "adding a consumer", crowd.adding / count * 1e6, "µs")
    effort.tell(f"removing {count:,} consumers")
    removing = _processor_time(crowd.server, lambda: _say(crowd.connections, _unsubscribes(count)))
    yield within(TIME_LIMIT, claim, "removing a consumer", removing / count * 1e6, "µs")
    kept = max(0, crowd.server.resident() - crowd.resident_before)
    name = "memory kept when all are removed"
    yield against("with all", claim, name, kept, cost, "MB", at_most=KEPT_LIMIT)


@contextmanager
def _crowd(consumers: int, effort: Effort) -> Iterator[Crowd]:
    with fumarole() as server, ExitStack() as opened:
        connections = [opened.enter_context(server.connect()) for _ in range(CONNECTIONS)]
        publisher = opened.enter_context(server.connect())
        before = server.resident()
        effort.tell(f"adding {consumers:,} consumers")
        adding = _processor_time(server, lambda: _say(connections, _subscribes(consumers)))
        yield Crowd(server, consumers, connections, publisher, before, adding)


def _matching_times(crowd: Crowd, effort: Effort) -> dict[str, float]:
    """Microseconds to find out who gets a topic, best of the rounds: of the first consumers only, and of all."""
    effort.tell(f"new topics, {crowd.consumers:,} consumers")
    few, spread = "matching a new topic, the same ones match", "matching a new topic, of any consumers"
    times: dict[str, float] = {}
    for name, consumers in ((few, FEW), (spread, crowd.consumers)):
        new = known = float("inf")
        for round_number in range(effort.rounds):
            topics = population.new_topics(NEW_TOPICS, consumers, f"{consumers}-{len(times)}-{round_number}")
            new = min(new, _processor_time(crowd.server, lambda: _publish(crowd, topics)))  # noqa: B023
            known = min(known, _processor_time(crowd.server, lambda: _publish(crowd, topics)))  # noqa: B023
        times[name] = max(new - known, 0.0) / NEW_TOPICS * 1e6
    return times


def _processor_time(server: Server, work: Callable[[], None]) -> float:
    """Seconds on a processor that the work costs the server."""
    start = server.processor_seconds()
    work()
    return server.processor_seconds() - start


def _publish(crowd: Crowd, topics: list[str]) -> None:
    crowd.publisher.sendall(b"".join([b"PUB %s 2\r\nhi\r\n" % topic.encode() for topic in topics]))
    for connection in (crowd.publisher, *crowd.connections):
        settle(connection)


def _say(connections: list[socket.socket], lines: Iterable[bytes]) -> None:
    """Deals the lines out, a batch to each connection in turn, and waits until all have been taken in."""
    rest = iter(lines)
    for connection in cycle(connections):
        batch = b"".join(islice(rest, BATCH))
        if not batch:
            break
        connection.sendall(batch)
    for connection in connections:
        settle(connection)


def _subscribes(count: int) -> Iterator[bytes]:
    return (b"SUB %s %d\r\n" % (text.encode(), sid) for sid, text in enumerate(population.patterns(count)))


def _unsubscribes(count: int) -> Iterator[bytes]:
    return (b"UNSUB %d\r\n" % sid for sid in range(count))
