"""The port for other nodes, and what strangers do there: refused, counted, logged on both sides, without harm to others."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from fumarole.cluster.identity import NONCE_BYTES, Identity, prove
from fumarole.protocols.cluster_protocol import (
    AnyFrame,
    Changes,
    Entry,
    Frame,
    Hello,
    LinkProtocol,
    Proof,
    Refusal,
    frame,
)
from tests.integration.cluster.clients import Client, ask
from tests.integration.cluster.nodes import Network, NodeProcess, Nodes, running
from tests.ports import free_port

SECRET = "a secret of this test"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("port")


@pytest.fixture(scope="module")
def nodes(folder: Path) -> Iterator[Nodes]:
    (folder / "secret").write_text(f"{SECRET}\nnot part of it\n")
    with running(folder, 2, flags=("--links-secret-file", str(folder / "secret"))) as started:
        yield started


class Stranger:
    """A stranger that connects to the port of a node."""

    def __init__(self, node: NodeProcess) -> None:
        host, _, port = node.cluster_address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 5.0)
        self._protocol = LinkProtocol(1024)

    def say(self, *what: Frame | bytes) -> None:
        with contextlib.suppress(OSError):
            self.socket.sendall(b"".join(part if isinstance(part, bytes) else frame(part) for part in what))

    def hear(self) -> AnyFrame | None:
        """The next frame; None: the node has closed the connection."""
        while (event := self._protocol.next_event()) is None:
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self._protocol.receive_data(more)
        return event  # type: ignore[return-value]

    def shake_hands(self, identity: Identity, secret: str = SECRET, lane: str = "data") -> AnyFrame | None:
        own = identity.hello(lane, os.urandom(NONCE_BYTES))
        self.say(own)
        other = self.hear()
        if not isinstance(other, Hello):
            return other
        self.say(Proof(prove(secret.encode(), "dialed", own, other)))
        return self.hear()


@pytest.fixture
def stranger(nodes: Nodes) -> Iterator[Stranger]:
    """Under watch: both nodes go on as before, and still know each other."""
    before = status(nodes[0])
    made = Stranger(nodes[0])
    yield made
    made.socket.close()
    time.sleep(0.05)
    after = status(nodes[0])
    assert [peer["node"] for peer in after["peers"]] == ["node-1"]
    assert after["incarnation"] == before["incarnation"]
    assert after["peers"][0]["state"] == "live"
    consumer, publisher = (Client(node.host, node.port) for node in nodes.nodes)
    consumer.say(b"SUB canary 1\r\n")
    consumer.flush()
    publisher.say(b"PUB canary 2\r\nhi\r\n")
    consumer.hear_until(b"MSG canary 1 2\r\nhi\r\n")
    consumer.close()
    publisher.close()


def status(node: NodeProcess) -> dict[str, Any]:
    return ask(node.host, node.port, b"cluster")


def me(**changes: Any) -> Identity:
    given: dict[str, Any] = {"node": "stranger", "cluster": "fumarole", "version": "0", "incarnation": 1, **changes}
    return Identity(**given)


GARBAGE = {
    "a web browser": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "a NATS client": b'CONNECT {"verbose":false}\r\nPING\r\n',
    "four gigabytes announced": b"CTL 4294967295\r\n",
    "a large hello": b"CTL 17000\r\n" + b"x" * 17000,
    "noise": bytes(range(256)) * 100,
    "a message before the proof": b"MSG a default 2\r\nhi\r\n",
    "a line without end": b"x" * 20_000,
    "a proof before the hello": frame(Proof(b"x" * 32)),
    "changes before the proof": frame(Changes(1, (Entry("default", ">", "", 1),))),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused(stranger: Stranger, name: str) -> None:
    stranger.say(GARBAGE[name])
    said = stranger.hear()
    assert isinstance(said, Refusal) or said is None
    assert stranger.hear() is None


def test_half_a_handshake_is_ended(stranger: Stranger) -> None:
    stranger.say(me().hello("data", bytes(NONCE_BYTES)))
    assert isinstance(stranger.hear(), Hello)
    began = time.monotonic()
    said = stranger.hear()
    assert said == Refusal("the handshake took too long")
    assert time.monotonic() - began < 4.0


REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "a wrong secret": ({}, "guessed", "does not know the secret of this cluster"),
    "no secret": ({}, "", "does not know the secret of this cluster"),
    "another cluster": ({"cluster": "field"}, SECRET, "belongs to the cluster 'field', not fumarole"),
    "a name that is taken": ({"node": "node-1"}, SECRET, "there is a live node with the name 'node-1' already"),
    "our own name": ({"node": "node-0"}, SECRET, "there is another node with the name 'node-0'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_stranger_is_refused(stranger: Stranger, nodes: Nodes, name: str) -> None:
    changes, secret, reason = REFUSED[name]
    said = stranger.shake_hands(me(**changes), secret)
    assert isinstance(said, Refusal)
    assert reason in said.reason
    assert SECRET not in nodes[0].log.read_text()


def test_a_replay_is_refused(stranger: Stranger, nodes: Nodes) -> None:
    """What an honest node once said to prove itself is worth nothing the next time."""
    own = me().hello("data", os.urandom(NONCE_BYTES))
    stranger.say(own)
    other = stranger.hear()
    assert isinstance(other, Hello)
    proof = Proof(prove(SECRET.encode(), "dialed", own, other))
    again = Stranger(nodes[0])
    again.say(own)
    assert isinstance(again.hear(), Hello)
    again.say(proof)
    said = again.hear()
    assert isinstance(said, Refusal)
    assert "secret" in said.reason
    again.socket.close()


def test_what_is_refused_is_counted_and_said_on_both_sides(tmp_path: Path) -> None:
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"the {name} secret of a cluster")
    with running(tmp_path, 1, flags=("--links-secret-file", str(tmp_path / "right"))) as nodes:
        wrong = ("--links-secret-file", str(tmp_path / "wrong"))
        other = NodeProcess(tmp_path, 7, Network(), 0, [nodes[0].cluster_address], wrong)
        assert (status(nodes[0])["peers"], status(other)["peers"]) == ([], [])
        assert status(nodes[0])["refused"] > 0
        reason = "node 'node-7' does not know the secret of this cluster"
        assert [(each["node"], each["why"]) for each in status(other)["missing"]] == [
            ("node-0", f'refused: "{reason}"')
        ]
        other.stop()
        assert f"'node-7' at 127.0.0.1 is refused: {reason}" in nodes[0].log.read_text()
        assert f"'node-0' at {nodes[0].cluster_address} refused this node: \"{reason}\"" in other.log.read_text()
        # The next mistake is said too, though it is the same minute.
        stranger = ("--links-secret-file", str(tmp_path / "right"), "--node", "node-0")
        NodeProcess(tmp_path, 8, Network(), 0, [nodes[0].cluster_address], stranger).stop()
        assert "is refused: there is another node with the name 'node-0'" in nodes[0].log.read_text()


def test_who_is_looked_for_is_named(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with running(tmp_path, 2, flags=("--peer", nobody)) as nodes:
        assert f"joined no node: {nobody} (connection refused); still trying" in nodes[0].log.read_text()
        lost = NodeProcess(tmp_path, 7, Network(), 0, [f"127.0.0.1:{nodes[0].port}"])
        lost.stop()
        assert "not a frame of this protocol; is it the `cluster` address of the other node?" in lost.log.read_text()
        nodes[1].kill()
        deadline = time.monotonic() + 20
        # At first it is only gone; that no process listens there is known when it was tried again.
        while [each["why"] for each in status(nodes[0])["missing"]] != ["connection refused"] * 2:
            assert time.monotonic() < deadline, status(nodes[0])["missing"]
            time.sleep(0.05)
        command = [sys.executable, "-m", "fumarole.cli.main", "cluster", "status"]
        command += ["--servers", f"nats://127.0.0.1:{nodes[0].port}"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = {line.partition(" for ")[0]: line for line in shown.splitlines()[3:]}
        assert lines.keys() == {
            f"node-1 at {nodes[1].cluster_address} has been away",
            f"no node has been found at {nobody}",
        }
        assert all(line.endswith(" s: connection refused") for line in lines.values())


def test_mutual_tls(tmp_path: Path) -> None:
    """Nodes with certificates of one authority find each other; one with another's, or without, stays outside."""
    files = {}
    for name in ("ours", "theirs"):
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1")
        paths = [tmp_path / f"{name}.{kind}" for kind in ("pem", "key", "authority")]
        certificate.cert_chain_pems[0].write_to_path(str(paths[0]))
        certificate.private_key_pem.write_to_path(str(paths[1]))
        authority.cert_pem.write_to_path(str(paths[2]))
        flags = ("--links-certificate", "--links-key", "--links-authority")
        files[name] = tuple(word for flag, path in zip(flags, paths, strict=True) for word in (flag, str(path)))
    with running(tmp_path, 2, flags=files["ours"]) as nodes:
        assert [peer["node"] for peer in status(nodes[0])["peers"]] == ["node-1"]
        consumer, publisher = (Client(node.host, node.port) for node in nodes.nodes)
        consumer.say(b"SUB a 1\r\n")
        consumer.flush()
        publisher.say(b"PUB a 100000\r\n" + b"x" * 100_000 + b"\r\n")
        consumer.hear_until(b"x" * 100_000 + b"\r\n")
        silent = Stranger(nodes[0])  # its handshake of TLS never begins
        for number, others in enumerate([files["theirs"], ()], 5):
            other = NodeProcess(tmp_path, number, Network(), 0, [nodes[0].cluster_address], others)
            assert status(other)["peers"] == []
            other.stop()
        assert [peer["node"] for peer in status(nodes[0])["peers"]] == ["node-1"]
        assert silent.hear() is None
        silent.socket.close()
        consumer.close()
        publisher.close()
