"""A cluster beside one of nats-server of the same size: over a link, confirming a subscribe, joining, being killed, and
all cores.

Publishers are on one node and consumers on another, so that every message goes over a link. How long it takes to
confirm a subscribe has no peer: nats-server answers before other nodes know of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator

from bench.effort import Effort
from bench.figures import PEER, Figure, against, within
from bench.generator import Latency, Load, run_latency, run_load
from bench.population import patterns
from bench.servers import PATIENCE, Server, fumarole, fumarole_cluster, nats_cluster, settle
from tests.ports import free_port

LOADS = {
    "over a link, 16 B": Load(1_000_000),
    "over a link, 128 B": Load(600_000, size=128, topics=1_000),
    "over a link, group of 4, 128 B": Load(400_000, size=128, consumers=4, group="sharing"),
}
WANTED_RATE = 1.5
WANTED_LATENCY = 0.8
QUESTIONS = 10_000
PRESENT = 100_000
SUBSCRIBES = 3_000
CONFIRMED_WITHIN = 5_000.0
"""Microseconds."""
JOINING = 1_000_000
JOINED_WITHIN = 30.0
MEMORY_LIMIT = 1024.0
START_SIZE = 40 << 20
"""Bytes of a node that has just been started."""
CHANGES = 50_000
CHANGE_LIMIT = 20.0
"""Microseconds on a processor."""
BATCH = 1_000
FEW_CONNECTIONS = {
    "one to one, 16 B": Load(5_000_000),
    "one to one, 128 B": Load(2_500_000, size=128, topics=1_000),
    "one to one, 1 KiB": Load(800_000, size=1024, topics=1_000, window=3_000),
    "no consumer, 16 B": Load(10_000_000, consumers=0),
    "fan-out to 10, 128 B": Load(800_000, size=128, topics=1_000, consumers=10),
    "group of 4, 16 B": Load(4_000_000, consumers=4, group="sharing"),
    "4 publishers, 4 consumers, 64 B": Load(2_500_000, size=64, publishers=4, consumers=4),
    "every topic new, 16 B": Load(1_000_000, topics=1_000_000),
    "8 publishers, 8 consumers, 64 B": Load(1_200_000, size=64, publishers=8, consumers=8),
    "16 publishers, group of 16, 64 B": Load(2_000_000, size=64, publishers=16, consumers=16, group="sharing"),
}
"""One worker keeps these for itself."""
MANY_CONNECTIONS = {
    "fan-out to 100, 128 B": Load(60_000, size=128, topics=1_000, consumers=100, window=5_000),
    "100 publishers, 100 consumers, 64 B": Load(80_000, size=64, publishers=100, consumers=100, window=1_000),
    "100 publishers, group of 100, 64 B": Load(800_000, size=64, publishers=100, consumers=100, group="sharing"),
}
"""These are spread."""
TWO_NODES, THREE_NODES = "Cluster of two nodes", "Cluster of three nodes"


def measure(effort: Effort) -> Iterator[Figure]:
    with fumarole_cluster(2) as ours, nats_cluster(2) as theirs:
        yield from _rates(ours, theirs, effort)
        yield from _latency(ours, theirs, effort)
    yield from _confirming(effort)
    yield from _joining(effort)
    yield _hanging_up(effort)
    yield from _workers(effort)


def _rates(ours: list[Server], theirs: list[Server], effort: Effort) -> Iterator[Figure]:
    for name, load in LOADS.items():
        rates: tuple[list[float], list[float]] = ([], [])
        for round_number in range(1, effort.rounds + 1):
            for found, (publishing, consuming) in zip(rates, (ours, theirs), strict=True):
                effort.tell(f"{name}: {publishing.name}, round {round_number}")
                given = load._replace(messages=effort.share(load.messages), consumer_port=consuming.port)
                found.append(run_load(publishing.port, given).rate)
        own, peers = map(max, rates)
        yield against(PEER, TWO_NODES, name, own, peers, "/s", at_least=WANTED_RATE, rounds=_ratios(*rates))


def _latency(ours: list[Server], theirs: list[Server], effort: Effort) -> Iterator[Figure]:
    heard: tuple[list[Latency], list[Latency]] = ([], [])
    for round_number in range(1, effort.rounds + 1):
        for found, (asking, answering) in zip(heard, (ours, theirs), strict=True):
            effort.tell(f"latency: {asking.name}, round {round_number}")
            found.append(run_latency(asking.port, effort.share(QUESTIONS), answering.port))
    for quantile in ("p50", "p99"):
        name = f"latency over a link and back, {quantile}"
        own, peers = ([getattr(each, quantile) for each in found] for found in heard)
        rounds = _ratios(own, peers)
        yield against(PEER, TWO_NODES, name, min(own), min(peers), "µs", at_most=WANTED_LATENCY, rounds=rounds)


def _confirming(effort: Effort) -> Iterator[Figure]:
    """SUB and PING on one of three nodes until the PONG: both others know by then."""
    present = effort.share(PRESENT)
    with fumarole_cluster(3) as nodes:
        crowds = [_crowd(node, present // 3) for node in nodes]
        connection = nodes[1].connect()
        took = []
        for number in range(effort.share(SUBSCRIBES)):
            began = time.perf_counter()
            connection.sendall(b"SUB plant.confirmed.%d %d\r\n" % (number, number))
            settle(connection)
            took.append((time.perf_counter() - began) * 1e6)
        took.sort()
        for quantile in (0.5, 0.99):
            name = f"subscribe to confirmed with {present:,} consumers, p{quantile * 100:g}"
            yield within(CONFIRMED_WITHIN, THREE_NODES, name, took[int(len(took) * quantile)], "µs")
        for made in (connection, *crowds):
            made.close()


def _joining(effort: Effort) -> Iterator[Figure]:
    """From the start of a node until it lets clients in, with very many consumers on the node that it joins."""
    many = effort.share(JOINING)
    first = free_port()
    many_allowed = ("--limits-consumers-per-connection", str(JOINING), "--limits-quota-consumers", str(2 * JOINING))
    with fumarole("compiled", "--node", "old", "--cluster", f"127.0.0.1:{first}", *many_allowed) as old:
        crowd = _crowd(old, many)
        effort.tell(f"joining a node with {many:,} consumers")
        began = time.perf_counter()
        joining = ("--node", "new", "--cluster", f"127.0.0.1:{free_port()}", "--peer", f"127.0.0.1:{first}")
        with fumarole("compiled", *joining, start_within=PATIENCE) as new:
            took = time.perf_counter() - began
            resident = new.resident() - START_SIZE
            yield within(JOINED_WITHIN, TWO_NODES, f"joining where there are {many:,} consumers", took, "s")
            yield within(MEMORY_LIMIT, TWO_NODES, "memory of a consumer on another node", resident / many, "B")
            before = new.processor_seconds()
            connection = old.connect()
            changes = effort.share(CHANGES)
            _subscribe(connection, [f"plant.change.{number}" for number in range(changes)])
            cost = (new.processor_seconds() - before) / changes * 1e6
            yield within(CHANGE_LIMIT, TWO_NODES, "a change, on the node that is told", cost, "µs")
            connection.close()
        crowd.close()


def _hanging_up(effort: Effort) -> Figure:
    """From kill -9 until others see that connections have ended: what is forwarded in between is lost."""
    present = effort.share(PRESENT)
    best = [float("inf")] * 2
    for _ in range(effort.rounds):
        ours = fumarole_cluster(1, "--limits-consumers-per-connection", str(present))
        for which, cluster in enumerate((ours, nats_cluster(1))):
            with cluster as (node,):
                crowd = _crowd(node, present)
                connection = node.connect()
                effort.tell(f"{node.name} with {present:,} consumers is killed")
                began = time.perf_counter()
                os.kill(node.pid, signal.SIGKILL)
                with contextlib.suppress(ConnectionResetError):
                    connection.recv(1)
                best[which] = min(best[which], (time.perf_counter() - began) * 1e6)
                for made in (connection, crowd):
                    made.close()
    name = f"with {present:,} consumers, until connections end"
    return against(PEER, "A node that is killed", name, best[0], best[1], "µs", at_most=1.0)


def _workers(effort: Effort) -> Iterator[Figure]:
    """Two workers beside one, on the same two cores as the load generator."""
    with fumarole() as one, fumarole("compiled", "--workers", "2") as two:
        for loads, wanted in ((FEW_CONNECTIONS, 0.8), (MANY_CONNECTIONS, 1.0)):
            for name, load in loads.items():
                rates: tuple[list[float], list[float]] = ([], [])
                for round_number in range(1, effort.rounds + 1):
                    for found, workers, server in zip(rates, ("two", "one"), (two, one), strict=True):
                        effort.tell(f"{name}: {workers}, round {round_number}")
                        given = load._replace(messages=effort.share(load.messages))
                        found.append(run_load(server.port, given).rate)
                own, alone = map(max, rates)
                rounds = _ratios(*rates)
                yield against("one worker", "Two workers", name, own, alone, "/s", at_least=wanted, rounds=rounds)


def _ratios(own: list[float], theirs: list[float]) -> list[float]:
    """Of each round."""
    return [mine / other for mine, other in zip(own, theirs, strict=True)]


def _crowd(node: Server, consumers: int) -> socket.socket:
    connection = node.connect()
    _subscribe(connection, list(patterns(consumers)))
    return connection


def _subscribe(connection: socket.socket, to: list[str]) -> None:
    lines = [b"SUB %b %d\r\n" % (pattern.encode(), number) for number, pattern in enumerate(to)]
    for at in range(0, len(lines), BATCH):
        connection.sendall(b"".join(lines[at : at + BATCH]))
    settle(connection)
