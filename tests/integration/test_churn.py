"""Coming and going without end: memory has a plateau (hazard 9).

Each kind of churn is done once, so that the allocator has what it needs, and then several times more: no growth is left.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.oracle import MIB, Target
from tests.integration.raw import RawClient

Churn = Callable[[int, int], None]
"""Takes the port, and the number of the round."""
ROUNDS = 4


def connections(port: int, round_number: int) -> None:
    """Clients come, subscribe, publish, and leave, in every way."""
    for number in range(300):
        client = RawClient(port)
        client.connect(name=f"client {round_number} {number}")
        client.talk(b"SUB a.%d g%d 1\r\nPUB a.%d 5\r\nhello\r\n" % (number, number, number))
        if number % 3 == 0:
            client.vanish()
        else:
            client.close()


def subscriptions(port: int, round_number: int) -> None:
    """Each with a pattern, a group and a sid that never were before."""
    with RawClient(port) as client:
        client.connect()
        client.socket.settimeout(30)
        for start in range(0, 20_000, 1000):
            names = [b"%d.%d" % (round_number, number) for number in range(start, start + 1000)]
            client.talk(b"".join(b"SUB churn.%b.* g%b s%b\r\n" % (name, name, name) for name in names))
            client.talk(b"".join(b"UNSUB s%b\r\n" % name for name in names))


def namespaces(port: int, round_number: int) -> None:
    """Each is there while a client uses it."""
    for number in range(300):
        with RawClient(port) as client:
            client.connect(user=f"ns-{round_number}-{number}")
            client.talk(b"SUB a 1\r\nPUB a 5\r\nhello\r\n")


def refused_lines(port: int, round_number: int) -> None:
    with RawClient(port) as client:
        client.connect()
        for start in range(0, 5_000, 500):
            numbers = range(start, start + 500)
            client.talk(
                b"".join(
                    b"SUB %d.%d.>.x 1\r\nPUB %d/%d 0\r\n\r\n" % (round_number, n, round_number, n) for n in numbers
                )
            )


def moods(port: int, round_number: int) -> None:
    """CONNECT again and again, each time with other options."""
    with RawClient(port) as client:
        client.connect()
        for number in range(500):
            client.connect(
                name=f"{round_number} {number}", echo=bool(number % 2), headers=bool(number % 3), lang="x" * 1000
            )


KINDS: list[Churn] = [connections, subscriptions, namespaces, refused_lines, moods]


@pytest.fixture
def growth(target: Target) -> None:
    target.memory_margin = 48 * MIB  # of what one round needs; what more rounds add is looked at below


@pytest.mark.usefixtures("growth")
@pytest.mark.parametrize("churn", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_memory_has_a_plateau(target: Target, churn: Churn) -> None:
    churn(target.port, 0)
    target.settle(lambda seen: bool(seen["connections"] == 2))
    churn(target.port, 1)
    target.settle(lambda seen: bool(seen["connections"] == 2))
    before = target.broker.memory()
    for round_number in range(2, 2 + ROUNDS):
        churn(target.port, round_number)
        target.settle(lambda seen: bool(seen["connections"] == 2))
    grown = target.broker.memory() - before
    assert grown < 4 * MIB, f"{grown / MIB:.1f} MiB more after {ROUNDS} more rounds"


@pytest.mark.parametrize("length", [300, 4000])
def test_topics_cannot_fill_the_memory(target: Target, length: int) -> None:
    """None comes twice. What is remembered of them is bounded in bytes, not only in number."""
    target.memory_margin = 80 * MIB  # plans are kept until a pattern comes
    with RawClient(target.port) as client, RawClient(target.port) as consumer:
        client.connect()
        client.socket.settimeout(30)
        consumer.connect()
        consumer.talk(b"SUB in.> 1\r\n")
        before = target.broker.memory()
        filling = b"x" * (length - 10)
        for start in range(0, 140_000 if length < 1000 else 20_000, 1000):
            numbers = range(start, start + 1000)
            client.talk(b"".join(b"PUB %d.%b 0\r\n\r\nPUB n.%d in.%d 0\r\n\r\n" % (n, filling, n, n) for n in numbers))
            consumer.talk(b"")
        grown = target.broker.memory() - before
    assert grown < 80 * MIB, f"{grown / MIB:.0f} MiB"
