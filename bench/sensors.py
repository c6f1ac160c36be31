"""Readings at the NATS door: messages with the header `Producer`, beside the rates that are wanted. One connection.

The peer has no producers, so there is none. The loads are closed: a window of messages is under way, and none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.effort import Effort
from bench.figures import Figure, against
from bench.generator import Load, run_load
from bench.servers import fumarole

CLAIM = "Readings at the NATS door"
PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
READING = Load(600_000, size=16, topics=1, producer=PRODUCER)
LOADS = {
    "no consumer": (READING._replace(consumers=0), 1_500_000),
    "one consumer": (READING, 1_000_000),
    "one consumer, each tenth changes a key of the metadata": (READING._replace(changes=10), 300_000),
}


def measure(effort: Effort) -> Iterator[Figure]:
    with fumarole() as server:
        for name, (load, wanted) in LOADS.items():
            rates = []
            for turn in range(effort.rounds):
                effort.tell(f"{name}, round {turn + 1}")
                rates.append(run_load(server.port, load._replace(messages=effort.share(load.messages))).rate)
            rounds = [rate / wanted for rate in rates]
            yield against("wanted", CLAIM, name, max(rates), wanted, "/s", at_least=1.0, rounds=rounds)
