"""A real RabbitMQ: Debian's, on ports and in a folder of its own, on loopback, started and stopped by us."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_port

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS = 60.0
STOP_SECONDS = 20.0


class RabbitMq:
    """One node. `stop` and `start` as often as a test needs; `close` at the end."""

    def __init__(self, folder: Path) -> None:
        if not SERVER.exists():
            raise AssertionError("RabbitMQ is missing; `make setup-test` installs it (Debian package rabbitmq-server)")
        self.port, self._names, distribution, self._management = (free_port() for _ in range(4))
        self._folder = folder
        (folder / "plugins").write_text("[rabbitmq_management].\n")
        (folder / "rabbitmq.conf").write_text(
            f"management.tcp.port = {self._management}\nmanagement.tcp.ip = 127.0.0.1\nloopback_users.guest = true\n"
        )
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"fumarole-{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        # Erlang would start this by itself, and leave it behind for ever.
        self._name_server = subprocess.Popen(
            ["epmd", "-port", str(self._names), "-address", "127.0.0.1"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._server: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when clients can connect."""
        with (self._folder / "output").open("ab") as output:
            self._server = subprocess.Popen(
                [str(SERVER)], env=self._environment, cwd=self._folder, stdout=output, stderr=output
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"RabbitMQ did not start:\n{(self._folder / 'output').read_text()[-2000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                if not connection.recv(1):
                    return False
            return isinstance(self.ask("overview"), dict)
        except OSError:
            return False

    def stop(self) -> None:
        """Ends the node, by its own process id."""
        assert self._server is not None
        node = int((self._folder / "pid").read_text())
        os.kill(node, signal.SIGTERM)
        try:
            self._server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.kill(node, signal.SIGKILL)
            self._server.wait(STOP_SECONDS)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Its connections stay, and it takes nothing from them, as when it is short of memory or disk."""
        node = int((self._folder / "pid").read_text())
        os.kill(node, signal.SIGSTOP)
        try:
            while not _stands_still(node):
                time.sleep(0.01)
            yield
        finally:
            os.kill(node, signal.SIGCONT)

    def close(self) -> None:
        if self._server is not None and self._server.poll() is None:
            # Nothing of it is needed any more, so it need not tidy up.
            os.kill(int((self._folder / "pid").read_text()), signal.SIGKILL)
            self._server.wait(STOP_SECONDS)
        self._name_server.terminate()
        self._name_server.wait()

    # What the broker says of itself.

    def ask(self, what: str, method: str = "GET", body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._management}/api/{what}",
            data,
            {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(), "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def bindings(self, exchange: str) -> list[str]:
        """The keys that are bound to an exchange, in order; a key that two queues have is there twice."""
        return sorted(each["routing_key"] for each in self.ask(f"exchanges/%2F/{exchange}/bindings/source"))

    def queues(self) -> list[str]:
        return sorted(each["name"] for each in self.ask("queues?columns=name"))


def _stands_still(process: int) -> bool:
    """Do all its threads? They are told to, and one that is running goes on for a moment."""
    states = [
        (task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{process}/task").iterdir()
    ]
    return all(state == "T" for state in states)
