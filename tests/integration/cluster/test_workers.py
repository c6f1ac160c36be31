"""`--workers`: several processes behind one port, to clients one node."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fumarole.exchange.producers import HEARSAY
from tests.integration.cluster.clients import Client
from tests.integration.cluster.nodes import ROOT
from tests.ports import free_port

CLIENTS = 60
"""More than one worker keeps for itself."""


SERVE = (sys.executable, "-m", "fumarole.cli.main", "serve")


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")} | {
        "PYTHONPATH": str(ROOT / "src")
    }


def refused(folder: Path, *flags: str) -> str:
    """What a broker says that cannot start."""
    command = [*SERVE, "--data", str(folder / "refused"), *flags]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


class Workers:
    def __init__(
        self,
        folder: Path,
        count: int,
        flags: tuple[str, ...] = (),
        beside: str = "",
        port: int = 0,
        name: str = "many",
        terminal: int | None = None,
    ) -> None:
        """`beside`: a command that a shell starts before it becomes the broker, whose child it then is.

        `terminal`: the descriptor of the terminal that the broker runs in; None: it has none.
        """

        def take_terminal() -> None:
            assert terminal is not None
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

        self.ready = ready = folder / "ready"
        ready.unlink(missing_ok=True)
        self.log = folder / "log"
        command = [*SERVE, "--nats", f"127.0.0.1:{port}", "--data", str(folder / "data")]
        command += ["--workers", str(count), "--ready-file", str(ready), *flags]
        command += ["--node", name] if name else []
        if beside:
            command = ["sh", "-c", f'{beside} & exec "$@"', "sh", *command]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                env=environment(),
                stdout=log,
                stderr=log,
                preexec_fn=None if terminal is None else take_terminal,  # noqa: PLW1509, no thread runs beside it
                pass_fds=() if terminal is None else (terminal,),
            )
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        self.port = int(ready.read_text().split()[0].rpartition(":")[2])

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(word) for word in text.split()]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with running(tmp_path, 3) as started:
        yield started


@contextlib.contextmanager
def running(folder: Path, count: int, flags: tuple[str, ...] = (), **more: Any) -> Iterator[Workers]:
    started = Workers(folder, count, flags, **more)
    try:
        yield started
        started.process.terminate()
        assert started.process.wait(15) == 0, started.log.read_text()
        assert "Traceback" not in started.log.read_text()
    finally:
        started.process.kill()
        started.process.wait()


def test_one_node_to_clients(workers: Workers) -> None:
    clients = [Client("127.0.0.1", workers.port) for _ in range(CLIENTS)]
    assert {client.info["server_name"] for client in clients} == {"many"}
    assert not any("connect_urls" in client.info for client in clients)
    for number, client in enumerate(clients):
        client.say(b"SUB a.> %d\r\nSUB shared.* g %d\r\n" % (number, 100 + number))
        client.flush()
    clients[0].say(b"PUB a.b 2\r\nhi\r\n")
    for number, client in enumerate(clients):
        client.hear_until(b"MSG a.b %d 2\r\nhi\r\n" % number)
    for _ in range(240):
        clients[1].say(b"PUB shared.x 0\r\n\r\n")
    clients[1].say(b"PUB a.end 0\r\n\r\n")
    heard = [client.hear_until(b"MSG a.end %d 0\r\n\r\n" % number) for number, client in enumerate(clients)]
    heard = [before + client.flush() for before, client in zip(heard, clients, strict=True)]
    assert sum(text.count(b"MSG shared.x") for text in heard) == 240
    assert stats(clients[2])["delivered"] == CLIENTS * 2 + 240
    assert stats(clients[3])["connections"] == CLIENTS
    for client in clients:
        client.close()


def stats(client: Client) -> dict[str, Any]:
    """Of all workers together; they tell each other now and then."""
    time.sleep(0.8)
    return answer(client, b"stats")


def answer(client: Client, service: bytes) -> dict[str, Any]:
    client.say(b"SUB inbox 999\r\nPUB $FUM.%b inbox 0\r\n\r\nUNSUB 999 1\r\n" % service)
    client.hear_until(b"MSG inbox 999 ")
    seen: dict[str, Any] = json.loads(client.hear_until(b"}\r\n").partition(b"\r\n")[2])
    return seen


def test_a_worker_that_dies_is_started_again(workers: Workers) -> None:
    before = workers.children()
    os.kill(before[1], signal.SIGKILL)
    deadline = time.monotonic() + 15
    while len(set(workers.children()) - {before[1]}) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    clients = [Client("127.0.0.1", workers.port) for _ in range(CLIENTS)]
    for client in clients:
        client.say(b"SUB a 1\r\n")
        client.flush()
    clients[0].say(b"PUB a 2\r\nhi\r\n")
    for client in clients:
        client.hear_until(b"MSG a 1 2\r\nhi\r\n")
        client.close()


def test_a_worker_that_is_started_again_announces_nothing(workers: Workers) -> None:
    """Where that could not be written any more, it would not be the end of all."""
    workers.ready.unlink()
    os.kill(workers.children()[1], signal.SIGKILL)
    deadline = time.monotonic() + 15
    while workers.log.read_text().count("hot path") < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    assert not workers.ready.exists()


def test_a_port_that_others_share_is_not_shared_with_them(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, 2, port=port):
        client = Client("127.0.0.1", port)
        for count in ("1", "2"):
            said = refused(tmp_path, "--nats", f"127.0.0.1:{port}", "--workers", count)
            assert said.startswith(f"cannot listen on 127.0.0.1:{port}: ")
            assert said.lower().endswith("address already in use\n")
    client.close()
    with running(tmp_path, 2, port=port):  # what is left of connections that were closed is no hindrance
        Client("127.0.0.1", port).close()


def test_a_ready_file_that_cannot_be_written_ends_all(tmp_path: Path) -> None:
    file = tmp_path / "no" / "such" / "file"
    said = refused(tmp_path, "--nats", "127.0.0.1:0", "--workers", "2", "--ready-file", str(file))
    assert f"cannot write {file}: No such file or directory" in said
    assert "started again" not in said


def test_a_name_that_is_made_up_is_no_process_id(tmp_path: Path) -> None:
    """In containers each broker may be process 1, and no two nodes of a cluster may have one name."""
    with running(tmp_path, 2, name="") as workers:
        client = Client("127.0.0.1", workers.port)
        assert re.fullmatch("fumarole-[0-9a-f]{12}", client.info["server_name"])
        client.close()


def test_the_end_of_their_terminal_stops_all(tmp_path: Path) -> None:
    outside, inside = os.openpty()
    with running(tmp_path, 3, terminal=inside) as workers:
        os.close(inside)
        os.close(outside)  # the system sends SIGHUP to the process that leads the terminal's session
        assert workers.process.wait(15) == 0
        assert workers.log.read_text().count("to drain") == 3


def test_without_a_terminal_and_a_configuration_sighup_changes_nothing(workers: Workers) -> None:
    workers.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 5
    while "nothing is reloaded" not in workers.log.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert workers.process.poll() is None
    assert "nothing is reloaded" in workers.log.read_text()


def test_they_may_be_started_to_outlive_their_terminal(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does
    try:
        with running(tmp_path, 2) as workers:
            for each in (workers.process.pid, *workers.children()):
                os.kill(each, signal.SIGHUP)
            time.sleep(0.5)
            assert workers.process.poll() is None
            assert "stopping" not in workers.log.read_text()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_all_stop_though_one_is_just_to_be_started_again(workers: Workers) -> None:
    """The fixture sees that they do."""
    os.kill(workers.children()[1], signal.SIGKILL)
    deadline = time.monotonic() + 5
    while "is started again" not in workers.log.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_child_that_is_no_worker(tmp_path: Path) -> None:
    """Its end changes nothing for clients."""
    with running(tmp_path, 2, beside="sleep 60") as workers:
        (foreign,) = [each for each in workers.children() if Path(f"/proc/{each}/comm").read_text() == "sleep\n"]
        before = set(workers.children()) - {foreign}
        os.kill(foreign, signal.SIGTERM)
        deadline = time.monotonic() + 5
        while foreign in workers.children() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert workers.process.poll() is None, workers.log.read_text()
        assert set(workers.children()) == before


FAILING = """
from fumarole.config.load import load
from fumarole.server.workers import serve_with_workers

def run(work):
    work.close()
    raise RuntimeError("the loop is broken")

serve_with_workers(load(None, {}, {"--nats": "127.0.0.1:0", "--workers": "2"}), run, print)
"""


def test_a_worker_that_fails_says_why() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FAILING], env=environment(), capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.returncode == 1
    assert re.search("worker [01] failed", ended.stderr)  # the first that does ends the other
    assert "RuntimeError: the loop is broken" in ended.stderr


def test_the_silent_are_forgotten_by_all(tmp_path: Path) -> None:
    """M7."""
    settings = tmp_path / "fumarole.toml"
    settings.write_text('[namespaces.default]\nproducer_ttl = "1 s"\n')
    with running(tmp_path, 2, ("--config", str(settings))) as workers:
        clients = [Client("127.0.0.1", workers.port) for _ in range(CLIENTS)]
        for client in clients:
            block = b"NATS/1.0\r\nProducer: %b\r\n\r\n" % str(uuid.uuid4()).encode()
            client.say(b"HPUB a %d %d\r\n%b1\r\n" % (len(block), len(block) + 1, block))
            client.flush()
        deadline = time.monotonic() + 1 + 3 * HEARSAY
        assert {answer(client, b"producers")["total"] for client in clients} == {CLIENTS}
        while any(answer(client, b"producers")["total"] for client in clients):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for client in clients:
            client.close()


def test_workers_do_not_outlive_who_watches_them(tmp_path: Path) -> None:
    started = Workers(tmp_path, 2)
    workers = started.children()
    started.process.kill()
    started.process.wait()
    deadline = time.monotonic() + 10
    while any(is_there(each) for each in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [each for each in workers if is_there(each)]
    for each in left:
        os.kill(each, signal.SIGKILL)
    assert left == []


def is_there(process: int) -> bool:
    """Not counting one that has ended and whose exit code was not asked for yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
