"""The resident process: it waits for commands at a socket, and forks a child for each.

What it is asked about itself it answers without a child, and while Spark is starting as well.
"""

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
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.warm.incoming import SIZE, Incoming

IDLE_SECONDS: Final = 600.0
REQUEST_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 5.0
"""How often it looks whether Java is alive and whether it is idle."""
REAP_SECONDS: Final = 0.5
"""How often it looks whether a child has ended."""
START_SECONDS: Final = 0.02
"""And whether Spark has started."""
LAST_SECONDS: Final = 3.0
"""For children to end when the session is stopped."""
READY, INTERRUPT = b"r", b"i"
_PEER: Final = struct.Struct("3i")
FAILED: Final = 1
ANSWERED: Final = 3
"""The exit code of a child that has run a command and told what it ended with."""

Run: TypeAlias = "Callable[[Sequence[str]], int]"


class Request(NamedTuple):
    """What a command sends: what to run, and where."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


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
        self._incoming: set[Incoming] = set()
        self._waiting: list[tuple[Incoming, Request]] = []
        """Commands that came while Spark was starting."""
        self._starting: int | None = None
        """The child that makes ready what all others share."""
        self._children: set[int] = set()
        self._commands = 0
        self._began = self._used = time.monotonic()
        self._stopping = False

    def serve(self, first: Callable[[], int] | None = None) -> None:
        """Commands, until there is a reason to end. `first` is run by a child before all of them.

        Raises PipelineError where that fails.
        """
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes to a child by its command
        self._listener.setblocking(False)
        if first is not None:
            self._starting = self._fork(first)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._stopping and self._java.is_alive:
                for key, _ in selector.select(self._pause()):
                    if key.data is None:
                        self._accept(selector)
                    else:
                        self._receive(selector, key.data)
                self._reap()
                self._give_up(selector)
                if not self._children and time.monotonic() - self._used > self._idle:
                    break
        self._listener.close()
        self._end_children()
        self._java.stop()

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _pause(self) -> float:
        if self._starting is not None:
            return START_SECONDS
        return REAP_SECONDS if self._children or self._incoming else min(LOOK_SECONDS, self._idle)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if peer_user(connection) != os.geteuid():
            connection.close()
            return
        incoming = Incoming(connection)
        self._incoming.add(incoming)
        selector.register(connection, selectors.EVENT_READ, incoming)

    def _receive(self, selector: selectors.BaseSelector, incoming: Incoming) -> None:
        try:
            request = incoming.receive()
            if request is None:
                return
        except (OSError, ValueError):
            request = {}  # it hung up, or is no fumarole command
        selector.unregister(incoming.connection)
        self._incoming.discard(incoming)
        match request:
            case {"ask": "status"}:
                with suppress(OSError):
                    incoming.connection.sendall(json.dumps(self._status()).encode())
            case {"ask": "stop"}:
                self._stopping = True
            case {"ask": "run", "arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}:
                self._waiting.append((incoming, Request(arguments, folder, environment)))
                self._begin()
                return
        incoming.close()

    def _give_up(self, selector: selectors.BaseSelector) -> None:
        """Requests that do not come to their end."""
        for incoming in [each for each in self._incoming if time.monotonic() - each.since > REQUEST_SECONDS]:
            selector.unregister(incoming.connection)
            self._incoming.discard(incoming)
            incoming.close()

    def _begin(self) -> None:
        """A child for each command that waits."""
        while self._waiting and self._starting is None:
            incoming, request = self._waiting.pop(0)
            try:
                self._fork(partial(self._answer, incoming, request))
            except OSError as error:  # no memory or no process left: the command is refused, not the session ended
                sys.stderr.write(f"no process for a command: {error.strerror}\n")
            incoming.close()

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
            self._listener.close()
            for each in [*self._incoming, *[waiting for waiting, _ in self._waiting]]:
                each.close()  # or their commands would wait for the end of this one
            code = work()
        except BaseException:  # noqa: BLE001  # there is nothing around it
            traceback.print_exc()
        finally:
            # Nothing else of the resident's is closed or collected here: it is in use there.
            os._exit(code)

    def _reap(self) -> None:
        for child in list(self._children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            self._commands += os.waitstatus_to_exitcode(status) == ANSWERED
            self._children.discard(child)
            self._used = time.monotonic()
            if child == self._starting:
                if status and not self._stopping:
                    raise PipelineError("Spark did not start")
                self._starting = None
                self._begin()

    def _end_children(self) -> None:
        for number, seconds in ((signal.SIGTERM, LAST_SECONDS), (signal.SIGKILL, LAST_SECONDS)):
            for child in self._children:
                os.kill(child, number)
            end = time.monotonic() + seconds
            while self._children and time.monotonic() < end:
                self._reap()
                time.sleep(0.02)

    def _answer(self, incoming: Incoming, request: Request) -> int:
        """In a child: one command, and the answer to it."""
        connection = incoming.connection
        connection.setblocking(True)
        connection.sendall(READY)
        threading.Thread(target=_watch, args=(connection,), daemon=True).start()
        code = self._command(request, incoming.streams)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the command hangs up when it has its answer
        connection.sendall(SIZE.pack(code))
        return ANSWERED

    def _status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "java": self._java.pid,
            "seconds": time.monotonic() - self._began,
            "idle": 0.0 if self._children else time.monotonic() - self._used,
            "running": len(self._children) - (self._starting is not None) + len(self._waiting),
            "starting": self._starting is not None,
            "ending": False,
            "commands": self._commands,
        }

    def _command(self, request: Request, streams: Sequence[int]) -> int:
        for number, descriptor in enumerate(streams):
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


def _watch(connection: socket.socket) -> None:
    """In a child: Ctrl-C at the command interrupts it, and its end ends it."""
    while True:
        said = connection.recv(1)
        os.kill(os.getpid(), signal.SIGINT if said == INTERRUPT else signal.SIGTERM)
        if said != INTERRUPT:
            return
