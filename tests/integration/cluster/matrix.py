"""One fault on one of three nodes under traffic, and what clients saw of it.

    node 0   a publisher, 1,000 messages a second, and a consumer
    node 1   a consumer, and a member of the group; this is where the fault is
    node 2   a consumer, and the other member

Clients are as NATS clients are: when their connection ends they connect again (here to the same node) and subscribe anew.
Everything is written down, by clients and by the nodes themselves, and `Outcome` says what became of it. The marks are
those of the invariants S1 to S11.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.integration.cluster.nodes import Footing, Namespaces, NodeProcess, Nodes

RATE = 1_000
DELAY = 0.15
"""Seconds, each way."""
CALM = 1.0
AFTER = 3.6
"""Seconds after the end of a fault: all must be well by then (C4: within 3 s)."""
TOPIC = b"volcanoes.usa.atka"
SETTLE_SECONDS = 8.0
MEMORY_MARGIN = 32 * 1024 * 1024
"""Bytes that an allocator keeps for the next time."""
OWN_FILES = 3
"""Descriptors that a node may open for itself meanwhile."""
OWN_TASKS = 2
"""Short tasks: a look at the clock, a node being dialed."""


class Client:
    """One consumer with one subscription, which connects again when it is cut off."""

    def __init__(self, node: NodeProcess, group: bytes = b"") -> None:
        self._node = node
        self._group = group
        self.heard: list[tuple[int, float]] = []
        """Numbers, and how late each was."""
        self.subscribed = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(self._node.host, self._node.port)
                try:
                    writer.write(b'CONNECT {"verbose":false}\r\nSUB volcanoes.> %b 1\r\nPING\r\n' % self._group)
                    await self._listen(reader, writer)
                finally:
                    writer.close()
            await asyncio.sleep(0.05)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            line = await reader.readuntil(b"\r\n")
            if line.startswith(b"MSG"):
                payload = await reader.readexactly(int(line.split()[-1]) + 2)
                number, said = payload.split()
                self.heard.append((int(number), time.monotonic() - float(said)))
            elif line.startswith(b"PONG"):
                self.subscribed.set()
            elif line.startswith(b"PING"):
                writer.write(b"PONG\r\n")

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@dataclass(frozen=True)
class Books:
    """What a node has counted since it was started (L3)."""

    received: int
    """Publications of its clients."""
    delivered: int
    """Messages to its clients."""
    dropped: int
    strayed: int
    forwarded: dict[str, int]
    """To each node that it is linked with now."""
    taken_in: dict[str, int]
    """From each such node."""
    lost_links: int


def books_of(node: NodeProcess) -> Books:
    stats, cluster = node.ask("stats"), node.ask("cluster")
    return Books(
        received=stats["received"],
        delivered=stats["delivered"],
        dropped=sum(stats["dropped"].values()),
        strayed=stats["strayed"],
        forwarded={peer["node"]: peer["forwarded"] for peer in cluster["peers"]},
        taken_in={peer["node"]: peer["received"] for peer in cluster["peers"]},
        lost_links=cluster["lost"],
    )


@dataclass
class Outcome:
    """What clients saw."""

    published: dict[int, float] = field(default_factory=dict)
    """Number to time."""
    began: float = 0.0
    ended: float = 0.0
    heard: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """By consumer: `alone-0` … and `member-1`, `member-2`."""
    books: dict[int, Books] = field(default_factory=dict)
    """By node: what it counted."""
    left_behind: list[str] = field(default_factory=list)
    """What nodes took of the machine and have not given back (S10)."""

    def lost(self, *names: str) -> list[int]:
        """Numbers that none of these heard."""
        heard = {number for name in names for number, _ in self.heard[name]}
        return [number for number in self.published if number not in heard]

    def lost_by_group(self) -> list[int]:
        return self.lost("member-1", "member-2")

    def over_after(self) -> float:
        """Seconds from the fault until the group lost nothing any more."""
        return max((self.published[number] - self.began for number in self.lost_by_group()), default=0.0)

    def well_after(self, name: str) -> float:
        """Seconds from the end of the fault until this consumer missed nothing any more."""
        return max((self.published[number] - self.ended for number in self.lost(name)), default=0.0)

    def doubled(self) -> int:
        """Messages that an entity heard more than once (S1)."""
        entities = [[name] for name in self.heard if name.startswith("alone")] + [["member-1", "member-2"]]
        counts = (Counter(n for name in entity for n, _ in self.heard[name]) for entity in entities)
        return sum(count - 1 for counter in counts for count in counter.values() if count > 1)

    def disordered(self) -> int:
        """S4."""
        orders = ([number for number, _ in heard] for heard in self.heard.values())
        return sum(a > b for order in orders for a, b in itertools.pairwise(order))

    def oldest(self) -> float:
        """How late the latest message was (S9)."""
        return max((late for heard in self.heard.values() for _, late in heard), default=0.0)

    def unaccounted(self, untouched: tuple[int, ...]) -> list[str]:
        """S11, to the message: where the books of nodes that the fault did not touch do not say what clients saw."""
        found = []
        published = len(self.published)
        if self.books[0].received != published:
            found.append(f"{published} were published, but node 0 counted {self.books[0].received}")
        for number in untouched:
            books = self.books[number]
            heard = sum(len(self.heard.get(f"{kind}-{number}", ())) for kind in ("alone", "member"))
            if books.delivered != heard or books.dropped or books.strayed:
                found.append(f"clients of node {number} heard {heard}, but it counted {books}")
            if number and not books.lost_links:
                sent, came = self.books[0].forwarded.get(f"node-{number}"), books.taken_in.get("node-0")
                if not sent == came == published:
                    found.append(f"{published} were to go from node 0 to {number}; {sent} went, {came} came")
        return found

    def row(self, name: str, untouched: tuple[int, ...]) -> str:
        """For the table in docs/explanation/cluster.md."""
        others = sum(len(self.lost(f"alone-{number}")) for number in untouched)
        return (
            f"| {name} | {len(self.lost_by_group())} | {self.over_after():.2f} s | {others} | {self.doubled()} | "
            f"{self.disordered()} | {self.oldest():.2f} s |"
        )


Fault = Callable[[Nodes], Awaitable[None]]


async def suffer(nodes: Nodes, fault: Fault, seconds: float, heal: Fault | None = None) -> Outcome:
    """Traffic, a fault for so long, its end, and traffic again."""
    outcome = Outcome()
    before = await _footings(nodes)
    clients = {f"alone-{number}": Client(nodes[number]) for number in range(3)}
    clients |= {f"member-{number}": Client(nodes[number], b"analysts") for number in (1, 2)}
    await asyncio.gather(*(client.subscribed.wait() for client in clients.values()))
    publishing = asyncio.create_task(_publish(nodes[0], outcome))
    try:
        await asyncio.sleep(CALM)
        outcome.began = time.monotonic()
        await fault(nodes)
        await asyncio.sleep(seconds)
        if heal is not None:
            await heal(nodes)
        outcome.ended = time.monotonic()
        await asyncio.sleep(AFTER)
    finally:
        publishing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await publishing
        await asyncio.sleep(0.3)
        for node in nodes.nodes[:3]:
            outcome.books[node.number] = await asyncio.to_thread(books_of, node)
        for name, client in clients.items():
            await client.close()
            outcome.heard[name] = client.heard
    outcome.left_behind = await _left_behind(nodes, before)
    return outcome


async def _footings(nodes: Nodes) -> dict[int, Footing]:
    return {node.number: await asyncio.to_thread(node.footing) for node in nodes.nodes[:3]}


async def _left_behind(nodes: Nodes, before: dict[int, Footing]) -> list[str]:
    """S10: descriptors, tasks and memory of every node that was not started anew are back, a moment later."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        found = []
        for number, after in (await _footings(nodes)).items():
            most = before[number]._replace(
                descriptors=before[number].descriptors + OWN_FILES,
                tasks=before[number].tasks + OWN_TASKS,
                memory=before[number].memory + MEMORY_MARGIN,
            )
            over = after.descriptors > most.descriptors or after.tasks > most.tasks or after.memory > most.memory
            if after.process == most.process and over:
                found.append(f"node {number}: {after}, at most {most}")
        if not found or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.2)


async def _publish(node: NodeProcess, outcome: Outcome) -> None:
    _, writer = await asyncio.open_connection(node.host, node.port)
    writer.write(b'CONNECT {"verbose":false}\r\n')
    began, number = time.monotonic(), 0
    try:
        while True:
            while number < (time.monotonic() - began) * RATE:
                now = time.monotonic()
                payload = b"%d %.6f" % (number, now)
                writer.write(b"PUB %b %d\r\n%b\r\n" % (TOPIC, len(payload), payload))
                outcome.published[number] = now
                number += 1
            await asyncio.sleep(0.0005)
    finally:
        writer.close()


# The faults, all on node 1.


async def nothing(_: Nodes) -> None:
    """For comparison."""


async def terminate(nodes: Nodes) -> None:
    nodes[1].signal(signal.SIGTERM)


async def kill(nodes: Nodes) -> None:
    nodes[1].signal(signal.SIGKILL)


async def start_again(nodes: Nodes) -> None:
    await asyncio.to_thread(nodes[1].process.wait)
    await asyncio.to_thread(nodes[1].start)


async def stop(nodes: Nodes) -> None:
    nodes[1].signal(signal.SIGSTOP)


async def go_on(nodes: Nodes) -> None:
    nodes[1].signal(signal.SIGCONT)


async def start_all_again(nodes: Nodes) -> None:
    """One by one, all but the one that the publisher is on."""
    for number in (1, 2):
        nodes[number].signal(signal.SIGTERM)
        await asyncio.to_thread(nodes[number].process.wait)
        await asyncio.to_thread(nodes[number].start)
        await asyncio.sleep(1.0)  # for its clients to be back


async def join(nodes: Nodes) -> None:
    await asyncio.to_thread(nodes.add)


async def leave(nodes: Nodes) -> None:
    await asyncio.to_thread(nodes.nodes[-1].stop)


def _network(nodes: Nodes) -> Namespaces:
    assert isinstance(nodes.network, Namespaces)
    return nodes.network


async def cut_both_ways(nodes: Nodes) -> None:
    for other in (0, 2):
        _network(nodes).cut(1, other)
        _network(nodes).cut(other, 1)


async def cut_one_way(nodes: Nodes) -> None:
    for other in (0, 2):
        _network(nodes).cut(1, other)


async def lossy(nodes: Nodes) -> None:
    for other in (0, 2):
        _network(nodes).lose(other, 1, 5)
        _network(nodes).lose(1, other, 5)


async def slow(nodes: Nodes) -> None:
    _network(nodes).throttle(1, "8mbit")


async def heal(nodes: Nodes) -> None:
    _network(nodes).heal()


async def delay(nodes: Nodes) -> None:
    """Every line between nodes."""
    for line in nodes.lines:
        line.seconds = DELAY


async def hurry(nodes: Nodes) -> None:
    for line in nodes.lines:
        line.seconds = 0.0


@dataclass(frozen=True)
class Case:
    """A fault, how long it lasts, how it ends, and the marks that the group is held to."""

    fault: Fault
    seconds: float
    end: Fault | None
    lost: int | None
    """At most so many; None: only when it is over counts."""
    over: float = 2.0
    needs_namespaces: bool = False
    needs_lines: bool = False
    """Do nodes reach each other through slow lines?"""
    untouched: tuple[int, ...] = (0, 2)
    """Nodes whose consumers must not lose anything at any time (S6)."""


CASES = {
    "none": Case(nothing, 1.0, None, 0),
    "SIGTERM": Case(terminate, 1.0, start_again, 0),
    "all restarted, one by one": Case(start_all_again, 0.0, None, 0, untouched=(0,)),
    "a fourth node joins and leaves": Case(join, 1.0, leave, 0, untouched=(0, 1, 2)),
    "kill -9": Case(kill, 1.0, start_again, 2),
    "every line takes 150 ms": Case(delay, 3.0, hurry, 0, needs_lines=True, untouched=(0, 1, 2)),
    "SIGSTOP for 1 s": Case(stop, 1.0, go_on, 0),
    "SIGSTOP for 6 s": Case(stop, 6.0, go_on, None),
    "partition, both ways": Case(cut_both_ways, 4.0, heal, None, needs_namespaces=True),
    "partition, one way": Case(cut_one_way, 4.0, heal, None, needs_namespaces=True),
    "5 % of packets lost": Case(lossy, 4.0, heal, 0, needs_namespaces=True),
    "a slow line, 8 Mbit/s": Case(slow, 3.0, heal, 0, needs_namespaces=True),
}
