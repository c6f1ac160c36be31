"""SIGHUP: what of the configuration is in force at once, and that a mistake changes nothing (A7)."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fumarole.server.credentials import token_digest
from tests.integration.conftest import Authority, StartBroker
from tests.integration.raw import Closed, RawClient
from tests.integration.running import RunningBroker

SECONDS = 10.0
LOADED = "the configuration is loaded again"


def user(name: str, *lines: str, token: str = "") -> str:
    return "\n".join(["[[users]]", f'name = "{name}"', f'token = "{token_digest(token or name)}"', *lines, ""])


def reload(broker: RunningBroker, config: str, said: str = LOADED) -> str:
    """Writes the file, asks, and returns the line that the log answers with."""
    before = len(broker.log)
    (broker.folder / "fumarole.toml").write_text(config)
    broker.ask_to_end(signal.SIGHUP)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for line in broker.log[before:]:
            if said in line:
                return line
        time.sleep(0.01)
    raise AssertionError(f"never said: {said}\n{broker.tail()}")


def come(broker: RunningBroker, token: str) -> RawClient:
    client = RawClient(broker.port)
    try:
        client.connect(auth_token=token)
    except Closed:
        client.close()
        raise
    return client


def test_users_come_and_go(start_broker: StartBroker) -> None:
    broker = start_broker(user("ann") + user("bob") + user("eve"))
    ann, bob, eve = (come(broker, name) for name in ("ann", "bob", "eve"))
    ann.talk(b"SUB a 1\r\n")
    reload(broker, user("ann") + user("eve", token="another") + user("new"))
    for gone in (bob, eve):
        assert b"-ERR 'Authorization Violation'" in gone.read_to_end()
    with come(broker, "new") as new:
        new.talk(b"PUB a 2\r\nhi\r\n")
    assert ann.talk(b"") == b"MSG a 1 2\r\nhi\r\nPONG\r\n"
    with pytest.raises(Closed):
        come(broker, "bob")
    for client in (ann, bob, eve):
        client.close()


def test_permissions_of_those_who_are_there(start_broker: StartBroker) -> None:
    broker = start_broker(user("ann") + user("free"))
    ann, free = come(broker, "ann"), come(broker, "free")
    ann.talk(b"SUB a.> 1\r\nSUB b q 2\r\nPUB b 1\r\nx\r\n")
    rules = ('publish = { deny = ["b"] }', 'subscribe = { allow = ["a.>"], deny = ["a.secret"] }')
    reload(broker, user("ann", *rules) + user("free"))
    assert ann.read_until(b"\r\n") == b'-ERR \'Permissions Violation for Subscription to "b" using queue "q"\'\r\n'
    free.talk(b"PUB a.secret 1\r\nx\r\nPUB b 1\r\nx\r\nPUB a.open 1\r\nx\r\n")
    assert ann.talk(b"") == b"MSG a.open 1 1\r\nx\r\nPONG\r\n"
    assert ann.talk(b"PUB b 1\r\nx\r\n").startswith(b"-ERR 'Permissions Violation for Publish to \"b\"'")
    reload(broker, user("ann") + user("free"))
    free.talk(b"PUB a.secret 1\r\nx\r\n")
    assert ann.talk(b"") == b"MSG a.secret 1 1\r\nx\r\nPONG\r\n"
    ann.close()
    free.close()


def test_no_message_is_lost(start_broker: StartBroker) -> None:
    """Messages on their way while the rules of their consumer change."""
    broker = start_broker(user("ann") + user("free"))
    ann, free = come(broker, "ann"), come(broker, "free")
    ann.talk(b"SUB a 1\r\n")
    for number in range(20):
        free.send(b"PUB a 3\r\n%03d\r\n" % number)
        if number % 5 == 0:
            denied = f'subscribe = {{ deny = ["x{number}"] }}'
            reload(broker, user("ann", denied) + user("free"))
    free.talk(b"")
    heard = ann.talk(b"")
    assert [heard.count(b"%03d\r\n" % number) for number in range(20)] == [1] * 20
    ann.close()
    free.close()


def test_a_mistake_changes_nothing_and_says_the_line(start_broker: StartBroker) -> None:
    broker = start_broker(user("ann"))
    line = reload(broker, user("ann") + "\n[limits]\npayload = 7 x\n", "nothing has changed")
    assert "fumarole.toml:6" in line
    line = reload(broker, "[limits]\npayload = 7\npaylod = 9\n", "nothing has changed")
    assert "fumarole.toml:3: limits.paylod" in line
    with come(broker, "ann") as ann:
        assert ann.info["max_payload"] == 1 << 20


def test_limits_log_level_and_what_waits_for_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    line = reload(broker, 'node = "other"\n[limits]\npayload = 99\n[log]\nlevel = "info"\n')
    assert line.endswith("these wait for a restart: node")
    with RawClient(broker.port) as client:
        assert client.info["max_payload"] == 99
        assert client.talk(b"PUB a 100\r\n", b"\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"


def test_fewer_connections(start_broker: StartBroker) -> None:
    """Of more connections than the new limit the newest end, with the error of one that comes too late."""
    broker = start_broker()
    clients = [RawClient(broker.port) for _ in range(4)]
    for client in clients:
        client.connect()
    reload(broker, "[limits]\nconnections = 2\n")
    for client in clients[2:]:
        assert client.read_to_end() == b"-ERR 'maximum connections exceeded'\r\n"
    for client in clients[:2]:
        assert client.talk(b"") == b"PONG\r\n"
    for client in clients:
        client.close()


def test_an_outbox_of_a_namespace(start_broker: StartBroker) -> None:
    """The rules of a namespace hold for those who are there."""
    broker = start_broker()
    with RawClient(broker.port, receive_buffer=4096) as slow, RawClient(broker.port) as publisher:
        slow.connect()
        slow.talk(b"SUB a 1\r\n")
        reload(broker, '[namespaces.default]\noverflow = "disconnect"\noutbox = "64 KiB"\n')
        publisher.connect()
        for _ in range(100):
            publisher.talk(b"PUB a 100000\r\n" + b"x" * 100_000 + b"\r\n")
        assert b"Slow Consumer" in slow.read_to_end()


def test_certificates_are_new_for_new_connections(
    start_broker: StartBroker, authority: Authority, tmp_path: Path
) -> None:
    """At doors where TLS comes after INFO, and where it comes first."""
    http = "127.0.0.1:0"
    config = f'doors.nats = ["127.0.0.1:0"]\ndoors.msgpack = ["{http}"]\n'
    broker = start_broker(config + authority.config())
    port = int(next(line for line in broker.log if "MsgPack door open" in line).split(":")[-1].split()[0])
    before = certificate(port)
    other = Authority(tmp_path)
    reload(broker, config + other.config())
    assert certificate(port) != before
    context = other.client_context()
    with RawClient(broker.port) as raw:
        raw.socket = context.wrap_socket(raw.socket, server_hostname="127.0.0.1")
        raw.connect()


def certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=SECONDS)


def test_all_workers_load_it(start_broker: StartBroker) -> None:
    broker = start_broker("workers = 2\n" + user("ann"))
    clients = [come(broker, "ann") for _ in range(40)]
    reload(broker, "workers = 2\n" + user("new"))
    for client in clients:
        assert b"-ERR 'Authorization Violation'" in client.read_to_end()
        client.close()
    for _ in range(4):
        come(broker, "new").close()
    line = reload(broker, "[limits]\npaylod = 9\n", "nothing has changed")
    assert "fumarole.toml:2: limits.paylod" in line


def test_hanging_up_ends_no_broker(start_broker: StartBroker) -> None:
    broker = start_broker()
    broker.ask_to_end(signal.SIGHUP)
    with RawClient(broker.port) as client:
        client.connect()
    broker.stop()


def asked(broker: RunningBroker, token: str = "") -> tuple[int, str]:
    """`fumarole reload`: its code and its output. The answer ends the command, not the time for answers (5 s)."""
    servers = f"nats://{token + '@' if token else ''}127.0.0.1:{broker.port}"
    command = [sys.executable, "-m", "fumarole", "reload", "--servers", servers]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert time.monotonic() - begin < 5
    return done.returncode, done.stdout + done.stderr


def test_asked_by_a_command(start_broker: StartBroker) -> None:
    admin = user("root", 'roles = ["admin"]')
    broker = start_broker(admin + user("ann"))
    file = broker.folder / "fumarole.toml"
    file.write_text(admin + user("new"))
    assert asked(broker, "ann") == (2, "only a user with the role admin may load the configuration again\n")
    assert asked(broker, "root") == (0, "loaded again\n")
    come(broker, "new").close()
    file.write_text(admin + "[limits]\npaylod = 9\n")
    code, said = asked(broker, "root")
    assert code == 2
    assert "fumarole.toml:6: limits.paylod: found an unknown setting" in said
    file.write_text('node = "b"\n' + admin)
    assert asked(broker, "root") == (0, "loaded again; these wait for a restart: node\n")
