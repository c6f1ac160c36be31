"""A real bridge in a process of its own, with eyes inside, and a plain DEALER as any language has one."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import zmq
import zmq.auth

from tests.integration.process import RunningProcess

SECONDS = 10.0
_OPEN = re.compile(r"open on (tcp://\S+)")


def pack(payload: bytes = b"", properties: dict[str, Any] | None = None, headers: Any = None) -> bytes:
    return bytes(msgpack.packb({"payload": payload, "properties": properties or {}, "headers": headers or {}}))


class Keys(NamedTuple):
    """The files of a CURVE key pair."""

    public: str
    secret: str


def make_keys(folder: Path, name: str, private: bool = True) -> Keys:
    """`private`: no other user can read the secret half."""
    public, secret = zmq.auth.create_certificates(folder, name)
    Path(secret).chmod(0o600 if private else 0o644)
    return Keys(public, secret)


class RunningBridge(RunningProcess):
    """`fumarole bridge`, watched (observed.py)."""

    def __init__(self, *arguments: str, ready: bool = True) -> None:
        self.endpoint = ""
        self.stopped = False
        super().__init__(
            "tests.integration.bridge.observed", "--router", "tcp://127.0.0.1:*", *arguments, observed=True
        )
        if ready:
            self.wait_for(lambda status: status["broker"]["state"] == "connected")

    def heard(self, line: str) -> bool:
        if found := _OPEN.search(line):
            self.endpoint = found[1]
        return bool(self.endpoint)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.observe()["status"]
        return found

    def wait_for(self, holds: Callable[[dict[str, Any]], bool], seconds: float = 20.0) -> dict[str, Any]:
        """Looks inside until it holds."""
        deadline = time.monotonic() + seconds
        while True:
            status = self.status()
            if holds(status):
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.02)

    def says(self, text: str, seconds: float = 10.0) -> None:
        """Waits for a line of its log."""
        deadline = time.monotonic() + seconds
        while not any(text in line for line in self.log):
            assert time.monotonic() < deadline, self.tail()
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        self.stopped = True
        took = super().stop(number)
        assert "Traceback" not in "\n".join(self.log), self.tail()
        return took


class Dealer:
    """A client as simple as it gets."""

    def __init__(self, context: zmq.Context[Any], endpoint: str, **keys: Any) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, int(SECONDS * 1000))
        self.socket.setsockopt(zmq.MAXMSGSIZE, 8 * 1024 * 1024)
        for name, value in keys.items():
            setattr(self.socket, name, value)
        self.socket.connect(endpoint)
        self._numbers = iter(range(1, 1 << 30))

    def say(self, *parts: bytes) -> None:
        self.socket.send_multipart(parts)

    def hear(self) -> list[bytes]:
        return list(self.socket.recv_multipart())

    def ask(self, *parts: bytes) -> list[bytes]:
        self.say(*parts)
        return self.hear()

    def flush(self) -> list[list[bytes]]:
        """What came before everything that was said is in force."""
        number = b"flush-%d" % next(self._numbers)
        self.say(b"flush", number)
        heard = []
        while (parts := self.hear())[-1] != number:
            heard.append(parts)
        assert parts == [b"done", number]
        return heard

    def bind(self, direct: str = "", *topics: str) -> None:
        self.say(b"bind", direct.encode(), *map(str.encode, topics))
        assert self.flush() == []

    def messages(self, count: int) -> list[tuple[str, Any]]:
        found = []
        for _ in range(count):
            kind, key, message = self.hear()
            assert kind == b"msg"
            found.append((key.decode(), msgpack.unpackb(message)))
        return found

    def silent(self, seconds: float = 0.2) -> bool:
        return not self.socket.poll(seconds * 1000)

    def close(self) -> None:
        self.socket.close()


@contextmanager
def dealers(endpoint: str, count: int = 1, **keys: Any) -> Iterator[list[Dealer]]:
    context: zmq.Context[Any] = zmq.Context()
    opened = [Dealer(context, endpoint, **keys) for _ in range(count)]
    try:
        yield opened
    finally:
        context.destroy(0)
