"""Messages that never end: memory stays bounded, the loop goes on, and other clients lose nothing (L1, L2, A6)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from tests.integration.bridge.bridges import Dealer, RunningBridge, dealers, pack
from tests.integration.bridge.conftest import StartBridge
from tests.integration.bridge.raw_peer import MORE, RawPeer, frame
from tests.integration.oracle import MIB, STANDSTILL

MOST_GROWTH = 50 * MIB
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
def bounded(bridge: RunningBridge) -> Iterator[None]:
    """Within, a peer may do what it likes."""
    with dealers(bridge.endpoint, 2) as (publisher, consumer):
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


@pytest.mark.parametrize("size", [0, 1, 255, 256, 64 * 1024, MIB], ids=lambda size: f"{size} bytes")
@pytest.mark.parametrize("peers", [1, 20])
def test_parts_without_end(start_bridge: StartBridge, size: int, peers: int) -> None:
    """The bridge grew by 1.4 GB in 3 s. Now a message has a size and a number of parts, and then its peer is cut."""
    bridge = start_bridge()
    part = frame(bytes(size), MORE)
    chunk = part * max(1, 256 * 1024 // len(part))

    def attack() -> None:
        with RawPeer(bridge.endpoint) as peer:
            sent.append(peer.pour(chunk, ENOUGH // peers))

    sent: list[int] = []
    with bounded(bridge):
        threads = [threading.Thread(target=attack) for _ in range(peers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(sent) < ENOUGH // peers, "the connection was never cut"
