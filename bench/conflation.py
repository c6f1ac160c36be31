"""Conflation (F4): what a consumer costs that wants one message of each topic in a second, beside one that wants all.

Messages on 10,000 topics are published as fast as they are taken, and the broker's own time on a processor is what is
compared: without a consumer, with a plain one, and with one with `$EVERY.1s`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.effort import Effort
from bench.figures import Figure, against
from bench.generator import Load, run_load
from bench.servers import COMPILED, Server, fumarole, settle

CLAIM = "Conflation to one message a second on each of 10,000 topics"
LOAD = Load(4_000_000, topics=10_000, consumers=0)


def measure(effort: Effort) -> Iterator[Figure]:
    load = LOAD._replace(messages=effort.share(LOAD.messages))
    with fumarole(COMPILED) as server:
        unheard, plain, conflated = [], [], []
        for turn in range(effort.rounds):
            effort.tell(f"round {turn + 1}")
            unheard.append(_cost(server, load))
            plain.append(_cost(server, load._replace(consumers=1)))
            with _subscriber(server, b"$EVERY.1s.volcanoes.>"):
                conflated.append(_cost(server, load))
        name = "processor time of a message"
        yield against("a plain consumer", CLAIM, name, min(conflated), min(plain), "µs", at_most=1.0)
        note = "The aim is 1.3."
        yield against(
            "no consumer", CLAIM, f"{name}, beside none", min(conflated), min(unheard), "µs", at_most=1.3, note=note
        )


def _cost(server: Server, load: Load) -> float:
    """Microseconds."""
    before = server.processor_seconds()
    run_load(server.port, load)
    return (server.processor_seconds() - before) / load.messages * 1e6


@contextmanager
def _subscriber(server: Server, pattern: bytes) -> Iterator[None]:
    """One that takes whatever comes."""
    with server.connect() as connection:
        connection.sendall(b"SUB %b 1\r\n" % pattern)
        settle(connection)
        reading = threading.Thread(target=_drain, args=(connection,), daemon=True)
        reading.start()
        yield
        connection.shutdown(2)
        reading.join()


def _drain(connection: object) -> None:
    while connection.recv(1 << 20):  # type: ignore[attr-defined]
        pass
