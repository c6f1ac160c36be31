"""What a connection costs that does nothing: memory of the broker with 10,000 of them."""

from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import PEER, Figure, within
from bench.servers import Server, fumarole, many_files, nats_server

CONNECTIONS = 10_000
LIMIT = 25 * 1024


def measure(effort: Effort) -> Iterator[Figure]:
    count = effort.share(CONNECTIONS)
    many_files()
    with fumarole() as ours, nats_server() as peer:
        each = {}
        for server in (ours, peer):
            effort.tell(f"{server.name}, {count:,} connections")
            each[server.name] = _memory_of_each(server, count)
        note = f"{PEER}: {each[PEER] / 1024:.1f} KiB each."
        yield within(
            LIMIT, "Idle connections", f"memory of each of {count:,} connections", each[ours.name], "KiB", note
        )


def _memory_of_each(server: Server, count: int) -> float:
    before = server.resident()
    with ExitStack() as connections:
        for _ in range(count):
            connections.enter_context(server.connect())
        return (server.resident() - before) / count
