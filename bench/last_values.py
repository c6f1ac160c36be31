"""Last values of all topics (F2, F3): what keeping them costs publishers and memory, and how soon a subscriber has all.

A broker that keeps them and one that does not run side by side, and have work in turn. Memory is the difference
between the two after the same messages, less topic and payload. While one subscriber is given a million values, a
client and its answerer measure their latency on the same broker, as they did before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from bench.effort import Effort
from bench.figures import Figure, against, within
from bench.generator import Load, run_latency, run_load
from bench.servers import COMPILED, Server, fumarole
from bench.settings import configured

CLAIM = "Last values of all topics"
KEPT = '[namespaces.default]\nlast = "all"\n[namespaces.default.quota]\nlast_bytes = "1GiB"\n'
HOT = 100_000
WANTED = 0.7
TOPIC = len("volcanoes.kenya.0000000.east")
SIZE = 16
MOST_BYTES = 160
MANY = 1_000_000
FIRST, ALL = 50_000.0, 5_000_000.0
"""Microseconds."""
SLOWER = 2.0
ROUNDS = 5_000
"""Of latency, in each look at it."""


def measure(effort: Effort) -> Iterator[Figure]:
    with configured(KEPT) as keeps, fumarole(COMPILED) as plain:
        for size in (SIZE, 128):
            load = Load(effort.share(4_000_000), size=size, topics=effort.share(HOT))
            best = {"kept": 0.0, "not": 0.0}
            for turn in range(effort.rounds):
                effort.tell(f"{size} B, round {turn + 1}")
                for name, server in (("kept", keeps), ("not", plain)):
                    best[name] = max(best[name], run_load(server.port, load).rate)
            name = f"{HOT:,} hot topics, {size} B"
            yield against("none kept", CLAIM, name, best["kept"], best["not"], "/s", at_least=WANTED)
    topics = effort.share(MANY)
    load = Load(topics, size=SIZE, topics=topics, consumers=0)
    with configured(KEPT) as keeps, fumarole(COMPILED) as plain:
        taken = []
        for server in (keeps, plain):
            effort.tell(f"{topics:,} topics")
            before = server.resident()
            run_load(server.port, load)
            taken.append((server.resident() - before) / topics)
        each = taken[0] - taken[1] - TOPIC - SIZE
        yield within(MOST_BYTES, CLAIM, f"memory of each of {topics:,}, besides topic and payload", each, "B")
        yield from _subscribe(keeps, topics, effort)


def _subscribe(server: Server, topics: int, effort: Effort) -> Iterator[Figure]:
    effort.tell("latency while nothing else happens")
    calm = min(run_latency(server.port, ROUNDS).p99 for _ in range(effort.rounds))
    first, whole, busy = [], [], []
    for turn in range(effort.rounds):
        effort.tell(f"subscribe to {topics:,} last values, round {turn + 1}")
        reader = Reader(server, topics)
        reader.start()
        seen = []
        while reader.is_alive():
            seen.append(run_latency(server.port, ROUNDS).p99)
        reader.join()
        first.append(reader.first * 1e6)
        whole.append(reader.whole * 1e6)
        busy.append(max(seen))
    claim = f"A subscriber with last over {topics:,} topics"
    yield within(FIRST, claim, "until the first value", min(first), "µs")
    yield within(ALL, claim, "until all values", min(whole), "µs")
    yield against("calm", claim, "p99 of others meanwhile", min(busy), calm, "µs", at_most=SLOWER)


class Reader(threading.Thread):
    """Subscribes, and counts values until it has all."""

    BEGINS = b"MSG volcanoes"

    def __init__(self, server: Server, topics: int) -> None:
        super().__init__()
        self._connection = server.connect()
        self._topics = topics
        self.first = self.whole = 0.0

    def run(self) -> None:
        begin, count, tail = time.perf_counter(), 0, b""
        with self._connection as connection:
            connection.sendall(b"SUB $LAST.> 1\r\n")
            while count < self._topics:
                data = tail + connection.recv(1 << 20)
                count += data.count(self.BEGINS)
                tail = data[-len(self.BEGINS) + 1 :]
                if count and not self.first:
                    self.first = time.perf_counter() - begin
            self.whole = time.perf_counter() - begin
