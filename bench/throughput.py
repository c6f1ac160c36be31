"""Messages a second, beside nats-server: thirteen loads, both forms of the broker.

The servers run side by side, but only one has work at a time. Each load goes to each in turn, round after round, and
the best round of each counts: what else the machine does makes rounds slower, never quicker.
"""

from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import PEER, Figure, against
from bench.generator import Load, run_load
from bench.servers import COMPILED, PLAIN, Server, fumarole, nats_server

LOADS = {
    "one to one, 16 B": Load(1_000_000),
    "one to one, 128 B": Load(600_000, size=128, topics=1_000),
    "one to one, 1 KiB": Load(250_000, size=1_024, topics=1_000, window=3_000),
    "no consumer, 16 B": Load(2_000_000, consumers=0),
    "fan-out to 10, 128 B": Load(200_000, size=128, topics=1_000, consumers=10),
    "fan-out to 100, 128 B": Load(30_000, size=128, topics=1_000, consumers=100, window=5_000),
    "group of 4, 16 B": Load(600_000, consumers=4, group="sharing"),
    "4 publishers, 4 consumers, 64 B": Load(400_000, size=64, publishers=4, consumers=4),
    "one to one, 16 KiB": Load(20_000, size=16_384, window=200),
    "one to one, 256 KiB": Load(2_000, size=262_144, window=12),
    "fan-out to 10, 16 KiB": Load(4_000, size=16_384, consumers=10, window=200),
    "fan-out to 10, 256 KiB": Load(400, size=262_144, consumers=10, window=12),
    "every topic new, 16 B": Load(500_000, topics=500_000),
}
PLAIN_PART = 4
"""Plain Python gets so much less to do: its rounds would take long, and the rate is the same."""
WANTED = {
    "one to one, 1 KiB": 2.5,
    "fan-out to 10, 128 B": 4.0,
    "fan-out to 100, 128 B": 3.3,
    **dict.fromkeys((name for name in LOADS if "KiB" in name and "1 KiB" not in name), 1.5),
    "every topic new, 16 B": 1.0,
}
"""Of the compiled form; 2 where nothing else stands here."""
WANTED_OF_PLAIN = 0.1


def measure(effort: Effort) -> Iterator[Figure]:
    with ExitStack() as running:
        ours = [running.enter_context(fumarole(form)) for form in (COMPILED, PLAIN)]
        peer = running.enter_context(nats_server())
        for name, load in LOADS.items():
            rates = all_rates([*ours, peer], name, load, effort)
            wanted = {COMPILED: WANTED.get(name, 2.0), PLAIN: WANTED_OF_PLAIN}
            for server in ours:
                yield against(
                    PEER,
                    f"Throughput, {server.name}",
                    name,
                    max(rates[server.name]),
                    max(rates[PEER]),
                    "/s",
                    at_least=wanted[server.name],
                    rounds=[rate / theirs for rate, theirs in zip(rates[server.name], rates[PEER], strict=True)],
                )


def all_rates(servers: list[Server], name: str, load: Load, effort: Effort) -> dict[str, list[float]]:
    """Messages published a second, by server, of every round."""
    rates: dict[str, list[float]] = {server.name: [] for server in servers}
    for round_number in range(1, effort.rounds + 1):
        for server in servers:
            effort.tell(f"{name}: {server.name}, round {round_number}")
            count = load.messages // PLAIN_PART if server.name == PLAIN else load.messages
            given = load._replace(messages=effort.share(count))
            rates[server.name].append(run_load(server.port, given).rate)
    return rates
