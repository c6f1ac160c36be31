"""The brokers that are measured: ours in both forms, and nats-server. Each on a free port of loopback."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import PEER
from tests.ports import free_port

COMMANDS = Path(sys.executable).parent
START_WITHIN = 20.0
STOP_WITHIN = 15.0
PATIENCE = 300.0
"""Seconds that a server may take to answer: a busy machine has a million consumers to remove."""
COMPILED = "compiled"
PLAIN = "plain Python"


class CannotMeasureError(Exception):
    """Something that the measuring needs is not there; the text says what, for a person."""


@dataclass(frozen=True)
class Server:
    """One that runs."""

    name: str
    pid: int
    port: int

    def resident(self) -> int:
        """Bytes of memory it has now."""
        return self._status("VmRSS")

    def most_resident(self) -> int:
        """Bytes of memory it ever had at once."""
        return self._status("VmHWM")

    def processor_seconds(self) -> float:
        """Time on a processor, all threads together."""
        nanoseconds = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    def _status(self, field: str) -> int:
        found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None, f"no {field}: the process is gone"
        return int(found[1]) * 1024

    def connect(self) -> socket.socket:
        """A connection that has said CONNECT and heard PONG."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(b'CONNECT {"verbose":false,"pedantic":false,"protocol":1}\r\n')
        settle(made)
        return made


def settle(connection: socket.socket) -> None:
    """PING, and wait for its PONG: everything said before has been taken in. What else comes is not looked at."""
    tail = b""
    connection.sendall(b"PING\r\n")
    while b"PONG\r\n" not in tail:
        try:
            more = connection.recv(65536)
        except TimeoutError:
            raise CannotMeasureError("the server does not answer a PING any more") from None
        if not more or b"-ERR" in more:
            raise CannotMeasureError(f"the server closed a connection, or refused: {more[:80]!r}")
        tail = tail[-5:] + more


@contextmanager
def fumarole(name: str = COMPILED, *flags: str, start_within: float = START_WITHIN) -> Iterator[Server]:
    """Our broker, in one of its two forms."""
    if name == COMPILED and not _has_compiled():
        raise CannotMeasureError("the compiled hot path is not built; `make setup` says why")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FUMAROLE_")}
    if name == PLAIN:
        environment["FUMAROLE_PURE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [str(COMMANDS / "fumarole"), "serve", "--nats", "127.0.0.1:0", "--log-level", "warning"]
        command += ["--data", str(Path(folder) / "data"), "--ready-file", str(ready), *flags]
        with running(name, command, environment, lambda _: _port_in_address(ready), start_within) as server:
            yield server


@contextmanager
def nats_server(*flags: str) -> Iterator[Server]:
    """The peer."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(COMMANDS / "nats-server"), "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", folder, *flags]
        port = lambda pid: _port_in_file(Path(folder) / f"nats-server_{pid}.ports")  # noqa: E731
        with running(PEER, command, dict(os.environ), port) as server:
            yield server


@contextmanager
def mosquitto() -> Iterator[Server]:
    """The peer of the MQTT door, as Debian has it. Its queues are as long as ours are in bytes."""
    command = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if command is None:
        raise CannotMeasureError("mosquitto is not installed: apt-get install mosquitto (its service need not run)")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "mosquitto.conf"
        settings.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type error\n"
            "set_tcp_nodelay true\nmax_queued_messages 100000\nmax_inflight_messages 1000\n"
        )
        if os.getuid() == 0:
            settings.write_text(settings.read_text() + "user root\n")
        with running("mosquitto", [command, "-c", str(settings)], dict(os.environ), lambda _: _listening(port)) as peer:
            yield peer


def _listening(port: int) -> int | None:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return None
    return port


@contextmanager
def fumarole_cluster(nodes: int, *flags: str, name: str = COMPILED) -> Iterator[list[Server]]:
    """So many of ours, which know each other."""
    with ExitStack() as running:
        ports = [free_port() for _ in range(nodes)]
        servers = []
        for number, port in enumerate(ports):
            peers = ["--peer", f"127.0.0.1:{ports[0]}"] if number else []
            own = ["--node", f"node-{number}", "--cluster", f"127.0.0.1:{port}", *peers]
            servers.append(running.enter_context(fumarole(name, *own, *flags)))
        yield servers


@contextmanager
def nats_cluster(nodes: int) -> Iterator[list[Server]]:
    """So many of the peer's."""
    with ExitStack() as running:
        ports = [free_port() for _ in range(nodes)]
        servers = []
        for number, port in enumerate(ports):
            flags = ["--cluster_name", "bench", "--cluster", f"nats://127.0.0.1:{port}", "--name", f"node-{number}"]
            if number:
                flags += ["--routes", f"nats://127.0.0.1:{ports[0]}"]
            servers.append(running.enter_context(nats_server(*flags)))
        time.sleep(2.0)  # for routes to be made; the peer does not say when they are
        yield servers


def peer_version() -> str:
    run = subprocess.run([COMMANDS / "nats-server", "--version"], capture_output=True, text=True, check=False)
    return run.stdout.strip().replace(": v", " ") or "no nats-server"


def many_files() -> None:
    """This process may have as many connections as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _has_compiled() -> bool:
    from fumarole.fastpath import hot_path

    return hot_path.compiled() is not None


@contextmanager
def running(
    name: str,
    command: list[str],
    environment: dict[str, str],
    port: Callable[[int], int | None],
    start_within: float = START_WITHIN,
) -> Iterator[Server]:
    with tempfile.TemporaryFile() as words:
        try:
            process = subprocess.Popen(command, env=environment, stdout=words, stderr=words)
        except OSError as error:
            raise CannotMeasureError(f"{name} cannot be started: {error}") from None
        try:
            found, deadline = None, time.monotonic() + start_within
            while found is None:
                if process.poll() is not None or time.monotonic() > deadline:
                    words.seek(0)
                    raise CannotMeasureError(f"{name} did not start: {words.read().decode(errors='replace')[-500:]}")
                time.sleep(0.02)
                found = port(process.pid)
            yield Server(name, process.pid, found)
        finally:
            process.terminate()
            try:
                process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port_in_address(ready: Path) -> int | None:
    return int(ready.read_text().split()[0].rpartition(":")[2]) if ready.exists() else None


def _port_in_file(ports: Path) -> int | None:
    try:
        return int(json.loads(ports.read_text())["nats"][0].rpartition(":")[2])
    except (OSError, ValueError):
        return None  # not there yet, or half written
