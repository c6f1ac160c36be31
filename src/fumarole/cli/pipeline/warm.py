"""The commands' side of the warm session: find it, start it, send it a command (P9).

It needs the standard library only: a command that is run by the session imports nothing that it does not need.

    $XDG_RUNTIME_DIR/fumarole/spark-5e0c….sock    of one user, version of Fumarole and Spark, master, settings
                              spark-5e0c….lock    held by the session while it runs
                              spark-5e0c….log     Spark's output
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, Final

import typer

import fumarole
from fumarole.cli.command import ARGUMENTS
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import FAILED, INTERRUPTED, fail, say

COLD: Final = "FUMAROLE_COLD"
START_SECONDS: Final = 90.0
STOP_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 30.0
LOOKS, LOOK_SECONDS = 3, 0.05
"""How often a session that holds its lock and does not listen is asked again."""
OTHER: Final = 75
"""The exit code of a session's process where another one is there."""
READY, INTERRUPT = b"r", b"i"
LONGEST_ADDRESS: Final = 107
"""Bytes of a socket's path, as the system takes it."""
SIZE: Final = struct.Struct("!I")
_PEER: Final = struct.Struct("3i")
_SEEN_BY_JAVA: Final = ("JAVA_HOME", "SPARK_", "PYSPARK_", "HADOOP_", "AWS_", "GOOGLE_", "AZURE_", "TMPDIR")
"""Variables that the process of a session uses. Each set of their values has a session of its own."""


hand_over: ContextVar[Callable[[], int] | None] = ContextVar("hand_over", default=None)
"""Has a command that found no session be run by one that it starts, once its mistakes are known. Raises NoSessionError.
"""


class NoSessionError(Exception):
    """There is no warm session, and none can be started. The text has the reason."""


class Place:
    """The files of the warm session of a master and its settings."""

    def __init__(self, master: str, settings: Sequence[str], folder: Path | None = None) -> None:
        self.master = master
        self.settings = tuple(settings)
        self.folder = folder or runtime_folder()
        name = f"spark-{self._digest()}"
        self.socket = self.folder / f"{name}.sock"
        self.lock = self.folder / f"{name}.lock"
        self.log = self.folder / f"{name}.log"

    def _digest(self) -> str:
        variables = sorted((key, value) for key, value in os.environ.items() if key.startswith(_SEEN_BY_JAVA))
        versions = [fumarole.__version__, str(_newest()), importlib.metadata.version("pyspark"), sys.executable]
        whole = json.dumps([versions, self.master, sorted(self.settings), variables, _umask()])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def runtime_folder() -> Path:
    """A folder that only this user can open. Raises NoSessionError where there is none."""
    above = os.environ.get("XDG_RUNTIME_DIR")
    user = os.geteuid()
    folder = Path(above, "fumarole") if above else Path(tempfile.gettempdir(), f"fumarole-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise NoSessionError(f"{folder}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        raise NoSessionError(f"{folder} is not a folder of this user alone")
    return folder


def _newest() -> int:
    """The time of the last change of the package: a session runs the code with which it was started.

    Compiled files (`__pycache__`) do not count: Python writes them at the first import.
    """
    root = Path(fumarole.__file__).parent
    return max(
        int(Path(place, name).stat().st_mtime)
        for place, _, names in os.walk(root)
        if Path(place).name != "__pycache__"
        for name in names
    )


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """By which a socket is bound, or connected to, however long the path of its folder is."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def say_cold(error: NoSessionError) -> None:
    """Why a command takes long, and the next ones will."""
    say(f"no warm session: {error}. Spark is started for this command alone")


def in_warm_session(command: Callable[..., None]) -> Callable[..., None]:
    """The same command. It runs in a warm session when it comes from a command line and `--cold` is not given.

    It has an option `spark_options`, a WarmSparkOptions.
    """

    @functools.wraps(command)
    def run(*given: Any, **options: Any) -> None:
        arguments, spark_options = ARGUMENTS.get(), options["spark_options"]
        if arguments is None or spark_options.cold or spark_options.remote is not None or os.environ.get(COLD):
            command(*given, **options)
            return
        try:
            place = Place(spark_options.master, spark_options.conf or [])
            if (running := connect(place)) is not None:
                running.close()
                raise typer.Exit(ask(place, arguments))
            hand_over.set(functools.partial(ask, place, arguments))
        except NoSessionError as error:
            say_cold(error)
        command(*given, **options)

    return run


def ask(place: Place, arguments: Sequence[str]) -> int:
    """Runs a command in the session, starts one if needed, and returns the exit code. Raises NoSessionError."""
    for _ in range(2):  # a session may end before it gets the command
        with open_session(place) as connection:
            sys.stdout.flush()
            request = {
                "ask": "run",
                "arguments": list(arguments),
                "folder": str(Path.cwd()),
                "environment": dict(os.environ),
            }
            _send(connection, request, [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)])
            if _is_ready(connection):
                return _followed(connection, place)
    raise NoSessionError(f"it ended before it took the command; {place.log} may say why")


@contextmanager
def open_session(place: Place) -> Iterator[socket.socket]:
    """A connection to the session, which is started if needed. Raises NoSessionError."""
    connection = connect(place)
    if connection is None:
        connection = _started(place)
    with connection:
        yield connection


def connect(place: Place) -> socket.socket | None:
    """A connection to a running session. Raises NoSessionError where it belongs to another user."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(place.socket) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        return None
    peer = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if peer[1] != os.geteuid():
        connection.close()
        raise NoSessionError(f"{place.socket} is another user's")
    return connection


def _started(place: Place) -> socket.socket:
    end = time.monotonic() + START_SECONDS
    resident = _begun(place)
    while time.monotonic() < end:
        if (connection := connect(place)) is not None:
            return connection
        if (code := resident.poll()) is not None and not is_held(place.lock):
            if code != OTHER:
                break
            resident = _begun(place)  # the other one was about to end
        time.sleep(0.02)
    raise NoSessionError(f"it did not start; {place.log} may say why")


def _begun(place: Place) -> subprocess.Popen[bytes]:
    with place.log.open("wb") as log:
        os.fchmod(log.fileno(), 0o600)
        resident = subprocess.Popen(
            [sys.executable, "-m", "fumarole.cli.pipeline.resident"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=place.folder,
            start_new_session=True,
        )
    assert resident.stdin is not None
    # Not in its arguments, which every user of the machine can see: settings may have secrets.
    with resident.stdin:
        resident.stdin.write(json.dumps([str(place.socket), str(place.lock), place.master, place.settings]).encode())
    return resident


def is_held(lock: Path) -> bool:
    """True while a running session holds the lock."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _send(connection: socket.socket, request: dict[str, Any], streams: Sequence[int] = ()) -> None:
    body = json.dumps(request).encode()
    with suppress(ConnectionError):  # the answer shows it
        socket.send_fds(connection, [SIZE.pack(len(body))], list(streams))
        connection.sendall(body)


def _is_ready(connection: socket.socket) -> bool:
    """True when the session takes the command. The session may still be starting."""
    try:
        with waiting("starting Spark"):
            return connection.recv(1) == READY
    except ConnectionError:
        return False
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _followed(connection: socket.socket, place: Place) -> int:
    """Waits until the command ends. Ctrl-C is passed on to it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        with suppress(ConnectionError):
            connection.sendall(INTERRUPT)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        answer = b""
        with suppress(ConnectionError):
            while len(answer) < SIZE.size and (part := connection.recv(SIZE.size - len(answer))):
                answer += part
    finally:
        signal.signal(signal.SIGINT, before)
    if len(answer) < SIZE.size:
        fail(f"the warm session ended before the command did; {place.log} may say why", FAILED)
    return int(SIZE.unpack(answer)[0])


def sessions(folder: Path) -> list[dict[str, Any]]:
    """The running sessions of this user, of all versions and settings, also those that are about to end.

    Raises NoSessionError if one does not answer.
    """
    found = []
    for lock in sorted(folder.glob("spark-*.lock")):
        log = str(lock.with_suffix(".log"))
        answer = None
        for _ in range(LOOKS):  # one that is about to begin listens in a moment
            if not is_held(lock) or (answer := _asked(lock.with_suffix(".sock"), "status")):
                break
            time.sleep(LOOK_SECONDS)
        if answer:
            found.append({**json.loads(answer), "log": log})
        elif is_held(lock):
            found.append({**_noted(lock), "running": 0, "starting": False, "ending": True, "log": log})
    return found


def _noted(lock: Path) -> dict[str, Any]:
    """What a session has written into its lock: its process."""
    with suppress(OSError, ValueError):
        return dict(json.loads(lock.read_bytes()))
    return {}


def stop_sessions(folder: Path) -> int:
    """Ends all sessions and their workers, and returns their number. Raises NoSessionError if one does not end."""
    held = [path for path in sorted(folder.glob("spark-*.lock")) if is_held(path)]
    for path in held:
        _asked(path.with_suffix(".sock"), "stop")
    end = time.monotonic() + STOP_SECONDS
    for path in held:
        while is_held(path):
            if time.monotonic() > end:
                raise NoSessionError(f"{path.with_suffix('.sock')} did not end in {STOP_SECONDS:g} s")
            time.sleep(0.02)
    return len(held)


def _asked(path: Path, what: str) -> bytes | None:
    """The whole answer; empty where there is none. None: no session listens, or it ends before it answers.

    Raises NoSessionError if a session listens and does not answer.
    """
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            with socket_address(path) as address:
                connection.connect(address)
            _send(connection, {"ask": what})
            while part := connection.recv(4096):
                answer += part
        except (TimeoutError, BlockingIOError):
            raise NoSessionError(f"{path} did not answer; {path.with_suffix('.log')} may say why") from None
        except OSError:
            return None
    return answer
