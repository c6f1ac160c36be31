"""Throughput on 100,000 hot topics while a client subscribes and unsubscribes 1,000 times a second.

The undisturbed rate stands beside it, round by round. Each subscribe is taken back at once, so that nothing more has to
be delivered: what is measured is what the coming and going of consumers costs the others.
"""

from collections.abc import Iterator

from bench.effort import Effort
from bench.figures import Figure, against
from bench.generator import Load, run_load
from bench.servers import CannotMeasureError, fumarole

HOT = Load(4_000_000, topics=100_000)
RATE = 1_000
WANTED = 0.5
PATTERNS = {
    "exact topics, each another": "volcanoes.kenya.%07ld.east",
    "prefix patterns, each another": "volcanoes.kenya.%07ld.>",
    "one pattern that every topic matches": "volcanoes.>",
    "`>`": ">",
}


def measure(effort: Effort) -> Iterator[Figure]:
    load = HOT._replace(messages=effort.share(HOT.messages))
    with fumarole() as server:
        run_load(server.port, load)  # the topics become hot
        for name, pattern in PATTERNS.items():
            undisturbed = disturbed = 0.0
            for round_number in range(1, effort.rounds + 1):
                effort.tell(f"{name}, round {round_number}")
                undisturbed = max(undisturbed, run_load(server.port, load).rate)
                run = run_load(server.port, load._replace(churn=pattern, churn_rate=RATE))
                if run.changes < 0.9 * RATE * run.seconds:
                    raise CannotMeasureError(f"only {run.changes} subscribes in {run.seconds:.1f} s")
                disturbed = max(disturbed, run.rate)
            yield against(
                "undisturbed",
                f"Throughput under {RATE:,} subscribes and unsubscribes a second, {HOT.topics:,} hot topics",
                name,
                disturbed,
                undisturbed,
                "/s",
                at_least=WANTED,
            )
