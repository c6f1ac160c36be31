"""A client that waits for each answer: bytes out, bytes in, on one blocking socket."""

from __future__ import annotations

import json
import socket
from typing import Any

PATIENCE = 10.0


def ask(host: str, port: int, service: bytes) -> dict[str, Any]:
    """What a node says of itself, by the name of the service: `stats`, `cluster`."""
    client = Client(host, port)
    try:
        client.say(b"SUB inbox 1\r\nPUB $FUM.%b inbox 0\r\n\r\n" % service)
        client.hear_until(b"MSG inbox 1 ")
        size = int(client.hear_until(b"\r\n"))
        text = client.hear_until(b"}\r\n")
        assert len(text) == size + 2
        seen: dict[str, Any] = json.loads(text)
        return seen
    finally:
        client.close()


class Client:
    def __init__(self, host: str, port: int, **options: Any) -> None:
        self._socket = socket.create_connection((host, port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._heard = b""
        given = json.dumps({"verbose": False, "headers": True, **options}).encode()
        self.info: dict[str, Any] = json.loads(self.hear_until(b"\r\n")[5:])
        self.say(b"CONNECT " + given + b"\r\n")
        self.flush()

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear_until(self, end: bytes) -> bytes:
        """Everything up to and with this."""
        while end not in self._heard:
            more = self._socket.recv(65536)
            assert more, f"the node closed the connection after {self._heard[-200:]!r}"
            self._heard += more
        at = self._heard.index(end) + len(end)
        heard, self._heard = self._heard[:at], self._heard[at:]
        return heard

    def hear(self, size: int) -> bytes:
        """So many bytes."""
        while len(self._heard) < size:
            more = self._socket.recv(65536)
            assert more, f"the node closed the connection after {self._heard[-200:]!r}"
            self._heard += more
        heard, self._heard = self._heard[:size], self._heard[size:]
        return heard

    def flush(self) -> bytes:
        """PING and PONG: what was asked for is in force. What was heard before the PONG."""
        self.say(b"PING\r\n")
        return self.hear_until(b"PONG\r\n")[:-6]

    def close(self) -> None:
        self._socket.close()
