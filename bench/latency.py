"""How long one message takes over two hops (a question and its answer), beside nats-server."""

from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import PEER, Figure, against
from bench.generator import run_latency
from bench.servers import COMPILED, PLAIN, Server, fumarole, nats_server

QUESTIONS = 10_000
WANTED = {COMPILED: {"p50": 0.6, "p99": 0.7}, PLAIN: {"p50": 4.0, "p99": 4.0}}


def measure(effort: Effort) -> Iterator[Figure]:
    with ExitStack() as running:
        ours = [running.enter_context(fumarole(form)) for form in (COMPILED, PLAIN)]
        peer = running.enter_context(nats_server())
        heard = _heard([*ours, peer], effort)
        for server in ours:
            for quantile in ("p50", "p99"):
                own, theirs = heard[server.name][quantile], heard[PEER][quantile]
                yield against(
                    PEER,
                    f"Latency, {server.name}",
                    quantile,
                    min(own),
                    min(theirs),
                    "µs",
                    at_most=WANTED[server.name][quantile],
                    rounds=[mine / other for mine, other in zip(own, theirs, strict=True)],
                )


def _heard(servers: list[Server], effort: Effort) -> dict[str, dict[str, list[float]]]:
    """Microseconds of every round."""
    found: dict[str, dict[str, list[float]]] = {server.name: {"p50": [], "p99": []} for server in servers}
    for round_number in range(1, effort.rounds + 1):
        for server in servers:
            effort.tell(f"{server.name}, round {round_number}")
            heard = run_latency(server.port, effort.share(QUESTIONS))
            found[server.name]["p50"].append(heard.p50)
            found[server.name]["p99"].append(heard.p99)
    return found
