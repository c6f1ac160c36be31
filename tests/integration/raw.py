"""A client that says exactly the bytes it is told to, and waits for answers instead of sleeping."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import time
from types import TracebackType
from typing import Any, Self

ANSWER_SECONDS = 10.0
SMALL_BUFFER = 4096


class Closed(Exception):
    """The broker closed the connection before it said what was waited for."""


class RawClient:
    """One connection. `received` is what has come and has not been taken yet."""

    def __init__(self, port: int, receive_buffer: int = 0, greet: bool = True) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(ANSWER_SECONDS)
        self.received = bytearray()
        self.info: dict[str, Any] = {}
        try:
            self.socket.connect(("127.0.0.1", port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if greet:
                line = self.read_until(b"\r\n")
                assert line.startswith(b"INFO "), line
                self.info = json.loads(line[5:])
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_each_byte(self, data: bytes) -> None:
        for at in range(len(data)):
            self.socket.sendall(data[at : at + 1])

    def connect(self, **options: Any) -> None:
        """CONNECT, quiet unless told otherwise, and the PONG that says it was heard."""
        given = {"verbose": False, "headers": True, "no_responders": True, **options}
        self.talk(b"CONNECT " + json.dumps(given).encode() + b"\r\n")

    def talk(self, data: bytes, until: bytes = b"PONG\r\n") -> bytes:
        """Sends, and reads what comes up to these bytes. Waiting for PONG, it asks with PING."""
        self.send(data + (b"PING\r\n" if until == b"PONG\r\n" else b""))
        return self.read_until(until)

    def read_until(self, end: bytes) -> bytes:
        """What has come, up to and including these bytes. Raises Closed."""
        start = 0
        while (at := self.received.find(end, start)) < 0:
            start = max(0, len(self.received) - len(end))
            if not self._receive():
                raise Closed(bytes(self.received[-500:]))
        taken = bytes(self.received[: at + len(end)])
        del self.received[: at + len(end)]
        return taken

    def read_to_end(self) -> bytes:
        """Everything until the broker closes."""
        while self._receive():
            pass
        taken = bytes(self.received)
        self.received.clear()
        return taken

    def read_exactly(self, count: int) -> bytes:
        while len(self.received) < count:
            if not self._receive():
                raise Closed(bytes(self.received[-500:]))
        taken = bytes(self.received[:count])
        del self.received[:count]
        return taken

    def await_close(self, seconds: float = ANSWER_SECONDS) -> float:
        """Waits, without sending anything, until the broker closes; how long that took."""
        began = time.monotonic()
        self.socket.settimeout(seconds)
        self.read_to_end()
        return time.monotonic() - began

    def is_quiet(self, seconds: float = 0.2) -> bool:
        """Does nothing at all come for so long? For asserting absence, not for waiting."""
        return not self.received and not select.select([self.socket], [], [], seconds)[0]

    def _receive(self) -> bool:
        try:
            data = self.socket.recv(1 << 20)
        except (ConnectionResetError, BrokenPipeError):
            return False
        self.received += data
        return bool(data)

    def start_tls(self, context: ssl.SSLContext, name: str = "127.0.0.1") -> None:
        """The NATS way: after INFO in plain text."""
        self.socket = context.wrap_socket(self.socket, server_hostname=name)

    def vanish(self) -> None:
        """Ends without a good-bye: the broker gets a reset."""
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


def messages(data: bytes) -> list[tuple[bytes, bytes, bytes, bytes, bytes]]:
    """The MSG and HMSG frames among what was received: topic, sid, reply, headers, payload. Anything else is passed over."""
    found = []
    at = 0
    while (end := data.find(b"\r\n", at)) >= 0:
        words = data[at:end].split(b" ")
        at = end + 2
        if words[0] == b"MSG":
            size = int(words[-1])
            found.append((words[1], words[2], words[3] if len(words) == 5 else b"", b"", data[at : at + size]))
            at += size + 2
        elif words[0] == b"HMSG":
            head, size = int(words[-2]), int(words[-1])
            block, payload = data[at : at + head], data[at + head : at + size]
            found.append((words[1], words[2], words[3] if len(words) == 6 else b"", block, payload))
            at += size + 2
    return found
