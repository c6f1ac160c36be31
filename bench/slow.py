"""Consumers that never read: the broker's memory while 200 MB is published to 20 of them, beside nats-server."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import PEER, Figure, against, within
from bench.servers import Server, fumarole, nats_server, settle

CONSUMERS = 20
PUBLISHED = 200_000_000
PAYLOAD = 1_000
LIMIT = 200_000_000


def measure(effort: Effort) -> Iterator[Figure]:
    published = effort.share(PUBLISHED)
    claim = f"{CONSUMERS} consumers that never read, {published // 1_000_000} MB published"
    with fumarole() as ours, nats_server() as peer:
        most = {}
        for server in (ours, peer):
            effort.tell(f"{server.name}, {published // 1_000_000} MB")
            most[server.name] = _publish_to_stuck(server, published)
        yield within(LIMIT, claim, "most memory of the broker", most[ours.name], "MB")
        yield against(PEER, claim, "the same, beside the peer", most[ours.name], most[PEER], "MB", at_most=1.0)


def _publish_to_stuck(server: Server, published: int) -> int:
    """The most memory that the server ever had."""
    message = b"PUB volcanoes.kenya.east %d\r\n%s\r\n" % (PAYLOAD, b"x" * PAYLOAD)
    batch = message * 64
    with ExitStack() as connections:
        for _ in range(CONSUMERS):
            connections.enter_context(_stuck(server))
        publisher = connections.enter_context(server.connect())
        for _ in range(published // (64 * PAYLOAD)):
            publisher.sendall(batch)
        settle(publisher)
        return server.most_resident()


def _stuck(server: Server) -> socket.socket:
    connection = server.connect()
    connection.sendall(b"SUB volcanoes.> 1\r\n")
    settle(connection)
    return connection
