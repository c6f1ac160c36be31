"""Plain sockets at a web door, for measurements: what they cost is small, and the same for every server."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack

from bench.servers import CannotMeasureError

PATIENCE = 60.0


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def hear(connection: socket.socket, end: bytes) -> bytes:
    """An answer, up to this and perhaps a line end."""
    said = bytearray()
    while not said[-len(end) - 4 :].rstrip(b"\r\n").endswith(end):
        more = connection.recv(1 << 16)
        if not more:
            raise CannotMeasureError("the server closed a connection")
        said += more
    return bytes(said)


def hear_head(connection: socket.socket) -> None:
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        said += connection.recv(1 << 16)
    if b" 200 " not in said[:20]:
        raise CannotMeasureError(f"no stream: {said[:200]!r}")


def stream(port: int, topic: str = "volcanoes.>") -> socket.socket:
    made = connect(port)
    made.sendall(b"GET /v1/stream?topic=%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % topic.encode())
    hear_head(made)
    return made


def taken_streams(port: int, streams: int, stack: ExitStack, topics: Sequence[str]) -> None:
    """So many are open until the stack ends, each with one of these topics in turn, and what comes is taken."""
    selector = stack.enter_context(selectors.DefaultSelector())
    for number in range(streams):
        made = stack.enter_context(stream(port, topics[number % len(topics)]))
        made.setblocking(False)
        selector.register(made, selectors.EVENT_READ)
    ended = threading.Event()

    def take() -> None:
        while not ended.is_set():
            for key, _ in selector.select(0.1):
                key.fileobj.recv(1 << 16)  # type: ignore[union-attr]

    taking = threading.Thread(target=take)
    taking.start()
    stack.callback(taking.join)
    stack.callback(ended.set)


def learn(port: int, producers: int) -> None:
    """So many producers are known from here on."""
    lines = b"".join(
        b'{"producer":"%08x-6d0f-4c8e-9a5e-3b1f7d2c4e60","metadata":{"Region":"italy","Room":"%d"},"value":21.5}\n'
        % (number, number % 500)
        for number in range(producers)
    )
    with connect(port) as connection:
        head = b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(lines)
        connection.sendall(head + lines)
        hear(connection, b"}")
