"""What the broker costs that does nothing: its memory with all doors open, and that of 10,000 connections."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import PEER, Figure, within
from bench.generator import Load, run_load
from bench.servers import Server, fumarole, many_files, nats_server
from tests.ports import free_port

CLAIM = "Idle connections"
CONNECTIONS = 10_000
LIMIT = 25 * 1024
DOORS = ("msgpack", "kubemq", "mqtt", "http")
"""Beside NATS."""
LOAD = Load(1_000_000, size=128, topics=1_000)
BROKER_LIMIT = 45 * 1024 * 1024
MOMENT = 3.0
"""Seconds in which memory is given back, where it is."""


def measure(effort: Effort) -> Iterator[Figure]:
    count = effort.share(CONNECTIONS)
    many_files()
    with fumarole() as ours, nats_server() as peer:
        each = {}
        for server in (ours, peer):
            effort.tell(f"{server.name}, {count:,} connections")
            each[server.name] = _memory_of_each(server, count)
        note = f"{PEER}: {each[PEER] / 1024:.1f} KiB each."
        yield within(LIMIT, CLAIM, f"memory of each of {count:,} connections", each[ours.name], "KiB", note)
    doors = [text for door in DOORS for text in (f"--{door}", f"127.0.0.1:{free_port()}")]
    with fumarole("compiled", *doors) as ours, nats_server() as peer:
        resident = {}
        for server in (ours, peer):
            effort.tell(f"{server.name}, memory after load")
            before = server.resident()
            run_load(server.port, LOAD._replace(messages=effort.share(LOAD.messages)))
            time.sleep(MOMENT)
            resident[server.name] = (before, server.resident())
        note = f"{PEER} after load: {resident[PEER][1] / (1 << 20):.1f} MiB."
        claim = "Memory of an idle broker, five doors open"
        yield within(BROKER_LIMIT, claim, "before any load", resident[ours.name][0], "MiB")
        yield within(BROKER_LIMIT, claim, "after a load", resident[ours.name][1], "MiB", note)


def _memory_of_each(server: Server, count: int) -> float:
    before = server.resident()
    with ExitStack() as connections:
        for _ in range(count):
            connections.enter_context(server.connect())
        return (server.resident() - before) / count
