"""The broker of the demonstration: a process of its own, in a process group of its own.

So Ctrl-C reaches only the demonstration, which stops the broker last. Should the demonstration die without a chance to
do so, the system stops the broker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fumarole.core.errors import FumaroleError

START_SECONDS = 20.0
STOP_SECONDS = 12.0
STANDARD_PORT = 4222
STANDARD_WEB_PORT = 8222
OTHER_DOORS = {"--msgpack": 4444, "--mqtt": 1883, "--kubemq": 50000}
"""Opened too where the broker has its standard port, if the port is free."""


class DemoError(FumaroleError):
    """The demonstration cannot begin or go on; the text says why."""


class Launched(NamedTuple):
    """A broker that runs, and where."""

    process: subprocess.Popen[bytes]
    url: str
    web: str
    """The console's address."""


@contextmanager
def demo_broker(port: int) -> Iterator[Launched]:
    """A broker on this port of loopback. Afterwards it is gone. Raises DemoError."""
    with tempfile.TemporaryDirectory(prefix="fumarole-demo-") as folder:
        web = STANDARD_WEB_PORT if port == STANDARD_PORT and _is_free(STANDARD_WEB_PORT) else 0
        flags = ["--http", f"127.0.0.1:{web}"]
        for door, other in OTHER_DOORS.items():
            if port == STANDARD_PORT and _is_free(other):
                flags += [door, f"127.0.0.1:{other}"]
        launched = launch(Path(folder), port, flags)
        try:
            yield launched
        finally:
            stop(launched.process)


def launch(folder: Path, port: int, flags: list[str]) -> Launched:
    """Starts a broker, and waits until it is ready. Raises DemoError."""
    ready, log = folder / "ready", folder / "log"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "fumarole.cli.main", "serve", "--nats", f"127.0.0.1:{port}", *flags]
    command += ["--ready-file", str(ready), "--data", str(folder / "data"), "--log-level", "warning"]
    # Settings of another broker, in variables, are not for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stderr=stderr,
            env=environment,
            process_group=0,
            preexec_fn=_end_with_parent,  # noqa: PLW1509, threads of ours hold no locks that it needs
        )
    try:
        _wait_until_ready(process, ready, log, port)
    except BaseException:
        stop(process)
        raise
    addresses = ready.read_text().split()
    return Launched(process, addresses[0], next(each for each in addresses if each.startswith("http")))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def _end_with_parent() -> None:
    """In the new process: SIGTERM when its parent dies. Where the system has no such thing, it does without."""
    set_parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Path, log: Path, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if ready.exists():
            return
        time.sleep(0.02)
    said = log.read_text(errors="replace").strip()
    if "in use" in said:
        raise DemoError(f"port {port} is taken, perhaps by another broker; try `fumarole demo --port {port + 1}`")
    raise DemoError(f"the broker did not start: {said or 'it said nothing'}")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
