"""How long one message takes over two hops (a question and its answer), beside nats-server."""

from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import PEER, Figure, against
from bench.generator import run_latency
from bench.servers import COMPILED, PLAIN, Server, fumarole, nats_server

QUESTIONS = 10_000
WANTED = {COMPILED: 0.8, PLAIN: 4.0}


def measure(effort: Effort) -> Iterator[Figure]:
    with ExitStack() as running:
        ours = [running.enter_context(fumarole(form)) for form in (COMPILED, PLAIN)]
        peer = running.enter_context(nats_server())
        best = _best([*ours, peer], effort)
        for server in ours:
            for quantile in ("p50", "p99"):
                figure, beside = best[server.name][quantile], best[PEER][quantile]
                claim = f"Latency, {server.name}"
                yield against(PEER, claim, quantile, figure, beside, "µs", at_most=WANTED[server.name])


def _best(servers: list[Server], effort: Effort) -> dict[str, dict[str, float]]:
    best = {server.name: {"p50": float("inf"), "p99": float("inf")} for server in servers}
    for round_number in range(1, effort.rounds + 1):
        for server in servers:
            effort.tell(f"{server.name}, round {round_number}")
            heard = run_latency(server.port, effort.share(QUESTIONS))
            quantiles = best[server.name]
            quantiles["p50"] = min(quantiles["p50"], heard.p50)
            quantiles["p99"] = min(quantiles["p99"], heard.p99)
    return best
