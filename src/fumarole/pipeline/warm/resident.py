"""The resident process: it waits for commands at a socket, and forks a child for each."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from fumarole.pipeline.errors import PipelineError

IDLE_SECONDS: Final = 600.0
REQUEST_SECONDS: Final = 10.0
MOST_BYTES: Final = 16 << 20
LOOK_SECONDS: Final = 5.0
"""How often it looks whether Java is alive and whether it is idle."""
LAST_SECONDS: Final = 3.0
"""For children to end when the session is stopped."""
READY, INTERRUPT = b"r", b"i"
SIZE: Final = struct.Struct("!I")
_PEER: Final = struct.Struct("3i")
FAILED: Final = 1
ANSWERED: Final = 3
"""The exit code of a child that has run a command and told what it ended with."""

Run: TypeAlias = "Callable[[Sequence[str]], int]"


class Request(NamedTuple):
    """What a command sends: what to run, where, and as whom it shows itself."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]
    """stdin, stdout, stderr."""


def peer_user(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket, as the system says."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(found)[1])


class Running(Protocol):
    """What children attach to: Java, as `warm.java` starts it."""

    @property
    def address(self) -> dict[str, str]: ...
    @property
    def pid(self) -> int: ...
    @property
    def is_alive(self) -> bool: ...
    def stop(self) -> None: ...


class Resident:
    """One warm session. `serve` returns when it has been idle for so long, when Java is gone, or after SIGTERM."""

    def __init__(self, listener: socket.socket, java: Running, run: Run, idle: float = IDLE_SECONDS) -> None:
        self._listener = listener
        self._java = java
        self._run = run
        self._idle = idle
        self._children: set[int] = set()
        self._commands = 0
        self._began = self._used = time.monotonic()
        self._stopping = False

    def first(self, work: Callable[[], int]) -> None:
        """Waits for a child that makes ready what all others share. Raises PipelineError where it fails."""
        child = self._fork(work)
        _, status = os.waitpid(child, 0)
        self._children.discard(child)
        if status:
            raise PipelineError("Spark did not start")

    def serve(self) -> None:
        """Commands, until there is a reason to end."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes to a child by its command
        self._listener.setblocking(False)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._listener, selectors.EVENT_READ)
            while not self._stopping and self._java.is_alive:
                asked = waiting.select(0.5 if self._children else min(LOOK_SECONDS, self._idle))
                self._reap()
                if asked:
                    self._accept()
                if not self._children and time.monotonic() - self._used > self._idle:
                    break
        self._listener.close()
        self._end_children()
        self._java.stop()

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection:
            connection.setblocking(True)
            if peer_user(connection) == os.geteuid() and self._java.is_alive:
                try:
                    self._fork(lambda: self._answer(connection))
                except OSError as error:  # no memory or no process left: the command is refused, not the session ended
                    sys.stderr.write(f"no process for a command: {error.strerror}\n")

    def _fork(self, work: Callable[[], int]) -> int:
        """Runs it in a child, which is returned."""
        self._used = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            self._children.add(child)
            return child
        code = FAILED
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)
            os.environ.update(self._java.address)
            code = work()
        except BaseException:  # noqa: BLE001  # there is nothing around it
            traceback.print_exc()
        finally:
            # Nothing of the resident's is closed or collected here: it is in use there.
            os._exit(code)

    def _reap(self) -> None:
        for child in list(self._children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self._commands += os.waitstatus_to_exitcode(status) == ANSWERED
                self._children.discard(child)
                self._used = time.monotonic()

    def _end_children(self) -> None:
        for number, seconds in ((signal.SIGTERM, LAST_SECONDS), (signal.SIGKILL, LAST_SECONDS)):
            for child in self._children:
                os.kill(child, number)
            end = time.monotonic() + seconds
            while self._children and time.monotonic() < end:
                self._reap()
                time.sleep(0.02)

    def _answer(self, connection: socket.socket) -> int:
        """In a child: one request, and the answer to it."""
        self._listener.close()
        connection.settimeout(REQUEST_SECONDS)
        try:
            asked, streams = receive(connection)
        except (OSError, ValueError):
            return FAILED  # it hung up, or is no command of ours
        connection.settimeout(None)
        match asked.get("ask"):
            case "status":
                connection.sendall(json.dumps(self._status()).encode())
            case "stop":
                os.kill(os.getppid(), signal.SIGTERM)
            case "run":
                request = Request(asked["arguments"], asked["folder"], asked["environment"], streams)
                connection.sendall(READY)
                threading.Thread(target=_watch, args=(connection,), daemon=True).start()
                code = self._command(request)
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, signal.SIG_IGN)  # the command hangs up when it has its answer
                connection.sendall(SIZE.pack(code))
                return ANSWERED
        return 0

    def _status(self) -> dict[str, Any]:
        return {
            "pid": os.getppid(),
            "java": self._java.pid,
            "seconds": time.monotonic() - self._began,
            # Without this one, which asks.
            "idle": 0.0 if self._children else time.monotonic() - self._used,
            "running": len(self._children),
            "commands": self._commands,
        }

    def _command(self, request: Request) -> int:
        for number, descriptor in enumerate(request.streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  # by its number
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update({**request.environment, **self._java.address})
        time.tzset()
        try:
            return self._run(request.arguments)
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request, and the descriptors that came with it. Raises OSError, ValueError."""
    data, streams, _, _ = socket.recv_fds(connection, SIZE.size, 3)
    size = SIZE.unpack(data)[0] if len(data) == SIZE.size else 0
    if not 0 < size <= MOST_BYTES:
        raise ValueError("no request")
    body = bytearray()
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:
            raise ValueError("the request ends too soon")
        body += part
    return json.loads(body), list(streams)


def _watch(connection: socket.socket) -> None:
    """In a child: Ctrl-C at the command interrupts it, and its end ends it."""
    while True:
        said = connection.recv(1)
        os.kill(os.getpid(), signal.SIGINT if said == INTERRUPT else signal.SIGTERM)
        if said != INTERRUPT:
            return
