"""Very many MQTT clients that do the same at once: take-overs, wills, and all that is retained (L1, hazard 14).

Each has a small form, and a long one among the soaks. A process has 20,000 descriptors on many machines, so the long
forms have as many clients as that allows; 100,000 wills at once are published in tests/sessions/test_mqtt.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import NONE
from fumarole.protocols.mqtt_packets import V3, Connect, Filter, Publish, Subscribe, Will
from tests.integration.conftest import Brokers
from tests.integration.mqtt.raw_mqtt import PATIENCE, Raw
from tests.integration.mqtt.test_mqtt import port_of
from tests.integration.oracle import Target, watched

CONFIG = '[doors]\nmqtt = ["127.0.0.1:0"]\n[limits]\nquota.retained_bytes = "1 GiB"\nmemory = "3 GiB"\n'
AT_ONCE = 250
MANY_MIB = 512 * 1024 * 1024
WILL = Will("gone", b"bye", 0, False, NONE)


@pytest.fixture
def target(brokers: Brokers) -> Iterator[Target]:
    broker = brokers.share(CONFIG, observed=True)
    with watched(broker, brokers.canary(broker)) as watched_target:
        watched_target.memory_margin = MANY_MIB
        yield watched_target


def sizes(small: int, large: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "count", [small, pytest.param(large, marks=[pytest.mark.soak, pytest.mark.timeout(600)])]
    )


def connected(port: int, numbers: range) -> list[socket.socket]:
    """Clients of these numbers, all let in."""
    made = []
    for number in numbers:
        peer = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        peer.sendall(packets.connect(Connect(V3, f"c{number}", True, 0, None, None, WILL, NONE)))
        made.append(peer)
    for peer in made:
        assert exactly(peer, 4) == b"\x20\x02\x00\x00"
    return made


def exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := peer.recv(size - len(data))):
        data += more
    return data


def counted(watcher: Raw, count: int) -> None:
    """So many messages come, and not one more."""
    for _ in range(count):
        assert isinstance(watcher.hear(), Publish)
    watcher.settle()
    assert watcher.heard() == []


@sizes(600, 10_000)
def test_all_ids_are_taken_over(target: Target, count: int) -> None:
    """The same ids again, by new connections: each older one is cut off, and its will is published."""
    port = port_of(target.broker)
    with Raw(port, "watcher") as watcher:
        watcher.subscribe("gone")
        older = connected(port, range(count))
        newer = []
        for begin in range(0, count, AT_ONCE):
            numbers = range(begin, min(begin + AT_ONCE, count))
            newer += connected(port, numbers)
            for number in numbers:
                assert older[number].recv(1) == b""
                older[number].close()
        counted(watcher, count)
        for peer in newer:
            peer.sendall(packets.disconnect())
            peer.close()


@sizes(1_000, 10_000)
def test_all_clients_are_gone_at_once(target: Target, count: int) -> None:
    """Their wills come, each once, while the loop serves others."""
    port = port_of(target.broker)
    with Raw(port, "watcher") as watcher:
        watcher.subscribe("gone")
        for peer in connected(port, range(count)):
            peer.close()
        counted(watcher, count)


@sizes(20_000, 1_000_000)
def test_all_that_is_retained(target: Target, count: int) -> None:
    """A subscriber gets every retained message once, as fast as it reads."""
    port = port_of(target.broker)
    (peer,) = connected(port, range(1))

    def retain(payload: bytes) -> int:
        total = 0
        for begin in range(0, count, 1_000):
            said = b"".join(
                packets.publish(Publish(f"plant/{number}", payload, 0, True, False, 0, NONE), V3)
                for number in range(begin, min(begin + 1_000, count))
            )
            peer.sendall(said)
            total += len(said)
        peer.settimeout(PATIENCE * 10)
        peer.sendall(packets.PINGREQ)
        assert exactly(peer, 2) == packets.PINGRESP
        return total

    total = retain(b"21.5")
    (reader,) = connected(port, range(1, 2))
    reader.sendall(packets.subscribe(Subscribe(1, (Filter("plant/#", 0),), NONE), V3))
    assert exactly(reader, 5) == b"\x90\x03\x00\x01\x00"
    heard = exactly(reader, total)
    assert len(heard) == total
    assert heard.count(b"21.5") == count
    reader.sendall(packets.disconnect())
    retain(b"")
    peer.sendall(packets.disconnect())
    reader.close()
    peer.close()
