"""One to one, beside a relay in C that only copies bytes: a bound for every broker on this machine.

The relay (bench/load/relay.c) gets ready-made frames, so it neither parses nor writes. What separates it from the
broker is what the broker does with each message: it finds the operation, the topic and its consumers, and writes a
frame. The shorter the message, the more of that there is for each byte.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.effort import Effort
from bench.figures import RELAY, Figure, against
from bench.generator import Load, build, run_load
from bench.servers import fumarole

CLAIM = "One to one, beside a relay that only copies"
LOADS = {
    "16 B": Load(3_000_000),
    "128 B": Load(2_000_000, size=128, topics=1_000),
    "1 KiB": Load(500_000, size=1_024, topics=1_000, window=3_000),
    "16 KiB": Load(40_000, size=16_384, window=200),
    "256 KiB": Load(3_000, size=262_144, window=12),
}
WANTED = 0.6


def measure(effort: Effort) -> Iterator[Figure]:
    with fumarole() as ours, relay() as bound_port:
        for name, load in LOADS.items():
            load = load._replace(messages=effort.share(load.messages))
            rates: dict[str, list[float]] = {ours.name: [], RELAY: []}
            for turn in range(effort.rounds):
                effort.tell(f"{name}, round {turn + 1}")
                rates[ours.name].append(run_load(ours.port, load).rate)
                rates[RELAY].append(run_load(bound_port, load._replace(ready_made=True)).rate)
            rounds = [own / bound for own, bound in zip(rates[ours.name], rates[RELAY], strict=True)]
            own, bound = max(rates[ours.name]), max(rates[RELAY])
            yield against(RELAY, CLAIM, name, own, bound, "/s", at_least=WANTED, rounds=rounds)


@contextmanager
def relay() -> Iterator[int]:
    """Its port."""
    with subprocess.Popen([build("relay")], stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()
