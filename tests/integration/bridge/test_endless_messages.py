"""Messages that never end: memory stays bounded, the loop goes on, and other clients lose nothing (L1, L2, A6)."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq.auth
from zmq.utils import z85

from tests.bridge.curve_client import GREETING as CURVE_GREETING
from tests.bridge.curve_client import CurveClient, command
from tests.integration.bridge.bridges import Dealer, RunningBridge, dealers, make_keys, pack
from tests.integration.bridge.conftest import StartBridge
from tests.integration.bridge.raw_peer import COMMAND, MORE, RawPeer, frame
from tests.integration.oracle import MIB, STANDSTILL

MOST_GROWTH = 50 * MIB
LASTING = ("--ttl", "600")
"""The canary binds once."""
ENOUGH = 1_500 * MIB
"""Bytes that are poured in unless the bridge ends the connection."""


class Canary:
    """Two clients, one of which publishes numbers through the broker to the other, all the time."""

    def __init__(self, publisher: Dealer, consumer: Dealer) -> None:
        self._publisher = publisher
        self._consumer = consumer
        self._stop = threading.Event()
        self._published = 0
        consumer.bind("", "canary.#")
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        while not self._stop.wait(0.01):
            self._publisher.say(b"send", b"amq.topic", b"canary.a", pack(b"%d" % self._published))
            self._published += 1

    def check(self) -> None:
        self._stop.set()
        self._thread.join()
        heard = [message["payload"] for _, message in self._consumer.messages(self._published)]
        assert heard == [b"%d" % number for number in range(self._published)]


@contextlib.contextmanager
def bounded(bridge: RunningBridge, **keys: Any) -> Iterator[None]:
    """Within, a peer may do what it likes."""
    with dealers(bridge.endpoint, 2, **keys) as (publisher, consumer):
        canary = Canary(publisher, consumer)
        time.sleep(0.2)
        bridge.observe()
        memory = bridge.memory()
        yield
        canary.check()
    seen = bridge.observe()
    assert bridge.peak_memory() - memory < MOST_GROWTH
    assert seen["stood_still"] <= STANDSTILL
    assert "Traceback" not in "\n".join(bridge.log)


def run_all(attacks: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=attack) for attack in attacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("size", [0, 1, 255, 256, 64 * 1024, MIB], ids=lambda size: f"{size} bytes")
@pytest.mark.parametrize("peers", [1, 20])
def test_parts_without_end(start_bridge: StartBridge, size: int, peers: int) -> None:
    """The bridge grew by 1.4 GB in 3 s. Now a message has a size and a number of parts, and then its peer is cut."""
    bridge = start_bridge(*LASTING)
    part = frame(bytes(size), MORE)
    chunk = part * max(1, 256 * 1024 // len(part))

    def attack() -> None:
        with RawPeer(bridge.endpoint) as peer:
            sent.append(peer.pour(chunk, ENOUGH // peers))

    sent: list[int] = []
    with bounded(bridge):
        run_all([attack] * peers)
    assert max(sent) < ENOUGH // peers, "the connection was never cut"
    assert bridge.status()["connections"]["cut_off"] == peers
    assert sum("was cut off" in line for line in bridge.log) == 1


def test_peers_that_come_again_as_soon_as_they_are_cut(start_bridge: StartBridge) -> None:
    bridge = start_bridge(*LASTING)
    chunk = frame(b"", MORE) * 100_000
    until = time.monotonic() + 3.0

    def attack() -> None:
        while time.monotonic() < until:
            with RawPeer(bridge.endpoint) as peer:
                peer.pour(chunk, ENOUGH)

    with bounded(bridge):
        run_all([attack] * 4)


def test_the_peer_is_told(start_bridge: StartBridge) -> None:
    bridge = start_bridge(*LASTING)
    with RawPeer(bridge.endpoint) as peer:
        peer.pour(frame(b"x", MORE) * 70_000, 3 * 70_000)
        said = frame(b"error", MORE) + frame(b"a message of more than 65536 parts; the connection is closed")
        assert peer.read(len(said)) == said
        assert peer.socket.recv(1) == b""


def test_many_messages_that_stop_half_way(start_bridge: StartBridge) -> None:
    """300 peers with a megabyte each. What they hold together is bounded; one that goes on and ends is heard."""
    bridge = start_bridge(*LASTING)
    half = frame(b"send", MORE) + b"\x03" + struct.pack(">Q", MIB) + bytes(MIB - 1)
    peers = []
    with bounded(bridge):
        with dealers(bridge.endpoint) as (large,):
            large.bind("", "large")
            for number in range(300):
                peers.append(RawPeer(bridge.endpoint))
                with contextlib.suppress(OSError):
                    peers[-1].socket.sendall(half)
                if number % 100 == 50:
                    large.say(b"send", b"amq.topic", b"large", pack(bytes(MIB)))
                    large.messages(1)
        for peer in peers:
            peer.socket.close()
    assert bridge.status()["connections"]["cut_off"] >= 300 - 32


def test_questions_without_end_from_a_peer_that_reads_nothing(start_bridge: StartBridge) -> None:
    """Each answer has its place, and there is only one."""
    bridge = start_bridge(*LASTING)
    for question in (
        frame(b"\x04PING\x00\x00" + b"x" * 16, COMMAND),
        frame(b"nonsense"),
        frame(b"status", MORE) + frame(b"1"),
    ):
        with bounded(bridge), RawPeer(bridge.endpoint) as peer:
            peer.socket.settimeout(1.0)
            peer.pour(question * 1_000, 5 * MIB)


def test_clients_that_take_nothing(start_bridge: StartBridge) -> None:
    """30 clients want all, and read nothing of 200 messages of half a megabyte. Those that read get all."""
    bridge = start_bridge(*LASTING)
    with contextlib.ExitStack() as stack:
        with bounded(bridge):
            for _ in range(30):
                peer = stack.enter_context(RawPeer(bridge.endpoint))
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                peer.say(b"bind", b"", b"#")
            with dealers(bridge.endpoint, 2) as (publisher, consumer):
                consumer.bind("", "flood")
                for number in range(200):
                    publisher.say(b"send", b"amq.topic", b"flood", pack(b"%d" % number + bytes(MIB // 2)))
                    assert consumer.messages(1)[0][1]["payload"].startswith(b"%d" % number)
        assert bridge.status()["dropped"]["client slow"] > 30 * 150


def test_parts_without_end_inside_curve(start_bridge: StartBridge, tmp_path: Path) -> None:
    """Only the one with the keys sees that there is more to come: a client that is let in is bounded too."""
    keys = make_keys(tmp_path, "bridge")
    bridge = start_bridge("--curve-key", keys.secret, *LASTING)
    server = z85.decode(zmq.auth.load_certificate(keys.public)[0])
    own_public, own_secret = zmq.curve_keypair()
    options = {
        "curve_serverkey": z85.encode(server),
        "curve_publickey": own_public,
        "curve_secretkey": own_secret,
    }
    for size in (0, 60_000):
        with bounded(bridge, **options):
            client = CurveClient(server)
            with RawPeer(bridge.endpoint, hello=None) as peer:
                peer.socket.sendall(CURVE_GREETING)
                peer.read(64)
                peer.socket.sendall(command(client.hello()))
                client.take_welcome(peer.read(2 + 168)[2:])
                peer.socket.sendall(command(client.initiate()))
                length = peer.read(2)[1]
                client.take_ready(peer.read(length))
                sent = 0
                with contextlib.suppress(OSError):
                    while sent < 200 * MIB:
                        chunk = b"".join(client.frame(1, bytes(size)) for _ in range(100))
                        peer.socket.sendall(chunk)
                        sent += len(chunk)
            assert sent < 200 * MIB
    assert bridge.status()["connections"]["cut_off"] == 2
