"""Live views (F7): what a change of metadata costs where a view shows it, beside a plain query whose set it changes.

Each reading changes the room of its producer. With a query for one room every change is a diff for its subscriber, and
with a view of the rooms and their counts every change is a change of the view.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgpack

from bench.effort import Effort
from bench.figures import Figure, against
from bench.servers import COMPILED, Server, fumarole, settle
from tests.ports import free_port

CLAIM = "Live views"
MOST = 2.0
PRODUCERS = 100
AT_ONCE = 100
QUERY = "Room = 0"
VIEW = "select Room, count(*) where Kind = 'x'"


def measure(effort: Effort) -> Iterator[Figure]:
    port = free_port()
    with fumarole(COMPILED, "--msgpack", f"127.0.0.1:{port}") as server:
        costs: dict[str, list[float]] = {QUERY: [], VIEW: []}
        for turn in range(effort.rounds):
            for text, each in costs.items():
                effort.tell(f"{text}, round {turn + 1}")
                each.append(_cost(server, port, text, effort.share(50_000)))
        name = "processor time of a change"
        yield against("a plain query", CLAIM, name, min(costs[VIEW]), min(costs[QUERY]), "µs", at_most=MOST)


def _cost(server: Server, port: int, text: str, changes: int) -> float:
    """Microseconds."""
    with server.connect() as publisher:
        publisher.sendall(b"".join(_reading(number, 0) for number in range(PRODUCERS)))
        settle(publisher)
        with _subscriber(port, text):
            before = server.processor_seconds()
            for begin in range(0, changes, AT_ONCE):
                room = begin // PRODUCERS % 2
                publisher.sendall(b"".join(_reading((begin + each) % PRODUCERS, 1 - room) for each in range(AT_ONCE)))
                settle(publisher)
            return (server.processor_seconds() - before) / changes * 1e6


def _reading(number: int, room: int) -> bytes:
    block = b'NATS/1.0\r\nProducer: 2f1c0a52-6d0f-4c8e-9a5e-%012d\r\nMetadata: {"Kind": "x", "Room": %d}\r\n\r\n' % (
        number,
        room,
    )
    return b"HPUB v %d %d\r\n%b1\r\n" % (len(block), len(block) + 1, block)


@contextmanager
def _subscriber(port: int, text: str) -> Iterator[None]:
    """One that takes whatever comes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(msgpack.packb(text))
        connection.recv(64)
        reading = threading.Thread(target=_drain, args=(connection,), daemon=True)
        reading.start()
        yield
        connection.shutdown(socket.SHUT_RDWR)
        reading.join()


def _drain(connection: socket.socket) -> None:
    while connection.recv(1 << 20):
        pass
