"""Very many connections at once, beside nats-server: processor time of the server, which the client does not disturb.

10,000 connections publish once a second each, to one consumer. Then 10,000 consumers of one topic get the same
messages.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import PEER, Figure, against
from bench.servers import CannotMeasureError, Server, fumarole, many_files, nats_server, settle

CLAIM = "10,000 connections"
CONNECTIONS = 10_000
SECONDS = 5
MESSAGES = 20
PAYLOAD = b"x" * 128
PUBLISH = b"PUB volcanoes.atka 128\r\n" + PAYLOAD + b"\r\n"
WANTED = 2.0
PATIENCE = 60.0


def measure(effort: Effort) -> Iterator[Figure]:
    count = effort.share(CONNECTIONS)
    many_files()
    with fumarole() as ours, nats_server() as peer:
        publishing: dict[str, list[float]] = {ours.name: [], PEER: []}
        consuming: dict[str, list[float]] = {ours.name: [], PEER: []}
        for turn in range(effort.rounds):
            for server in (ours, peer):
                effort.tell(f"{server.name}, {count:,} connections, round {turn + 1}")
                with ExitStack() as open_connections:
                    many = [open_connections.enter_context(server.connect()) for _ in range(count)]
                    publishing[server.name].append(_publishing(server, many))
                    consuming[server.name].append(_consuming(server, many))
    names = ("each publishes once a second, a message", "each is a consumer of one topic, a delivery")
    for name, costs in zip(names, (publishing, consuming), strict=True):
        rounds = [theirs / own for own, theirs in zip(costs[ours.name], costs[PEER], strict=True)]
        own, theirs = min(costs[ours.name]), min(costs[PEER])
        # The ratio is the peer's time to ours: more is better.
        yield against(PEER, CLAIM, f"{name}: 1/time", 1e6 / own, 1e6 / theirs, "/s", at_least=WANTED, rounds=rounds)


def _publishing(server: Server, many: list[socket.socket]) -> float:
    """Microseconds of the server for a message."""
    with server.connect() as consumer:
        consumer.sendall(b"SUB volcanoes.> 1\r\n")
        settle(consumer)
        before = server.processor_seconds()
        began = time.monotonic()
        for second in range(SECONDS):
            for number, connection in enumerate(many):
                connection.sendall(PUBLISH)
                if number % 100 == 99:
                    time.sleep(max(began + second + (number + 1) / len(many) - time.monotonic(), 0))
        _hear(consumer, len(many) * SECONDS)
        return (server.processor_seconds() - before) / (len(many) * SECONDS) * 1e6


def _consuming(server: Server, many: list[socket.socket]) -> float:
    """Microseconds of the server for a delivery."""
    for connection in many:
        connection.sendall(b"SUB volcanoes.> 1\r\n")
    for connection in many:
        settle(connection)
    with server.connect() as publisher:
        before = server.processor_seconds()
        for _ in range(MESSAGES):
            publisher.sendall(PUBLISH)
            time.sleep(0.05)
        for connection in many:
            _hear(connection, MESSAGES)
        return (server.processor_seconds() - before) / (len(many) * MESSAGES) * 1e6


def _hear(connection: socket.socket, messages: int) -> None:
    """So many messages. Their payloads are counted: a server may ask for a sign of life in between."""
    connection.settimeout(PATIENCE)
    wanted = len(PAYLOAD) * messages
    while wanted > 0:
        heard = connection.recv(1 << 18)
        if not heard:
            raise CannotMeasureError("the server closed a connection")
        wanted -= heard.count(PAYLOAD[:1])
    if wanted:
        raise CannotMeasureError("a message came twice")
