"""Readings through the MsgPack door: how many a second, how soon, and what queries that do not concern them cost.

The generator is bench/load/readings.c. Beside a limit where there is no peer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.effort import Effort
from bench.figures import Figure, against, within
from bench.generator import Readings, run_readings
from bench.reading_cost import reading_costs
from bench.servers import COMPILED, PLAIN, Server, fumarole, many_files
from tests.ports import free_port

CLAIM = "MsgPack door"
RATE = {COMPILED: 300_000, PLAIN: 30_000}
"""Readings a second over one connection to one subscriber; for plain Python a tenth."""
SPREAD = Readings(20_000, producers=1_000, connections=1_000, subscribers=100, rooms=100, rate=5_000)
"""Each producer and each subscriber has a connection of its own, and each subscriber ten producers."""
P95, P99 = 1_000.0, 3_000.0
MORE_QUERIES = 1.2


def measure(effort: Effort) -> Iterator[Figure]:
    many_files()
    with ExitStack() as running:
        servers = [running.enter_context(_broker(form)) for form in (COMPILED, PLAIN)]
        for server, port in servers:
            best = max(_rate(port, effort, server.name, turn) for turn in range(effort.rounds))
            what = f"one connection to one subscriber, {server.name}"
            yield against("limit", CLAIM, what, best, RATE[server.name], "/s", at_least=1.0)
        _, port = servers[0]
        spread = SPREAD._replace(readings=effort.share(SPREAD.readings))
        heard = []
        for turn in range(effort.rounds):
            effort.tell(f"1,000 producers, 100 subscribers, round {turn + 1}")
            heard.append(run_readings(port, spread))
        where = "1,000 producers, 100 subscribers, 5,000 a second"
        yield within(P95, CLAIM, f"{where}: p95", min(each.p95 for each in heard), "µs")
        yield within(P99, CLAIM, f"{where}: p99", min(each.p99 for each in heard), "µs")
        effort.tell("with 10,000 queries")
        few, many = reading_costs(
            *servers[0], effort, lambda number: f"Room = 'another-{number}' and Level > {number % 100}"
        )
        yield against(
            "with 10", CLAIM, "a reading while 10,000 other queries stand", many, few, "µs", at_most=MORE_QUERIES
        )


@contextmanager
def _broker(form: str) -> Iterator[tuple[Server, int]]:
    port = free_port()
    with fumarole(form, "--msgpack", f"127.0.0.1:{port}") as server:
        yield server, port


def _rate(port: int, effort: Effort, name: str, turn: int) -> float:
    effort.tell(f"{name}, round {turn + 1}")
    run = run_readings(port, Readings(effort.share(500_000 if name == COMPILED else 50_000)))
    return run.published / run.seconds
