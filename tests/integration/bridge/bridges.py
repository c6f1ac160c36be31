"""A real bridge in a process of its own, with eyes inside, and a plain DEALER as any language has one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgpack
import zmq

from tests.integration.running import ROOT

START_SECONDS = 20.0
SECONDS = 10.0
_OPEN = re.compile(r"open on (tcp://\S+)")


def pack(payload: bytes = b"", properties: dict[str, Any] | None = None, headers: Any = None) -> bytes:
    return bytes(msgpack.packb({"payload": payload, "properties": properties or {}, "headers": headers or {}}))


class RunningBridge:
    """`fumarole bridge`, watched (observed.py)."""

    def __init__(self, *arguments: str, ready: bool = True) -> None:
        self.log: list[str] = []
        self.stopped = False
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.bridge.observed", "--router", "tcp://127.0.0.1:*", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._output: IO[str] = self._process.stdout
        self.endpoint = ""
        self._opened = threading.Event()
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        assert self._opened.wait(START_SECONDS), self.tail()
        assert self.endpoint, self.tail()
        self._output.readline()
        if ready:
            self.wait_for(lambda status: status["broker"]["state"] == "connected")

    def _listen(self, errors: IO[str]) -> None:
        for line in errors:
            self.log.append(line.rstrip("\n"))
            if found := _OPEN.search(line):
                self.endpoint = found[1]
                self._opened.set()
        self._opened.set()

    def tail(self) -> str:
        return "\n".join(self.log[-40:])

    def is_running(self) -> bool:
        return self._process.poll() is None

    def observe(self) -> dict[str, Any]:
        """What observed.py says."""
        self._process.send_signal(signal.SIGUSR1)
        line = self._output.readline()
        assert line, self.tail()
        found: dict[str, Any] = json.loads(line)
        return found

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

    def memory(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - names are enough

    def stop(self) -> None:
        assert self.is_running(), self.tail()
        self.stopped = True
        self._process.terminate()
        try:
            code = self._process.wait(SECONDS)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._listener.join(SECONDS)
            self._output.close()
            assert self._process.stderr is not None
            self._process.stderr.close()
        assert code == 0, self.tail()
        assert "Traceback" not in "\n".join(self.log), self.tail()


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
