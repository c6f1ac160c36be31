"""A publisher and a consumer in a process of their own, so that the test's work does not slow them down.

    python -m tests.integration.canary PORT USER PASSWORD AUTHORITY      (the last three may be empty)

Every few milliseconds it publishes a number and expects it back. For each line on its standard input it settles
(everything published has come, or is given up) and answers with one line of JSON: how many were published, which came
back, the longest way in seconds. Then it counts anew. End of input ends it. Used through `Canary`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

PERIOD = 0.005
SETTLE_SECONDS = 10.0
ROOT = Path(__file__).parents[2]


class Song(NamedTuple):
    """What the canary tells of the time since it was last asked."""

    published: int
    received: int
    in_order: bool
    longest: float


class Canary:
    """The process, seen from the tests."""

    def __init__(self, port: int, user: str = "", password: str = "", authority: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.canary", str(port), user, password, authority],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        assert self._stdout.readline() == "ready\n"

    def listen(self) -> Song:
        """What there was since the last time."""
        self._stdin.write("\n")
        self._stdin.flush()
        return Song(**json.loads(self._stdout.readline()))

    def close(self) -> None:
        self._stdin.close()
        self._process.wait(10)
        self._stdout.close()


def _connect(port: int, user: str, password: str, authority: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if authority:
        while connection.recv(1) != b"\n":  # INFO, and not a byte of what comes after it
            pass
        connection = ssl.create_default_context(cafile=authority).wrap_socket(connection, server_hostname="127.0.0.1")
    options = {"verbose": False, "name": "canary"}
    if user:
        options |= {"user": user, "pass": password}
    connection.sendall(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
    _await_pong(connection)
    return connection


def _await_pong(connection: socket.socket) -> None:
    received = b""
    while not received.endswith(b"PONG\r\n"):
        data = connection.recv(65536)
        assert data, received
        received += data


class _Singer:
    def __init__(self, port: int, user: str, password: str, authority: str) -> None:
        self._consumer = _connect(port, user, password, authority)
        self._consumer.sendall(b"SUB canary.song 1\r\nPING\r\n")
        _await_pong(self._consumer)
        self._publisher = _connect(port, user, password, authority)
        self._received = b""
        self._sent: dict[int, float] = {}
        self._next = 0
        self._expected = 0
        self._start_anew()

    def _start_anew(self) -> None:
        self._published = self._came = 0
        self._in_order = True
        self._longest = 0.0

    def sing(self) -> None:
        """Until the end of input."""
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= due:
                self._publish(now)
                due = now + PERIOD
            asked = self._wait(max(due - now, 0.0), [self._consumer, self._publisher, sys.stdin])
            if asked is not None:
                if not asked:
                    return
                self._answer()

    def _publish(self, now: float) -> None:
        payload = b"%d" % self._next
        self._sent[self._next] = now
        self._next += 1
        self._published += 1
        self._publisher.sendall(b"PUB canary.song %d\r\n%b\r\n" % (len(payload), payload))

    def _wait(self, seconds: float, sources: list[Any]) -> str | None:
        asked = None
        for source in select.select(sources, [], [], seconds)[0]:
            if source is self._consumer:
                self._hear(self._consumer.recv(65536))
            elif source is self._publisher:
                # PING of an idle check, or the reason why this connection is about to be closed.
                if self._publisher.recv(65536) == b"PING\r\n":
                    self._publisher.sendall(b"PONG\r\n")
            else:
                asked = sys.stdin.readline()
        return asked

    def _hear(self, data: bytes) -> None:
        if not data:
            raise SystemExit("the broker closed the canary's connection")
        now = time.monotonic()
        *lines, self._received = (self._received + data).split(b"\r\n")
        for line in lines:
            if line == b"PING":
                self._consumer.sendall(b"PONG\r\n")
            elif line.isdigit():
                number = int(line)
                self._in_order &= number == self._expected
                self._expected = number + 1
                self._came += 1
                self._longest = max(self._longest, now - self._sent.pop(number))

    def _answer(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._sent and time.monotonic() < deadline:
            self._wait(0.1, [self._consumer, self._publisher])
        song = Song(self._published, self._came, self._in_order, self._longest)
        print(json.dumps(song._asdict()), flush=True)
        self._sent.clear()
        self._expected = self._next
        self._start_anew()


if __name__ == "__main__":
    _Singer(int(sys.argv[1]), *sys.argv[2:]).sing()
