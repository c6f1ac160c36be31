"""Clients that bind, renew and vanish at random. `make soak` runs it with a thousand of them for a minute.

python -m tests.integration.bridge.churn [CLIENTS] [SECONDS]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import zmq

from tests.integration.bridge.bridges import Dealer, RunningBridge
from tests.integration.bridge.rabbitmq import RabbitMq
from tests.integration.oracle import MEMORY_MARGIN, MIB

RENEWALS = 4
"""In one time to live."""


class Result(NamedTuple):
    """What was bound at the end, what should have been, what was left when all had gone, and the memory kept."""

    bound: list[str]
    wanted: list[str]
    left: list[str]
    grown: int
    vanished: int


def churn(bridge: RunningBridge, rabbitmq: RabbitMq, clients: int, topics: int, seconds: float, ttl: float) -> Result:
    chance = random.Random(3)
    context: zmq.Context[Any] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 4 * clients + 100)
    memory = bridge.memory()
    alive: list[tuple[Dealer, list[bytes]]] = []
    vanished = 0

    def come() -> None:
        names = [b"churn.%d.%s" % (chance.randrange(2_000), chance.choice([b"#", b"*", b"a"])) for _ in range(topics)]
        alive.append((Dealer(context, bridge.endpoint), sorted(set(names))))
        alive[-1][0].say(b"bind", b"", *alive[-1][1])

    for _ in range(clients):
        come()
    end = time.monotonic() + seconds
    pause = ttl / RENEWALS / clients
    at = 0
    while time.monotonic() < end:
        at = (at + 1) % len(alive)
        dealer, names = alive[at]
        if chance.random() < 0.1:
            alive.pop(at)
            vanished += 1
            # Half of them say nothing; the others say goodbye.
            if chance.random() < 0.5:
                dealer.say(b"unbind", b"", *names)
                dealer.flush()
            dealer.close()
            come()
        else:
            dealer.say(b"bind", b"", *names)
        time.sleep(pause)
    # The ones that vanished without a word are forgotten while the others renew.
    settled = time.monotonic() + ttl + 1.5
    while time.monotonic() < settled:
        for dealer, names in alive:
            dealer.say(b"bind", b"", *names)
        time.sleep(ttl / RENEWALS)
    alive[0][0].flush()
    wanted = sorted({name.decode() for _, names in alive for name in names})
    bound = [key for key in rabbitmq.bindings("amq.topic") if key.startswith("churn.")]
    for dealer, _ in alive:
        dealer.close()
    context.destroy(0)
    bridge.wait_for(lambda status: status["routes"]["count"] == 0 and not status["bindings"]["topic"], ttl + 30)
    left = [key for key in rabbitmq.bindings("amq.topic") if key.startswith("churn.")]
    return Result(bound, wanted, left, bridge.memory() - memory, vanished)


def main() -> int:
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        rabbitmq = RabbitMq(Path(folder))
        try:
            bridge = RunningBridge("--amqp", rabbitmq.url, "--ttl", "10")
            # Once to fill what an allocator keeps, once to see that it is enough.
            churn(bridge, rabbitmq, clients, 10, seconds / 6, 10.0)
            result = churn(bridge, rabbitmq, clients, 10, seconds, 10.0)
            bridge.stop()
        finally:
            rabbitmq.close()
    print(
        f"{clients} clients with 10 topics for {seconds:g} s, {result.vanished} vanished: {len(result.bound)} bindings, "
        f"{'as many as' if result.bound == result.wanted else 'NOT those that'} were wanted, {len(result.left)} left; "
        f"memory {result.grown / MIB:+.1f} MiB"
    )
    return 0 if result.bound == result.wanted and not result.left and result.grown <= MEMORY_MARGIN else 1


if __name__ == "__main__":
    sys.exit(main())
