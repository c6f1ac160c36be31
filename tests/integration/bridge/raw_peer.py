"""A ZeroMQ peer without libzmq: it says in ZMTP 3.1 whatever a test wants said."""

from __future__ import annotations

import socket
import struct
from typing import Self

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
MORE, LONG, COMMAND = 1, 2, 4


def frame(body: bytes, flags: int = 0) -> bytes:
    """One frame, with its length as it must be written."""
    if len(body) > 255:
        return bytes((flags | LONG,)) + struct.pack(">Q", len(body)) + body
    return bytes((flags, len(body))) + body


class RawPeer:
    """One connection, which has shaken hands unless it was told not to."""

    def __init__(self, endpoint: str, hello: bytes | None = GREETING + frame(READY, COMMAND)) -> None:
        host, port = endpoint.removeprefix("tcp://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        if hello is not None:
            self.socket.sendall(hello)
            self.read(64)
            self.read(self.read(2)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, f"the connection ended after {data!r}"
            data += piece
        return data

    def say(self, *parts: bytes) -> None:
        last = len(parts) - 1
        self.socket.sendall(b"".join(frame(part, MORE if at < last else 0) for at, part in enumerate(parts)))

    def pour(self, data: bytes, most: int) -> int:
        """Sends the same again and again, until so many bytes are gone or the other end has had enough."""
        sent = 0
        view = memoryview(data)
        try:
            while sent < most:
                sent += self.socket.send(view[sent % len(data) :])
        except OSError:
            pass
        return sent
