"""The processor time of a reading beside few and beside many standing queries, for the benches that compare them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import msgpack

from bench.effort import Effort
from bench.generator import Readings, run_readings
from bench.servers import Server

FEW, MANY = 10, 10_000


def reading_costs(server: Server, port: int, effort: Effort, query: Callable[[int], str]) -> tuple[float, float]:
    """Microseconds of a processor for a reading, with few and with many queries; `query` makes the one of a number."""
    with ExitStack() as listening:
        standing = 0
        costs = []
        for count in (FEW, MANY):
            while standing < effort.share(count):
                connection = listening.enter_context(socket.create_connection(("127.0.0.1", port)))
                connection.sendall(msgpack.packb(query(standing)))
                connection.recv(64)
                standing += 1
            costs.append(min(_cost(server, port, effort.share(500_000)) for _ in range(effort.rounds)))
    return costs[0], costs[1]


def _cost(server: Server, port: int, readings: int) -> float:
    before = server.processor_seconds()
    run_readings(port, Readings(readings))
    return (server.processor_seconds() - before) / readings * 1e6
