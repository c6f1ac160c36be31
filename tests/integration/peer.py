"""A connection to the MsgPack door of a running broker, which may say anything."""

from __future__ import annotations

import socket
from typing import Any, Self

import msgpack

from tests.integration.running import RunningBroker

DOORS = '[doors]\nmsgpack = ["127.0.0.1:0"]\n'
"""What the broker's configuration needs."""
PATIENCE = 10.0


class Peer:
    """`namespace`: said first; None: nothing is."""

    def __init__(
        self, broker: RunningBroker, *values: Any, namespace: str | None = "default", receive_buffer: int = 0
    ) -> None:
        (door,) = (line for line in broker.log if "MsgPack door open on " in line)
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", int(door.rsplit(":", 1)[1])))
        self._unpacker = msgpack.Unpacker()
        self.say(*([] if namespace is None else [{"user": namespace}]), *values)

    def say(self, *values: Any) -> None:
        self.socket.sendall(b"".join(map(msgpack.packb, values)))

    def hear(self) -> Any:
        """The next value. Raises EOFError when the broker has hung up."""
        while True:
            for value in self._unpacker:
                return value
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the broker hung up")
            self._unpacker.feed(data)

    def hears_no_more(self) -> bool:
        """Has the broker hung up, with nothing more to say?"""
        try:
            self.hear()
        except (EOFError, ConnectionResetError):
            return True
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
