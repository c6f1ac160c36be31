"""Requests as they come to the resident: read bit by bit, so that a slow one holds up no other."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from typing import Any, Final

MOST_BYTES: Final = 16 << 20
SIZE: Final = struct.Struct("!I")
_AT_ONCE: Final = 1 << 16


class Incoming:
    """A connection, and what of its request has come: its size, itself as JSON, and stdin, stdout and stderr."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.streams: list[int] = []
        self.since = time.monotonic()
        self._data = b""
        connection.setblocking(False)

    def receive(self) -> dict[str, Any] | None:
        """The request, when it is whole. Raises OSError or ValueError: the peer hung up, or sent no such request."""
        part, streams, _, _ = socket.recv_fds(self.connection, _AT_ONCE, 3)
        self.streams += streams
        self._data += part
        if not part:
            raise ValueError("the request ends too soon")
        if len(self._data) < SIZE.size:
            return None
        size = SIZE.unpack_from(self._data)[0]
        if not 0 < size <= MOST_BYTES or len(self._data) > SIZE.size + size:
            raise ValueError("no request")
        if len(self._data) < SIZE.size + size:
            return None
        request = json.loads(self._data[SIZE.size :])
        if not isinstance(request, dict):
            raise ValueError("no request")
        return request

    def close(self) -> None:
        """Here: a child that has it goes on."""
        self.connection.close()
        while self.streams:
            os.close(self.streams.pop())
